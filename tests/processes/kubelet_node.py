"""A node for scenarios: our kubelet beside a small API server, real plugins and drivers on real sockets, processes as containers.

The kubelet can be stopped and started; plugins, drivers, containers and the server stay. Time can be skipped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from dray.api.kinds import NODES, PODS
from dray.errors import Error
from dray.processes.kubelet import PROCESS, KubeletOptions, run_kubelet
from dray.runtime.tasks import running
from dray.testing.check.api_server import served
from dray.wire.connect import connect
from dray.wire.deviceplugin import DevicePluginRegistrationClient
from dray.wire.gen.deviceplugin_v1beta1_pb2 import (
    AllocateRequest,
    AllocateResponse,
    ContainerAllocateResponse,
    ListAndWatchResponse,
    RegisterRequest,
)
from dray.wire.gen.deviceplugin_v1beta1_pb2 import Device as WireDevice
from dray.wire.gen.podresources_v1_pb2 import (
    GetPodResourcesRequest,
    ListPodResourcesRequest,
    PodResources,
)
from dray.wire.podresources import SOCKET, PodResourcesClient
from tests.kubelet.plugins.real_plugin import Plugin, devices
from tests.processes.kubelet_server import Json, Server, SkippingClock
from tests.waiting import PATIENCE, wait_until

NODE, TAPE = "node", "example.com/tape"


class Tapes(Plugin):
    """A plugin whose answers can be seen: the ids are in the container's environment."""

    async def allocate(self, request: AllocateRequest) -> AllocateResponse:
        await self._called("allocate", request)
        ids = ",".join(sorted(request.container_requests[0].devices_ids))
        return AllocateResponse(container_responses=[ContainerAllocateResponse(envs={"TAPES": ids})])


def listing(healthy: Sequence[str], unhealthy: Sequence[str] = ()) -> ListAndWatchResponse:
    """A list with some that are not well."""
    found = devices(*healthy)
    found.devices.extend(WireDevice(ID=one, health="Unhealthy") for one in unhealthy)
    return found


def container(name: str = "main", tapes: int = 0, script: str = "exec sleep 1000", **more: Any) -> Json:
    resources: Json = {"limits": {TAPE: str(tapes)}} if tapes else {}
    return {
        "name": name,
        "image": "none",
        "command": ["sh", "-c", f"echo tapes=$TAPES; {script}"],
        "resources": resources,
        **more,
    }


