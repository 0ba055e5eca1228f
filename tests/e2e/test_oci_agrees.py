"""The OCI spec that our runc runtime makes of a pod, beside the one that a real containerd makes of it: nothing weaker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dray.cdi.edits import DeviceNode
from dray.kubelet.runtimes.contract import ContainerConfig, PodIdentity, Profile, SandboxConfig, Security
from dray.kubelet.runtimes.cri import CriRuntime, CriSettings
from dray.kubelet.runtimes.runc import RuncRuntime, RuncSettings
from dray.testing.kubernetes.tools import Tools
from dray.wire.connect import connect
from dray.wire.cri import LIMITS, RuntimeClient
from dray.wire.gen import cri_v1_pb2 as pb
from tests.e2e.busybox_root import make_root
from tests.e2e.containerd_part import IMAGE, Containerd, containerd

Spec = dict[str, Any]
DEFAULT = Profile("RuntimeDefault")
CASES = {
    "plain": Security(),
    "confined": Security(seccomp=DEFAULT),
    "restricted": Security(
        seccomp=DEFAULT,
        drop_capabilities=("ALL",),
        add_capabilities=("NET_BIND_SERVICE",),
        no_new_privileges=True,
        user=1234,
        group=1235,
        non_root=True,
        supplemental_groups=(7, 8),
        strict_groups=True,
        read_only_root=True,
    ),
    "mighty": Security(seccomp=DEFAULT, add_capabilities=("SYS_ADMIN", "SYS_PTRACE", "SYS_TIME", "SYSLOG")),
    "nearly all": Security(seccomp=DEFAULT, add_capabilities=("ALL",), drop_capabilities=("SYS_ADMIN",)),
    "limited": Security(),
    "a user": Security(user=1000, group=1000),
    "privileged": Security(privileged=True, seccomp=DEFAULT),
    "privileged user": Security(privileged=True, user=1000, group=1000),
}
LIMITS_ASKED: dict[str, dict[str, Any]] = {
    "limited": {"cpu_shares": 512, "cpu_quota": 50_000, "memory_limit": 64 << 20}
}
LIMITING = {"ro", "nosuid", "noexec", "nodev"}
"""Options of a mount that take something away."""


@pytest.fixture(scope="module")
def daemon(tools: Tools) -> Iterator[Containerd]:
    with containerd(tools) as running:
        yield running


@pytest.fixture(scope="module")
def specs(
    daemon: Containerd, tools: Tools, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Spec, Spec]]:
    """Of each case: ours and containerd's."""
    directory = tmp_path_factory.mktemp("specs")
    root = make_root(tmp_path_factory.mktemp("rootfs"), tools)
    return asyncio.run(
        _made(daemon, RuncSettings(directory / "state", tools.path("runc"), True), root, directory)
    )


async def _made(
    daemon: Containerd, settings: RuncSettings, root: Path, directory: Path
) -> dict[str, tuple[Spec, Spec]]:
    found: dict[str, tuple[Spec, Spec]] = {}
    cri = CriSettings(directory.name, daemon.socket, daemon.cgroup)
    async with RuncRuntime(settings) as ours, CriRuntime(cri) as theirs:
        for number, (name, security) in enumerate(CASES.items()):
            pod = PodIdentity(f"u{number}", "ns", f"p{number}")
            sandbox = SandboxConfig(pod, "host", directory / "logs", privileged=security.privileged)
            config = ContainerConfig(
                pod,
                "c",
                f"dir:{root}",
                directory / "logs" / f"{number}.log",
                command=("/bin/true",),
                security=security,
                device_nodes=(DeviceNode("/dev/zero", "/dev/mine", "r"),),
                **LIMITS_ASKED.get(name, {}),
            )
            item = await ours.create(await ours.run_sandbox(sandbox), config)
            own = json.loads((settings.root / "containers" / item / "bundle" / "config.json").read_bytes())
            other = await theirs.create(await theirs.run_sandbox(sandbox), replace(config, image=IMAGE))
            found[name] = own, await _spec_of(daemon, other)
        for runtime in (ours, theirs):
            for each in await runtime.sandboxes():
                await runtime.remove_sandbox(each.id)
    return found


async def _spec_of(daemon: Containerd, container: str) -> Spec:
    async with connect(daemon.socket, timeout=30.0, limits=LIMITS) as channel:
        request = pb.ContainerStatusRequest(container_id=container, verbose=True)
        answer = await RuntimeClient(channel).container_status(request)
    spec: Spec = json.loads(answer.info["info"])["runtimeSpec"]
    return spec


