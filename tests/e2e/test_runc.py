"""Containers of a real runc: all that every runtime does, and what only isolation shows."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import signal
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dray.api.codec import view
from dray.api.core import Pod
from dray.cdi.edits import DeviceNode
from dray.errors import DeniedError, HardwareError, InvalidError, NotFoundError
from dray.kubelet.pods.volumes import Volumes
from dray.kubelet.runtimes.contract import ContainerConfig, Profile, Security, State
from dray.kubelet.runtimes.liveness import Identity
from dray.kubelet.runtimes.mounts import mounted_below
from dray.kubelet.runtimes.records import Running
from dray.kubelet.runtimes.runc import RuncRuntime, RuncSettings, cgroup_of
from dray.runtime.clock import SystemClock
from dray.testing.kubernetes.tools import Tools
from tests.e2e.busybox_root import make_root
from tests.e2e.cgroups import cgroups_like
from tests.kubelet.pods.test_environment import Objects
from tests.kubelet.runtimes.conformance import (
    KeptConformance,
    World,
    told,
    wait_gone,
    wait_log,
    wait_state,
    wait_text,
)


@pytest.fixture(scope="module")
def rootfs(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With users and groups."""
    root = make_root(tmp_path_factory.mktemp("rootfs"), tools)
    (root / "etc" / "passwd").write_text("root:x:0:0::/:/bin/sh\nworker:x:1234:1235::/:/bin/sh\n")
    (root / "etc" / "group").write_text("root:x:0:\nworkers:x:1235:\ncrew:x:1300:worker\n")
    return root


@pytest.fixture
def settings(tools: Tools, tmp_path: Path) -> RuncSettings:
    return RuncSettings(
        tmp_path / "state",
        runc=tools.path("runc"),
        allow_host_image=True,
        cdi_directories=(tmp_path / "cdi",),
    )


@pytest.fixture
def world(settings: RuncSettings, rootfs: Path, tmp_path: Path) -> Iterator[World]:
    shared = tmp_path / "shared"
    shared.mkdir()
    maker = f"dray.kubelet.runtimes.runc:RuncRuntime(RuncSettings(directory / 'state', runc=Path({str(settings.runc)!r}), allow_host_image=True))"
    yield World(
        tmp_path,
        lambda: RuncRuntime(settings),
        maker,
        f"dir:{rootfs}",
        shared,
        has_mounts=True,
        start_seconds=0.3,
    )
    asyncio.run(_remove_all(settings))
    assert mounted_below(tmp_path) == []
    assert cgroups(settings) == []
    assert not any((tmp_path / "state" / "runc").iterdir())


async def _remove_all(settings: RuncSettings) -> None:
    async with RuncRuntime(settings) as runtime:
        for sandbox in await runtime.sandboxes():
            await runtime.remove_sandbox(sandbox.id)
        assert await runtime.containers() == ()
        assert list((settings.root / "trash").iterdir()) == []


def cgroups(settings: RuncSettings) -> list[str]:
    name = cgroup_of(settings.root, "*").removeprefix("/")
    return [str(path) for path in cgroups_like(name)]


async def ran(
    world: World, runtime: RuncRuntime, config: ContainerConfig, network: bool = False, pid: bool = False
) -> list[str]:
    """What the container printed, to its end; with the host's network or processes if wanted."""
    sandbox = await runtime.run_sandbox(replace(world.sandbox(), host_network=network, host_pid=pid))
    container = await runtime.create(sandbox, config)
    await runtime.start(container)
    await wait_state(runtime, container, State.EXITED)
    return [text for _, _, text in world.log(config)]


class TestRunc(KeptConformance):
    """All that holds for every runtime."""


async def test_it_sees_its_own_root_processes_name_and_network(world: World, settings: RuncSettings) -> None:
    script = "echo $$; ls /bin/busybox; hostname; ls /sys/class/net; ping -c1 -W1 127.0.0.1 >/dev/null && echo up; id -u"
    async with RuncRuntime(settings) as runtime:
        lines = await ran(world, runtime, world.container(script))
    assert lines == ["1", "/bin/busybox", "host-u1", "lo", "up", "0"]