class Told(logging.Handler):
    """What the kubelet's log says: its last words of each kind. INFO is heard while entered."""

    def __init__(self) -> None:
        super().__init__()
        self.words: dict[str, Mapping[str, Any]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        self.words[record.getMessage()] = getattr(record, "fields", {})

    @contextmanager
    def heard(self) -> Iterator[None]:
        logger = logging.getLogger("dray.kubelet")
        before = logger.level
        logger.addHandler(self)
        logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            logger.setLevel(before)
            logger.removeHandler(self)


@dataclass
class Node:
    """One machine. `wait` is how tests wait for anything."""

    root: Path
    clock: SkippingClock = field(default_factory=SkippingClock)
    told: Told = field(default_factory=Told)
    server: Server = field(init=False)
    _kubelet: AsyncExitStack | None = None

    def __post_init__(self) -> None:
        self.server = Server(self.clock)

    @property
    def plugins(self) -> Path:
        return self.root / "kubelet/device-plugins"

    @property
    def registry(self) -> Path:
        return self.root / "kubelet/plugins_registry"

    def options(self) -> KubeletOptions:
        return KubeletOptions(
            node_name=NODE,
            root_dir=self.root / "kubelet",
            device_plugin_dir=self.plugins,
            state_dir=self.root / "state",
            log_dir=self.root / "logs",
            kubeconfig=self.root / "kubeconfig",
            runtime=PROCESS,
            metrics=("127.0.0.1", 0),
        )

    async def start(self) -> None:
        self._kubelet = AsyncExitStack()
        self.told = Told()
        self._kubelet.enter_context(self.told.heard())
        work = run_kubelet(self.options(), self.clock)
        await self._kubelet.enter_async_context(running(work, name="kubelet", stop_timeout=PATIENCE))
        await self.wait(lambda: "ready" in self.told.words, "the kubelet to be ready")

    async def stop(self) -> None:
        if self._kubelet is not None:
            await self._kubelet.aclose()
            self._kubelet = None

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def wait(self, condition: Callable[[], Any], what: str) -> Any:
        return await wait_until(condition, what, self._statuses)

    def _statuses(self) -> Json:
        return {
            name: document.get("status")
            for (kind, _, name), document in self.server.objects.items()
            if kind == PODS.plural
        }

    async def wait_later(self, condition: Callable[[], Any], what: str) -> None:
        """The same while the clock goes on second by second, for what is looked at only from time to time."""

        def look() -> Any:
            self.clock.skip(1)
            return condition()

        await self.wait(look, what)

    # Device plugins.

    async def register(self, endpoint: str, resource: str = TAPE) -> None:
        request = RegisterRequest(version="v1beta1", endpoint=endpoint, resource_name=resource)
        async with connect(self.plugins / "kubelet.sock", timeout=PATIENCE) as channel:
            await DevicePluginRegistrationClient(channel).register(request)

    @asynccontextmanager
    async def plugged(
        self, plugin: Plugin, endpoint: str = "tape.sock", resource: str = TAPE
    ) -> AsyncIterator[Plugin]:
        """The plugin serves and is registered. A kubelet that starts removes its socket: then it has to come anew."""
        async with plugin.serving(self.plugins / endpoint):
            await self.register(endpoint, resource)
            yield plugin

    def counts(self, resource: str = TAPE) -> str:
        """Allocatable and capacity in the Node, as `1/2`; empty where it does not name the resource."""
        status = self.server.find(NODES, NODE).get("status", {})
        pair = [status.get(name, {}).get(resource) for name in ("allocatable", "capacity")]
        return "" if pair == [None, None] else "/".join(str(one) for one in pair)

    async def wait_counts(self, wanted: str, resource: str = TAPE) -> None:
        await self.wait(lambda: self.counts(resource) == wanted, f"{resource} {wanted}")

    # Pods.

    async def run(self, name: str, *containers: Json, inits: Sequence[Json] = (), **spec: Any) -> Json:
        """A pod that the scheduler has just bound to this node."""
        mark = [{"name": "TEST_ROOT", "value": str(self.root)}, {"name": "TEST_POD", "value": name}]
        made = [{**one, "env": mark} for one in containers]
        first = [{**one, "env": mark} for one in inits]
        whole = {
            "nodeName": NODE,
            "containers": made,
            "initContainers": first,
            "terminationGracePeriodSeconds": 1,
            **spec,
        }
        return await self.server.add(PODS, {"metadata": {"name": name}, "spec": whole})

    def status(self, name: str) -> Json:
        found: Json = self.server.find(PODS, name).get("status", {})
        return found

    async def phase(self, name: str, phase: str) -> Json:
        await self.wait(lambda: self.status(name).get("phase") == phase, f"{name} {phase}")
        return self.status(name)

    async def gone(self, name: str) -> None:
        await self.wait(lambda: not self.server.find(PODS, name), f"{name} gone")

    async def run_and_end(self, name: str) -> None:
        """A pod without devices, from its start to its end: whatever was due before has happened meanwhile."""
        await self.run(name, container(script="exit 0"), restartPolicy="Never")
        await self.phase(name, "Succeeded")
        await self.server.mark_deleted(name)
        await self.gone(name)

    def log(self, name: str, container: str = "main", attempt: int = 0) -> list[str]:
        """The lines that the container has written by now: it runs before it has written any."""
        (path,) = (self.root / "logs").glob(f"default_{name}_*/{container}/{attempt}.log")
        return [line.split(" ", 3)[3] for line in path.read_text().splitlines()]

    async def first_line(self, name: str, container: str = "main", attempt: int = 0) -> str:
        """Of a container that writes one."""
        (line,) = await self.wait(lambda: self.log(name, container, attempt), f"{name} to write a line")
        return str(line)

    def waits(self, name: str) -> str:
        """Why its first container waits; empty where it does not."""
        for one in self.status(name).get("containerStatuses", ()):
            return str(one["state"].get("waiting", {}).get("message", ""))
        return ""

    def restarts(self, name: str) -> int:
        """Of its container that was started again most often."""
        found = self.status(name).get("containerStatuses", ())
        return max((one.get("restartCount", 0) for one in found), default=0)

    async def wait_waits(self, name: str) -> None:
        await self.wait(lambda: self.waits(name), f"{name} to wait")

    async def wait_started(self, name: str) -> None:
        """Until its process runs: the phase may be one of before."""
        await self.wait(lambda: self.processes(name) and not self.waits(name), f"{name} to run")
        await self.phase(name, "Running")

    async def wait_restarted(self, name: str, before: int = 0) -> None:
        await self.wait(lambda: self.restarts(name) > before, f"{name} started again")

    def processes(self, pod: str = "") -> list[int]:
        """All that containers of this node run, or those of one pod."""
        wanted = {f"TEST_ROOT={self.root}".encode()} | ({f"TEST_POD={pod}".encode()} if pod else set())
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if wanted <= {*(entry / "environ").read_bytes().split(b"\0")}:
                        found.append(int(entry.name))
        return sorted(found)

    def kill_containers(self, pod: str = "") -> None:
        for pid in self.processes(pod):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def reboot(self) -> None:
        """While the kubelet is down: no container and no sandbox is left. The kubelet's own files stay."""
        for keeper in self.keepers():
            os.kill(keeper, signal.SIGKILL)
        await self.wait(lambda: not self.keepers(), "the keepers to end")
        self.kill_containers()
        shutil.rmtree(self.root / "state/containers")

    def keepers(self) -> list[int]:
        """The processes that tend containers: they write below the kubelet's directory."""
        wanted, found = str(self.root).encode(), []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if wanted in (entry / "cmdline").read_bytes():
                        found.append(int(entry.name))
        return found

    # What the kubelet says of them.

    async def listed(self) -> dict[str, PodResources]:
        """By name of the pod; asked again where it was too often."""
        async with connect(self.root / "kubelet" / SOCKET) as channel:
            while True:
                with contextlib.suppress(Error):
                    answer = await PodResourcesClient(channel).list(ListPodResourcesRequest())
                    return {one.name: one for one in answer.pod_resources}
                await asyncio.sleep(0.02)

    async def get(self, name: str) -> PodResources:
        async with connect(self.root / "kubelet" / SOCKET) as channel:
            request = GetPodResourcesRequest(pod_name=name, pod_namespace="default")
            return (await PodResourcesClient(channel).get(request)).pod_resources

    async def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples of that name with these labels."""
        address = self.told.words["metrics"]["address"]
        async with aiohttp.ClientSession() as session, session.get(address) as got:
            lines = (await got.text()).splitlines()
        wanted = {f'{key}="{value}"' for key, value in labels.items()}
        found = 0.0
        for line in lines:
            head, _, value = line.rpartition(" ")
            shown, _, rest = head.partition("{")
            if shown == name and wanted <= set(rest.rstrip("}").split(",")):
                found += float(value)
        return found

    async def held(self, name: str) -> dict[str, list[str]]:
        """The device ids of each container that has any; empty for a pod that is not listed."""
        pod = (await self.listed()).get(name, PodResources())
        found = {
            one.name: sorted(each for device in one.devices for each in device.device_ids)
            for one in pod.containers
        }
        return {key: ids for key, ids in found.items() if ids}


@asynccontextmanager
async def node_in(root: Path, made: Node | None = None) -> AsyncIterator[Node]:
    """A node whose kubelet runs. In the end nothing of its containers is left."""
    node = made or Node(root)
    async with served(node.server, root / "kubeconfig"):
        try:
            await node.start()
            yield node
        finally:
            await node.stop()
            node.kill_containers()
            await node.run("last", container())  # who still watches notices that nobody listens
