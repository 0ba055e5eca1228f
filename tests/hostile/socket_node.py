"""The programs whose sockets are attacked: `dray kubelet`, and `dray agent` beside it, on directories of their own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import sys
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from dray.api.kinds import NODES
from dray.runtime.clock import SystemClock
from dray.testing.check.api_server import SmallApiServer, served
from dray.wire.connect import connect
from dray.wire.deviceplugin import VERSION, DevicePluginRegistrationClient
from dray.wire.gen.deviceplugin_v1beta1_pb2 import RegisterRequest
from dray.wire.gen.podresources_v1_pb2 import AllocatableResourcesRequest
from dray.wire.podresources import SOCKET, PodResourcesClient
from tests.kubelet.plugins.real_plugin import Plugin
from tests.kubelet.plugins.real_plugin import devices as listed

NODE, SIM, GPU = "node", "sim.dray.internal", "example.com/gpu"
MEMORY = 768 << 20
"""Address space that a program may take on top of what it has when all is calm."""
FAULTS = (
    "Traceback",
    "handler failed",
    "exception was never retrieved",
    "Exception in callback",
    "MemoryError",
)
"""Words of a log that tell of a fault of ours; a peer's faults have others."""
Json = dict[str, Any]


CONFIG: Json = {
    "dray": {"doors": {"*": "both"}, "sim": {"devices": [{"name": "gpu", "count": 4, "resourceName": GPU}]}}
}