async def test_containers_of_a_pod_share_its_network(world: World, settings: RuncSettings) -> None:
    server = world.container(
        "echo hello | nc -l -p 4000 127.0.0.1 || nc -l -p 4000 < /etc/group", name="server"
    )
    script = "for i in 1 2 3 4 5 6 7 8 9; do nc 127.0.0.1 4000 < /dev/null && exit 0; sleep 0.2; done; exit 1"
    async with RuncRuntime(settings) as runtime:
        sandbox = await runtime.run_sandbox(world.sandbox())
        await runtime.start(await runtime.create(sandbox, server))
        client = await runtime.create(sandbox, world.container(script, name="client"))
        await runtime.start(client)
        assert (await wait_state(runtime, client, State.EXITED)).exit_code == 0


async def test_host_network(world: World, settings: RuncSettings) -> None:
    async with RuncRuntime(settings) as runtime:
        lines = await ran(world, runtime, world.container("ls /sys/class/net; hostname"), network=True)
    assert lines == [*sorted(os.listdir("/sys/class/net")), os.uname().nodename]


async def test_host_pid_and_nothing_of_it_stays(world: World, settings: RuncSettings) -> None:
    beat = world.shared / "beat"
    script = f"[ $$ -gt 1 ] && echo seen; (while :; do echo >> {beat}; sleep 0.02; done) & until [ -s {beat} ]; do sleep 0.02; done"
    async with RuncRuntime(settings) as runtime:
        assert await ran(world, runtime, world.container(script), pid=True) == ["seen"]
    await wait_gone(beat)


async def test_devices_and_their_permissions(world: World, settings: RuncSettings) -> None:
    """The kernel's own node 1:3 under another name; and one that may be read but not written."""
    nodes = (DeviceNode("/dev/null", "/dev/mine", "rw"), DeviceNode("/dev/kmsg", "/dev/readonly", "r"))
    script = (
        "echo x > /dev/mine && echo written; (exec 3< /dev/readonly) && echo opened;"
        " (exec 3> /dev/readonly) 2>/dev/null || echo refused"
    )
    async with RuncRuntime(settings) as runtime:
        may_read = Security(add_capabilities=("SYSLOG",))
        config = replace(world.container(script), device_nodes=nodes, security=may_read)
        assert await ran(world, runtime, config) == ["written", "opened", "refused"]
        absent = replace(
            world.container("true", name="absent"), device_nodes=(DeviceNode("/dev/no", "/dev/no"),)
        )
        with pytest.raises(HardwareError, match="/dev/no does not exist"):
            await runtime.create(await runtime.run_sandbox(world.sandbox()), absent)


async def test_cdi_devices(world: World, settings: RuncSettings, tmp_path: Path) -> None:
    edits = {"env": ["COLOUR=blue"], "deviceNodes": [{"path": "/dev/cdi0", "hostPath": "/dev/zero"}]}
    spec = {
        "cdiVersion": "0.6.0",
        "kind": "example.com/thing",
        "devices": [{"name": "one", "containerEdits": edits}],
    }
    (tmp_path / "cdi").mkdir()
    (tmp_path / "cdi" / "example.json").write_bytes(msgspec.json.encode(spec))
    config = replace(
        world.container("echo $COLOUR; head -c 3 /dev/cdi0 | wc -c"), cdi_devices=("example.com/thing=one",)
    )
    async with RuncRuntime(settings) as runtime:
        assert await ran(world, runtime, config) == ["blue", "3"]
        unknown = replace(world.container("true", name="b"), cdi_devices=("example.com/thing=two",))
        with pytest.raises(InvalidError, match="thing=two"):
            await runtime.create(await runtime.run_sandbox(world.sandbox()), unknown)
        assert len(await runtime.containers()) == 1


