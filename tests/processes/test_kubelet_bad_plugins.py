"""The real `dray kubelet` among plugins and drivers that lie, hang, flood and talk nonsense: the good ones notice nothing."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import re
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dray.api.kinds import NODES, PODS, RESOURCE_CLAIMS, Resource
from dray.runtime.clock import SystemClock
from dray.testing.check.api_server import Place, SmallApiServer, served
from dray.wire.connect import connect
from dray.wire.deviceplugin import DevicePluginRegistrationClient
from dray.wire.gen.deviceplugin_v1beta1_pb2 import RegisterRequest
from dray.wire.gen.podresources_v1_pb2 import ListPodResourcesRequest
from dray.wire.podresources import SOCKET, PodResourcesClient
from tests.kubelet.claims.world import Driver
from tests.kubelet.plugins.real_plugin import Plugin, devices
from tests.processes.bad_plugins import BAD
from tests.waiting import PATIENCE, wait_until

Json = dict[str, Any]
NODE, TAPE, DRIVER = "node", "good.example/tape", "good.example"
GOOD_SECONDS = 30
"""For a good pod: less than a driver gets for a call (45), or a plugin (120)."""
MOST_MEMORY = 300 << 20
"""Bytes the kubelet may ever have had, with lists of 16 MiB among what it was sent; calm, it has a tenth of that."""


class Machine:
    """A kubelet, a small API server, a good plugin and a good driver."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.server = SmallApiServer(SystemClock())
        self.kubelet: Process
        self.bad: list[Process] = []
        self.started: list[Process] = []

    @property
    def log(self) -> str:
        return (self.root / "kubelet.log").read_text(errors="replace")

    async def start(self, name: str, *argv: str) -> Process:
        with (self.root / f"{name}.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", *argv, stdout=log, stderr=log, stdin=asyncio.subprocess.DEVNULL
            )
        self.started.append(process)
        return process

    async def start_kubelet(self) -> None:
        places = {"kubelet-dir": "kubelet", "device-plugin-dir": "kubelet/device-plugins"}
        places |= {"state-dir": "state", "log-dir": "logs", "kubeconfig": "kubeconfig", "cdi-dir": "cdi"}
        argv = [f"--{flag}={self.root / path}" for flag, path in places.items()]
        argv += ["--runtime=process", f"--node-name={NODE}", "--metrics-address=none"]
        self.kubelet = await self.start("kubelet", "dray", "kubelet", *argv)
        await self.wait((self.root / "kubelet" / SOCKET).exists, "the kubelet serves")

    async def start_bad(self, kind: str) -> None:
        self.bad.append(await self.start(kind, "tests.processes.bad_plugins", kind, str(self.root)))

    async def kill_bad(self) -> None:
        while self.bad:
            process = self.bad.pop()
            process.kill()
            await process.wait()

    async def wait(self, condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> None:
        def look() -> Any:
            assert self.kubelet.returncode is None, self.log[-4000:]
            return condition()

        await wait_until(look, what, lambda: self.log[-4000:], seconds)

    async def put(self, resource: Resource[Any], document: Json) -> Json:
        return await self.server.create(Place(resource, "default", "", ""), document)

    async def pod(self, name: str, resource: str = "", **spec: Any) -> None:
        limits = {"resources": {"limits": {resource: "1"}}} if resource else {}
        mark = [{"name": "TEST_ROOT", "value": str(self.root)}]
        main = {"name": "main", "image": "none", "command": ["sleep", "1000"], "env": mark, **limits}
        whole = {"nodeName": NODE, "terminationGracePeriodSeconds": 0, "containers": [main], **spec}
        await self.put(PODS, {"metadata": {"name": name}, "spec": whole})

    async def claiming(self, name: str, driver: str) -> None:
        """A pod with a claim of its own that has a device of the driver."""
        await self.put(
            RESOURCE_CLAIMS,
            {
                "metadata": {"name": name},
                "spec": {"devices": {"requests": [{"name": "req", "exactly": {"deviceClassName": "any"}}]}},
            },
        )
        await self.pod(name, resourceClaims=[{"name": "mine", "resourceClaimName": name}])
        uid = self.server.objects["pods", "default", name]["metadata"]["uid"]
        claim = copy.deepcopy(self.server.objects["resourceclaims", "default", name])
        result = {"request": "req", "driver": driver, "pool": "pool", "device": f"dev-{name}"}
        claim["status"] = {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": uid}],
        }
        await self.server.update(Place(RESOURCE_CLAIMS, "default", name, "status"), claim)

    def status(self, name: str) -> Json:
        found: Json = self.server.objects["pods", "default", name].get("status", {})
        return found

    async def phase(self, name: str, phase: str = "Running") -> Json:
        await self.wait(lambda: self.status(name).get("phase") == phase, f"{name} {phase}", GOOD_SECONDS)
        return self.status(name)

    def message(self, name: str) -> str:
        """Why its container does not start."""
        found = self.status(name).get("containerStatuses") or [{}]
        return str(found[0].get("state", {}).get("waiting", {}).get("message", ""))

    def allocatable(self, resource: str) -> str | None:
        node = self.server.objects.get((NODES.plural, "", NODE), {})
        found: str | None = node.get("status", {}).get("allocatable", {}).get(resource)
        return found

    async def counted(self, bad: str, count: str) -> None:
        await self.wait(lambda: self.allocatable(f"{BAD}/{bad}") == count, f"{count} of {bad}")

    def memory(self, what: str) -> int:
        """Bytes, of VmRSS (now) or VmHWM (ever)."""
        text = Path(f"/proc/{self.kubelet.pid}/status").read_text()
        found = re.search(rf"{what}:\s+(\d+) kB", text)
        assert found
        return int(found[1]) << 10

    async def held(self) -> list[str]:
        async with connect(self.root / "kubelet" / SOCKET) as channel:
            answer = await PodResourcesClient(channel).list(ListPodResourcesRequest())
        return sorted(
            each
            for pod in answer.pod_resources
            for container in pod.containers
            for device in container.devices
            if device.resource_name == TAPE
            for each in device.device_ids
        )

    async def register(self) -> None:
        request = RegisterRequest(version="v1beta1", endpoint="tape.sock", resource_name=TAPE)
        async with connect(self.root / "kubelet/device-plugins/kubelet.sock", timeout=60) as channel:
            await DevicePluginRegistrationClient(channel).register(request)


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    made = Machine(tmp_path)
    async with served(made.server, tmp_path / "kubeconfig"), AsyncExitStack() as stack:
        stack.push_async_callback(_end, made)
        await made.start_kubelet()
        await stack.enter_async_context(_good(made))
        yield made


@asynccontextmanager
async def _good(machine: Machine) -> AsyncIterator[None]:
    plugin = Plugin(first=devices(*(f"t{one}" for one in range(8))))
    driver = Driver(DRIVER, machine.root / "kubelet/plugins_registry/good.sock")
    async with plugin.serving(machine.root / "kubelet/device-plugins/tape.sock"), driver.serving():
        await machine.register()
        await machine.wait(lambda: machine.allocatable(TAPE) == "8", "the good plugin's devices")
        await machine.wait(lambda: driver.notified, "the good driver registered")
        yield


async def _end(machine: Machine) -> None:
    """However far the test came. A keeper that has just begun starts its container later: until there is nobody."""
    async with asyncio.timeout(PATIENCE):
        while pids := _processes_of(machine.root):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.02)
        for process in machine.started:
            await process.wait()