class Program:
    """One process under limits, and what it takes of the machine."""

    def __init__(self, name: str, process: Process, log: Path) -> None:
        self.name, self.process, self._log = name, process, log

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def limit(self) -> None:
        """From here on it may take so much more, and no core is written when it does not survive that."""
        most = self.kilobytes("VmSize") * 1024 + MEMORY
        resource.prlimit(self.process.pid, resource.RLIMIT_AS, (most, most))

    def kilobytes(self, what: str) -> int:
        """VmRSS (now), VmHWM (ever) or VmSize (address space)."""
        found = re.search(rf"{what}:\s+(\d+) kB", Path(f"/proc/{self.process.pid}/status").read_text())
        assert found
        return int(found[1])

    def files(self) -> int:
        """How many descriptors are open."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def has_closed(self, files: int) -> bool:
        """Whether no more than these are open."""
        return self.files() <= files

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def check(self) -> None:
        """It runs, and no fault of its own is in its log."""
        assert self.process.returncode is None, f"{self.name} has ended\n{self.log[-6000:]}"
        faults = [line for line in self.log.splitlines() if any(word in line for word in FAULTS)]
        assert not faults, f"{self.name}: {faults[:3]}\n{self.log[-6000:]}"


class SocketNode:
    """Both programs, their sockets, and the API server that they share."""

    def __init__(self, root: Path, server: SmallApiServer) -> None:
        self.root, self.server = root, server
        self.kubelet: Program
        self.agent: Program
        self.stack = AsyncExitStack()

    @property
    def plugins(self) -> Path:
        return self.root / "kubelet/device-plugins"

    @property
    def registry(self) -> Path:
        return self.root / "kubelet/plugins_registry"

    @property
    def programs(self) -> tuple[Program, Program]:
        return self.kubelet, self.agent

    def plugin_socket(self) -> Path:
        """The agent's own, for its GPUs."""
        (found,) = (path for path in self.plugins.glob("*.sock") if "gpu" in path.name)
        return found

    def allocatable(self) -> Json:
        """What the Node offers."""
        node = self.server.objects.get((NODES.plural, "", NODE), {})
        found: Json = node.get("status", {}).get("allocatable", {})
        return found

    def extended(self) -> dict[str, str]:
        """Of that, what is of device plugins."""
        return {name: count for name, count in self.allocatable().items() if "/" in name}

    def answers(self, path: Path) -> list[str]:
        """Files that a hostile caller may have left below `path`."""
        return sorted(str(one.relative_to(path)) for one in path.rglob("*") if one.is_file())

    async def wait(self, condition: Callable[[], Any], what: str) -> None:
        end = time.monotonic() + 60
        while not condition():
            for program in (
                one for one in (getattr(self, "kubelet", None), getattr(self, "agent", None)) if one
            ):
                assert program.process.returncode is None, f"{program.name} ended: {program.log[-4000:]}"
            assert time.monotonic() < end, f"waited for {what}"
            await asyncio.sleep(0.02)

    async def devices(self) -> set[tuple[str, str]]:
        """Resource and id of all devices that the kubelet would give."""
        async with connect(self.root / "kubelet" / SOCKET, timeout=60) as channel:
            answer = await PodResourcesClient(channel).get_allocatable_resources(
                AllocatableResourcesRequest()
            )
        return {(one.resource_name, each) for one in answer.devices for each in one.device_ids}

    async def start(self, name: str, *argv: str) -> Program:
        path = self.root / f"{name}.log"
        with path.open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "dray", name, *argv),
                stdout=log,
                stderr=log,
                stdin=asyncio.subprocess.DEVNULL,
            )

        async def end() -> None:
            if process.returncode is None:
                process.kill()
            await process.wait()

        self.stack.push_async_callback(end)
        return Program(name, process, path)

    async def start_kubelet(self) -> None:
        places = {
            "kubelet-dir": "kubelet",
            "device-plugin-dir": "kubelet/device-plugins",
            "state-dir": "kubelet-state",
        }
        places |= {"log-dir": "logs", "kubeconfig": "kubeconfig", "cdi-dir": "cdi"}
        argv = [f"--{flag}={self.root / path}" for flag, path in places.items()]
        argv += ["--runtime=process", f"--node-name={NODE}", "--metrics-address=none", "--log-format=json"]
        self.kubelet = await self.start("kubelet", *argv)
        await self.wait((self.root / "kubelet" / SOCKET).exists, "the kubelet")

    async def start_good_plugin(self) -> set[tuple[str, str]]:
        """One that does nothing wrong, for as long as all runs; gives the kubelet's devices from then on."""
        plugin = Plugin(first=listed("a", "b", "c"))
        await self.stack.enter_async_context(plugin.serving(self.plugins / "good.sock"))
        await self.register_good_plugin()
        return await self.devices()

    async def register_good_plugin(self) -> None:
        """Also again, with a kubelet that has just started."""
        request = RegisterRequest(version=VERSION, endpoint="good.sock", resource_name=GPU)
        async with connect(self.plugins / "kubelet.sock", timeout=60) as channel:
            await DevicePluginRegistrationClient(channel).register(request)
        await self.wait(lambda: self.allocatable().get(GPU) == "3", "the good plugin's devices")
        async with asyncio.timeout(60):
            while not any(name == GPU for name, _ in await self.devices()):
                await asyncio.sleep(0.1)  # it limits how often it is asked

    async def start_agent(self, config: Json = CONFIG) -> None:
        """On the host below `host`, which has nothing unless a test has put it there."""
        (self.root / "agent.json").write_text(json.dumps(config))
        (self.root / "host/dev").mkdir(parents=True, exist_ok=True)
        (self.root / "host/dev/null").touch()
        places = {
            "config": "agent.json",
            "kubelet-dir": "kubelet",
            "device-plugin-dir": "kubelet/device-plugins",
        }
        places |= {"state-dir": "state", "kubeconfig": "kubeconfig", "cdi-dir": "cdi", "host-root": "host"}
        argv = [f"--{flag}={self.root / path}" for flag, path in places.items()]
        argv += [f"--node-name={NODE}", "--metrics-address=none", "--log-format=json"]
        self.agent = await self.start("agent", *argv)
        await self.wait(lambda: self.allocatable().get(GPU) == "4", "the agent's devices")
        await self.wait(lambda: '"plugin registered"' in self.kubelet.log, "the agent's driver")


@asynccontextmanager
async def socket_node(root: Path, *, has_agent: bool = True) -> AsyncIterator[SocketNode]:
    """Both run, with all that they serve. None is left."""
    node = SocketNode(root, SmallApiServer(SystemClock()))
    async with served(node.server, root / "kubeconfig"), node.stack:
        await node.start_kubelet()
        if has_agent:
            await node.start_agent()
        yield node