async def test_user_groups_and_read_only_root(world: World, settings: RuncSettings) -> None:
    security = Security(user=1234, supplemental_groups=(7,), read_only_root=True)
    config = replace(world.container("id -u; id -g; id -G; touch /x 2>&1"), security=security)
    async with RuncRuntime(settings) as runtime:
        lines = await ran(world, runtime, config)
    assert lines[:2] == ["1234", "1235"]
    assert set(lines[2].split()) == {"7", "1235", "1300"}
    assert lines[3:] == ["touch: /x: Read-only file system"]


async def test_privileged(world: World, settings: RuncSettings) -> None:
    script = "grep CapEff /proc/self/status; ls /dev/kmsg; mount -t tmpfs t /tmp && echo mounted"
    async with RuncRuntime(settings) as runtime:
        config = replace(world.container(script), security=Security(privileged=True))
        lines = await ran(world, runtime, config)
        plain = await ran(world, runtime, world.container(script, name="plain"))
    assert (lines[1:], plain[-1:]) == (["/dev/kmsg", "mounted"], ["mount: permission denied (are you root?)"])


async def test_out_of_memory_is_told(world: World, settings: RuncSettings) -> None:
    config = replace(
        world.container("head -c 200000000 /dev/zero | tail; echo survived; exit 9"), memory_limit=20 << 20
    )
    async with RuncRuntime(settings) as runtime:
        sandbox = await runtime.run_sandbox(world.sandbox())
        container = await runtime.create(sandbox, config)
        await runtime.start(container)
        assert (await wait_state(runtime, container, State.EXITED)).reason == "OOMKilled"


async def test_the_image_is_never_written_to(world: World, settings: RuncSettings, rootfs: Path) -> None:
    async with RuncRuntime(settings) as runtime:
        assert await ran(world, runtime, world.container("echo new > /new; rm /etc/group; cat /new")) == [
            "new"
        ]
        assert await ran(world, runtime, world.container("ls /new /etc/group 2>/dev/null", name="b")) == [
            "/etc/group"
        ]
    assert (rootfs / "etc" / "group").exists()
    assert not (rootfs / "new").exists()


async def test_the_host_as_image(world: World, settings: RuncSettings, tmp_path: Path) -> None:
    config = replace(
        world.container("ls -d /etc/hostname /etc/passwd; echo x > /etc/dray-e2e && echo own"), image="host"
    )
    async with RuncRuntime(settings) as runtime:
        assert (await ran(world, runtime, config))[-1] == "own"
        assert not Path("/etc/dray-e2e").exists()
        with pytest.raises(NotFoundError, match="there is no registry"):
            await runtime.ensure_image("docker.io/library/busybox", "Always")
    async with RuncRuntime(msgspec.structs.replace(settings, allow_host_image=False)) as strict:
        with pytest.raises(DeniedError, match="allow-host-image"):
            await strict.ensure_image("host", "Never")


def write_layout(path: Path, rootfs: Path, **config: object) -> None:
    """An OCI layout with the whole root directory as one layer, and one over it that takes a file away."""
    blobs = path / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def blob(data: bytes) -> dict[str, str]:
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"digest": f"sha256:{digest}"}

    bottom, top = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=bottom, mode="w:gz", compresslevel=1) as archive:
        archive.add(rootfs, ".")
    with tarfile.open(fileobj=top, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("etc/.wh.group"))
    manifest = {
        "config": blob(msgspec.json.encode({"config": config})),
        "layers": [blob(bottom.getvalue()), blob(top.getvalue())],
    }
    index = {"manifests": [blob(msgspec.json.encode(manifest))]}
    (path / "index.json").write_bytes(msgspec.json.encode(index))


