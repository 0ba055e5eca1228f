"""`dray kubelet --runtime cri`: a device plugin's devices in pods of a real containerd, and either side may die."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dray.errors import UnavailableError
from dray.kubelet.runtimes.cri import CriRuntime, CriSettings
from dray.kubelet.runtimes.cri_requests import cgroup_parent
from dray.kubelet.runtimes.records import make_id
from dray.testing.kubernetes.tools import Tools
from dray.wire.connect import connect
from dray.wire.deviceplugin import KUBELET_SOCKET, VERSION, DevicePluginRegistrationClient
from dray.wire.gen import cri_v1_pb2 as pb
from dray.wire.gen.deviceplugin_v1beta1_pb2 import (
    AllocateResponse,
    CDIDevice,
    ContainerAllocateResponse,
    DeviceSpec,
    RegisterRequest,
)
from tests.e2e.cgroups import cgroups_like
from tests.e2e.containerd_part import IMAGE, Containerd, containerd
from tests.kubelet.plugins.real_plugin import RESOURCE, Plugin, devices
from tests.waiting import PATIENCE, wait_until

Json = dict[str, Any]
SCRIPT = "echo x > /dev/tape && head -c 3 /dev/cdi0 | wc -c && echo $COLOUR; exec sleep 60"


@dataclass
class Node:
    """A kubelet on directories of its own."""

    root: Path
    daemon: Containerd
    process: asyncio.subprocess.Process | None = field(default=None)

    @property
    def plugins(self) -> Path:
        return self.root / "device-plugins"

    @property
    def owner(self) -> str:
        return make_id(self.root / "state/containers")[:12]

    async def start(self, *more: str) -> None:
        argv = [sys.executable, "-m", "dray", "kubelet", "--manifests", str(self.root / "manifests")]
        argv += ["--runtime", "cri", "--cri-socket", str(self.daemon.socket), "--metrics-address", "none"]
        argv += ["--kubelet-dir", str(self.root), "--device-plugin-dir", str(self.plugins)]
        argv += ["--state-dir", str(self.root / "state"), "--log-dir", str(self.root / "logs"), *more]
        with (self.root / "kubelet.log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(*argv, stdout=log, stderr=log)

    async def kill(self, how: signal.Signals = signal.SIGKILL) -> int:
        process, self.process = self.process, None
        assert process is not None
        process.send_signal(how)
        return await process.wait()

    def put(self, name: str, count: int = 1, **spec: Any) -> None:
        container = {
            "name": "main",
            "image": IMAGE,
            "imagePullPolicy": "Never",
            "command": ["sh", "-c", SCRIPT],
            "resources": {"limits": {RESOURCE: str(count)}},
        }
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **spec},
        }
        (self.root / "manifests" / f"{name}.json").write_text(json.dumps(document))

    def status(self, name: str) -> Json:
        path = self.root / f"state/status/default_{name}.json"
        found: Json = json.loads(path.read_text())["status"] if path.exists() else {}
        return found

    def phase(self, name: str) -> str:
        return str(self.status(name).get("phase", ""))

    def held(self, name: str) -> list[str]:
        """The devices of a pod that runs."""
        (status,) = self.status(name)["containerStatuses"]
        return [one["resourceID"] for each in status["allocatedResourcesStatus"] for one in each["resources"]]

    def log(self, name: str) -> list[str]:
        files = list((self.root / "logs").glob(f"default_{name}_*/main/0.log"))
        return [line for path in files for line in texts(path)]

    def log_files(self, name: str) -> list[Path]:
        """The oldest first."""
        found = sorted((self.root / "logs").glob(f"default_{name}_*/main/0.log*"))
        return [*found[1:], *found[:1]]

    async def until(self, condition: Callable[[], Any], what: str) -> None:
        await wait_until(condition, what, lambda: (self.root / "kubelet.log").read_text()[-4000:])

    @asynccontextmanager
    async def plugged(self) -> AsyncIterator[None]:
        """A plugin with two devices, each a node and a CDI device. A kubelet that starts wants it to come anew."""
        answer = ContainerAllocateResponse(
            devices=[DeviceSpec(container_path="/dev/tape", host_path="/dev/null", permissions="rw")],
            cdi_devices=[CDIDevice(name="example.com/thing=one")],
        )
        plugin = Plugin(first=devices("a", "b"), answer=AllocateResponse(container_responses=[answer]))
        request = RegisterRequest(version=VERSION, endpoint="tape.sock", resource_name=RESOURCE)
        async with (
            connect(self.plugins / KUBELET_SOCKET, wait=20.0) as channel,
            plugin.serving(self.plugins / "tape.sock"),
        ):
            await DevicePluginRegistrationClient(channel).register(request)
            yield

    def runtime(self) -> CriRuntime:
        """To look at what the kubelet has made."""
        return CriRuntime(CriSettings(self.owner, self.daemon.socket))


def texts(path: Path) -> list[str]:
    return [line.split(" ", 3)[3] for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def daemon(tools: Tools) -> Iterator[Containerd]:
    with containerd(tools) as running:
        edits = {"env": ["COLOUR=blue"], "deviceNodes": [{"path": "/dev/cdi0", "hostPath": "/dev/zero"}]}
        thing = {"name": "one", "containerEdits": edits}
        spec = {"cdiVersion": "0.6.0", "kind": "example.com/thing", "devices": [thing]}
        (running.cdi / "example.json").write_text(json.dumps(spec))
        yield running


@pytest.fixture
async def node(daemon: Containerd) -> AsyncIterator[Node]:
    root = Path(tempfile.mkdtemp(prefix="dray-cri-"))
    for name in ("manifests", "device-plugins"):
        (root / name).mkdir()
    made = Node(root, daemon)
    try:
        await made.start()
        yield made
    finally:
        if made.process is not None:
            await made.kill()
        async with made.runtime() as runtime:
            for sandbox in await runtime.sandboxes():
                await runtime.remove_sandbox(sandbox.id)
        for path in cgroups_like(cgroup_parent(made.owner, pb.CGROUPFS)[1:]):
            path.rmdir()
        shutil.rmtree(root)


async def test_devices_reach_pods_and_stay_theirs_when_kubelet_or_containerd_die(node: Node) -> None:
    node.put("holder", hostNetwork=True)
    async with node.plugged():
        await node.until(lambda: node.phase("holder") == "Running", "holder Running")
        await node.until(lambda: node.log("holder") == ["3", "blue"], "its devices seen")
    held = node.held("holder")
    async with node.runtime() as runtime:
        (first,) = await runtime.containers()
        await node.kill()
        assert (await runtime.containers()) == (first,)
        await node.start()
        async with node.plugged():
            node.put("second")
            await node.until(lambda: node.phase("second") == "Running", "second Running")
            assert {*held, *node.held("second")} == {"a", "b"}
            await asyncio.to_thread(node.daemon.restart)
            await wait_sandboxes(runtime, "holder", "second")
            assert first in await runtime.containers()
            (node.root / "manifests/second.json").unlink()
            await wait_sandboxes(runtime, "holder")
            assert (await runtime.containers()) == (first,)
            assert node.held("holder") == held
            (node.root / "manifests/holder.json").unlink()
            await wait_sandboxes(runtime)
            assert await runtime.containers() == ()
            node.put("third", count=2)
            await node.until(lambda: node.phase("third") == "Running", "both devices free")
            assert sorted(node.held("third")) == ["a", "b"]
    assert await node.kill(signal.SIGTERM) == 0


async def wait_sandboxes(runtime: CriRuntime, *names: str) -> None:
    """Until these pods have one, and no others. containerd may have to find them again first."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(UnavailableError):
                found = await runtime.sandboxes()
                if sorted((one.pod.name, one.is_ready) for one in found) == [(name, True) for name in names]:
                    return
            await asyncio.sleep(0.05)


async def test_a_log_without_end_is_put_aside_and_containerd_goes_on_in_a_new_file(node: Node) -> None:
    await node.kill()
    await node.start("--container-log-max-size", "4k", "--container-log-max-files", "2")
    script = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done"
    container = {"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", script]}
    node.put("endless", hostNetwork=True, containers=[container])
    await node.until(lambda: len(node.log_files("endless")) == 2, "a file that was put aside")
    await node.until(lambda: node.log("endless"), "a line in the new one")
    old, new = ([int(line) for line in texts(path)] for path in node.log_files("endless"))
    assert [*old, *new] == list(range(1, len(old) + len(new) + 1)), "no line is lost, none is there twice"
    first = node.log_files("endless")[0]
    await node.until(
        lambda: len(files := node.log_files("endless")) == 2 and first not in files, "the next turn"
    )