def calls(spec: Spec) -> dict[str, set[str]]:
    """By system call: what is done, under which condition."""
    found: dict[str, set[str]] = {}
    for rule in spec["linux"]["seccomp"]["syscalls"]:
        conditions = [
            {"valueTwo": 0, **{key: value for key, value in one.items() if value}}
            for one in rule.get("args") or ()
        ]
        text = json.dumps([rule["action"], rule.get("errnoRet"), conditions], sort_keys=True)
        for name in rule["names"]:
            found.setdefault(name, set()).add(text)
    return found


@pytest.mark.parametrize("case", CASES)
def test_seccomp(specs: dict[str, tuple[Spec, Spec]], case: str) -> None:
    ours, theirs = specs[case]
    assert ("seccomp" in ours["linux"]) == ("seccomp" in theirs["linux"])
    if "seccomp" in ours["linux"]:
        own, other = ours["linux"]["seccomp"], theirs["linux"]["seccomp"]
        assert own["defaultAction"] == other["defaultAction"]
        assert own["architectures"] == other["architectures"]
        assert calls(ours) == calls(theirs)


@pytest.mark.parametrize("case", CASES)
def test_what_the_process_may_do(specs: dict[str, tuple[Spec, Spec]], case: str) -> None:
    ours, theirs = (spec["process"] for spec in specs[case])
    kinds = ("bounding", "effective", "permitted", "inheritable", "ambient")
    for kind in kinds:
        own = set(ours["capabilities"].get(kind) or ())
        assert own <= set(theirs["capabilities"].get(kind) or ()), kind
    assert ours.get("noNewPrivileges", False) == theirs.get("noNewPrivileges", False)
    for key in ("uid", "gid"):
        assert ours["user"][key] == theirs["user"][key]
    assert set(ours["user"]["additionalGids"]) <= {
        *theirs["user"].get("additionalGids", ()),
        ours["user"]["gid"],
    }
    assert (ours.get("rlimits"), ours.get("apparmorProfile")) == (
        theirs.get("rlimits"),
        theirs.get("apparmorProfile"),
    )
    assert ours["oomScoreAdj"] >= theirs.get("oomScoreAdj", 0)


@pytest.mark.parametrize("case", CASES)
def test_what_it_sees(specs: dict[str, tuple[Spec, Spec]], case: str) -> None:
    ours, theirs = specs[case]
    for key in ("maskedPaths", "readonlyPaths"):
        assert set(ours["linux"][key]) >= set(theirs["linux"].get(key) or ()), key
    assert ours["root"].get("readonly", False) == theirs["root"].get("readonly", False)
    options = {one["destination"]: set(one.get("options") or ()) for one in theirs["mounts"]}
    for mount in ours["mounts"]:
        kept = options.get(mount["destination"], set()) & LIMITING
        assert set(mount["options"]) >= kept, mount
    assert {one["destination"] for one in ours["mounts"]} <= set(options)
    kinds = [{one["type"] for one in spec["linux"]["namespaces"]} for spec in (ours, theirs)]
    assert kinds[0] >= kinds[1]
    sysctls = [(spec["linux"].get("sysctl") or {}).items() for spec in (ours, theirs)]
    assert sysctls[0] <= sysctls[1]
    for key in ("rootfsPropagation", "mountLabel"):
        assert ours["linux"].get(key) == theirs["linux"].get(key), key
    assert not ours.get("hooks")


@pytest.mark.parametrize("case", CASES)
def test_devices(specs: dict[str, tuple[Spec, Spec]], case: str) -> None:
    ours, theirs = ([_rule(one) for one in spec["linux"]["resources"]["devices"]] for spec in specs[case])
    assert ours[0] == theirs[0]
    assert set(ours) <= set(theirs) or theirs == [(True, "a", -1, -1, "rwm")]


@pytest.mark.parametrize("case", CASES)
def test_nodes_of_devices(specs: dict[str, tuple[Spec, Spec]], case: str) -> None:
    """Who owns them, and what he may do: the host's owner and mode, whoever the container runs as."""
    ours, theirs = ({one["path"]: _node(one) for one in spec["linux"]["devices"]} for spec in specs[case])
    assert "/dev/mine" in ours
    assert ours.items() <= theirs.items()


@pytest.mark.parametrize("case", CASES)
def test_what_it_may_use(specs: dict[str, tuple[Spec, Spec]], case: str) -> None:
    """Memory, swap and processors."""
    ours, theirs = (
        {kind: limits for kind, limits in spec["linux"]["resources"].items() if kind != "devices" and limits}
        for spec in specs[case]
    )
    assert ours == theirs
    assert bool(ours) == (case in LIMITS_ASKED)


def _node(one: Spec) -> tuple[object, ...]:
    numbers = tuple(one.get(key) or 0 for key in ("major", "minor", "uid", "gid"))
    return one["type"], *numbers, one.get("fileMode", 0) & 0o7777


def _rule(one: Spec) -> tuple[object, ...]:
    kind = one.get("type") or "a"
    return one["allow"], kind, one.get("major", -1), one.get("minor", -1), one["access"]