async def test_an_oci_layout_as_image(
    world: World, settings: RuncSettings, rootfs: Path, tmp_path: Path
) -> None:
    write_layout(
        tmp_path / "layout",
        rootfs,
        Env=["COLOUR=red", "SHAPE=round"],
        Entrypoint=["/bin/sh", "-c"],
        Cmd=["exit 3"],
        User="worker",
        WorkingDir="/etc",
    )
    config = replace(world.container(""), image=f"oci:{tmp_path}/layout", command=())
    script = "echo $COLOUR $SHAPE; id -u; pwd; ls"
    async with RuncRuntime(settings) as runtime:
        lines = await ran(world, runtime, replace(config, args=(script,), env=(("COLOUR", "blue"),)))
        assert lines == ["blue round", "1234", "/etc", "passwd"]
        plain = await runtime.create(
            await runtime.run_sandbox(world.sandbox()), replace(config, name="d", args=())
        )
        await runtime.start(plain)
        assert (await wait_state(runtime, plain, State.EXITED)).exit_code == 3


async def test_a_killed_keeper(world: World, settings: RuncSettings) -> None:
    config = world.container("echo up; sleep 60")
    async with RuncRuntime(settings) as runtime:
        container = await runtime.create(await runtime.run_sandbox(world.sandbox()), config)
        await runtime.start(container)
        await wait_log(world, config, "up")
        directory = settings.root / "containers" / container
        keeper = msgspec.json.decode((directory / "keeper.json").read_bytes(), type=Identity)
        running = msgspec.json.decode((directory / "running.json").read_bytes(), type=Running)
        os.kill(keeper.pid, signal.SIGKILL)
        await runtime.wait_changed()
        assert (await told(runtime, container)).state is State.RUNNING
        await runtime.stop(container, 0.0)
        assert not running.is_alive
        assert (await told(runtime, container)).state is State.UNKNOWN


async def test_a_keeper_killed_between_create_and_start(world: World, settings: RuncSettings) -> None:
    """A runc that never comes back from `start` stands for it: the process of the container waits for ever."""
    program = world.directory / "runc"
    program.write_text(
        f'#!/bin/sh\ncase " $* " in *" start "*) echo $PPID $$ > {world.directory}/pids; exec sleep 1000;; esac\n'
        f'exec {settings.runc} "$@"\n'
    )
    program.chmod(0o755)
    async with RuncRuntime(msgspec.structs.replace(settings, runc=program)) as runtime:
        container = await runtime.create(
            await runtime.run_sandbox(world.sandbox()), world.container("echo ran")
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(runtime.start(container))
            await wait_text(world.directory / "pids", "\n")
            for pid in (world.directory / "pids").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
        assert (await told(runtime, container)).state is State.UNKNOWN
    assert world.log(world.container("")) == []


async def test_leftovers_of_a_crash_are_swept(world: World, settings: RuncSettings) -> None:
    """A container whose record is gone, with mounts, a cgroup and a process that still runs."""
    async with RuncRuntime(settings) as runtime:
        container = await runtime.create(
            await runtime.run_sandbox(world.sandbox()), world.container("sleep 60")
        )
        await runtime.start(container)
        (settings.root / "containers" / container).rename(settings.root / "trash" / "lost")
        assert cgroups(settings) != []
    async with RuncRuntime(settings) as runtime:
        assert await runtime.containers() == ()
        assert mounted_below(settings.root / "trash") == mounted_below(settings.root / "containers") == []
        assert cgroups(settings) == []


async def test_the_default_seccomp_profile(world: World, settings: RuncSettings) -> None:
    script = "grep -w Seccomp: /proc/self/status | tr -dc 0-9; unshare -U true 2>/dev/null || echo ' refused'"
    async with RuncRuntime(settings) as runtime:
        confined = Security(seccomp=Profile("RuntimeDefault"))
        assert await ran(world, runtime, replace(world.container(script), security=confined)) == ["2 refused"]
        plain = await ran(world, runtime, world.container(script.partition(";")[0], name="plain"))
    assert plain == ["0"]


async def test_a_seccomp_profile_of_the_node(world: World, settings: RuncSettings, tmp_path: Path) -> None:
    (tmp_path / "seccomp").mkdir()
    rule = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}
    profile = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}
    (tmp_path / "seccomp" / "no-mkdir.json").write_bytes(msgspec.json.encode(profile))
    local = msgspec.structs.replace(settings, seccomp=tmp_path / "seccomp")
    async with RuncRuntime(local) as runtime:
        confined = Security(seccomp=Profile("Localhost", "no-mkdir.json"))
        config = replace(world.container("mkdir /x 2>/dev/null || echo refused"), security=confined)
        assert await ran(world, runtime, config) == ["refused"]
        absent = Security(seccomp=Profile("Localhost", "absent.json"))
        with pytest.raises(NotFoundError, match=r"absent.json"):
            await runtime.create(
                await runtime.run_sandbox(world.sandbox()),
                replace(world.container("true", name="b"), security=absent),
            )