def _processes_of(root: Path) -> list[int]:
    """The kubelet, the bad ones, containers and their keepers: each has the directory in its arguments or its environment."""
    mark, found = str(root).encode(), []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (entry / "cmdline").read_bytes() or mark in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


async def test_good_ones_do_not_notice_bad_ones(machine: Machine) -> None:
    await machine.pod("before", TAPE)
    await machine.phase("before")
    await machine.start_bad("quiet")
    await machine.start_bad("floods")
    for kind in ("quiet", "floods"):
        await machine.wait((machine.root / f"{kind}-ready").exists, f"{kind} began")
    for name, count in (("hang", "8"), ("big", "2"), ("lies", "3")):
        await machine.counted(name, count)
    for number in range(3):
        await machine.pod(f"hangs-{number}", f"{BAD}/hang")
    for name in ("big", "lies"):
        await machine.pod(name, f"{BAD}/{name}")
    for number in range(20):
        await machine.claiming(f"stuck-{number}", f"hang.{BAD}")
    await machine.claiming("wrong", f"wrong.{BAD}")
    await machine.claiming("large", f"big.{BAD}")
    await machine.claiming("noisy", f"noise.{BAD}")

    # In the midst of it, whoever has nothing to do with them gets what he wants.
    await machine.pod("during", TAPE)
    await machine.claiming("claims", DRIVER)
    await machine.pod("plain")
    for name in ("during", "claims", "plain"):
        await machine.phase(name)
    assert len(await machine.held()) == 2

    # Each bad one is told what was wrong with it.
    big = await machine.phase("big", "Failed")
    assert big["reason"] == "UnexpectedAdmissionError"
    assert "at most 262144 are kept for a container" in big["message"]
    lies = await machine.phase("lies", "Failed")
    assert "no containers return in allocation response" in lies["message"]
    await machine.wait(lambda: "returned result for unknown claim UID" in machine.message("wrong"), "wrong")
    assert len(machine.message("wrong")) < 3000
    await machine.wait(lambda: "answered with 3145" in machine.message("large"), "large")
    await machine.wait(lambda: "NodePrepareResources: rpc error" in machine.message("noisy"), "noisy")
    for name in ("hangs-0", "hangs-1", "hangs-2", "stuck-0", "stuck-19"):
        assert machine.status(name).get("phase") in (None, "", "Pending"), machine.status(name)
        assert not machine.message(name), "its call is still open"
    await machine.counted("huge", "131072")
    for name, count in (("numa", "4"), ("fields", "1"), ("outside", "2")):
        await machine.counted(name, count)
    assert machine.allocatable(f"{BAD}/utf8") in (None, "0")
    assert machine.memory("VmHWM") < MOST_MEMORY

    # They are killed in the middle of whatever they do, and nothing is left of them.
    await machine.kill_bad()
    for name in ("huge", "hang", "big", "numa"):
        await machine.counted(name, "0")
    await machine.pod("after", TAPE)
    await machine.claiming("claims-after", DRIVER)
    for name in ("after", "claims-after"):
        await machine.phase(name)
    assert len(await machine.held()) == 3
    assert machine.memory("VmHWM") < MOST_MEMORY
    machine.kubelet.terminate()
    async with asyncio.timeout(60):
        assert await machine.kubelet.wait() == 0