async def test_run_as_non_root_goes_by_the_resolved_user(world: World, settings: RuncSettings) -> None:
    async with RuncRuntime(settings) as runtime:
        sandbox = await runtime.run_sandbox(world.sandbox())
        as_root = replace(world.container("id -u"), security=Security(non_root=True))
        with pytest.raises(InvalidError, match="container has runAsNonRoot and image will run as root"):
            await runtime.create(sandbox, as_root)
        own = replace(world.container("id -u"), security=Security(non_root=True, user=1234))
        assert await ran(world, runtime, own) == ["1234"]


async def test_volumes_and_sub_paths(world: World, settings: RuncSettings, tmp_path: Path) -> None:
    """An init container plants a link to the host's root; what a subPath shows is the volume's, and objects are read-only."""
    mounts = [
        {"name": "v", "mountPath": "/v"},
        {"name": "v", "mountPath": "/good", "subPath": "good"},
        {"name": "cm", "mountPath": "/cm"},
        {"name": "cm", "mountPath": "/key", "subPath": "k"},
        {"name": "h", "mountPath": "/h", "readOnly": True},
    ]
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "file").write_text("held\n")
    (tmp_path / "link").symlink_to("host")
    host = {"name": "h", "hostPath": {"path": str(tmp_path / "link"), "type": "Directory"}}
    document: dict[str, Any] = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u1"},
        "spec": {
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "cm", "configMap": {"name": "cm"}}, host],
            "containers": [{"name": "c", "volumeMounts": mounts}],
        },
    }
    pod = view(document, Pod)
    volumes = Volumes(tmp_path / "pods", Objects(), SystemClock(), has_mounts=True)
    made = volumes.make(pod)
    shown = volumes.mounts(pod, pod.spec.containers[0], made, {})
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("/etc")
    script = (
        "ln -s / /v/link; echo x > /good/file; cat /v/good/file /cm/k /key; echo;"
        " (echo y > /cm/k) 2>/dev/null || echo refused; (echo y > /key) 2>/dev/null || echo refused;"
        " ln -s /etc/passwd /cm/.k.new 2>/dev/null || echo refused;"
        " cat /h/*; (echo y > /h/file) 2>/dev/null || echo refused"
    )
    async with RuncRuntime(settings) as runtime:
        lines = await ran(world, runtime, replace(world.container(script), mounts=shown))
    assert lines == ["x", "vv", "refused", "refused", "refused", "held", "refused"]
    linked = view({**document, "spec": _with_sub_path(document["spec"], "link/etc")}, Pod)
    with pytest.raises(InvalidError, match="leads out of"):
        volumes.mounts(linked, linked.spec.containers[0], made, {})
    volumes.remove("u1")


def _with_sub_path(spec: dict[str, Any], sub_path: str) -> dict[str, Any]:
    mounts = [{"name": "v", "mountPath": "/v", "subPath": sub_path}]
    return {**spec, "containers": [{"name": "c", "volumeMounts": mounts}]}
