"""A small kubelet on a real socket: registers plugins, reads their lists, and can be restarted as the real one is.

As Kubernetes 1.36 does: a second registration of a name replaces the plugin and leaves the first one's stream open, the
last message of either is the list, and the end of either drops the plugin that is registered by then.
"""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dray.errors import NotFoundError, UnavailableError
from dray.runtime.tasks import running
from dray.wire.connect import connect
from dray.wire.deviceplugin import (
    HEALTHY,
    KUBELET_SOCKET,
    DevicePluginClient,
    DevicePluginRegistrationService,
)
from dray.wire.gen.deviceplugin_v1beta1_pb2 import (
    AllocateRequest,
    ContainerAllocateRequest,
    ContainerAllocateResponse,
    DevicePluginOptions,
    Empty,
    RegisterRequest,
)
from dray.wire.gen.podresources_v1_pb2 import (
    AllocatableResourcesRequest,
    AllocatableResourcesResponse,
    ContainerDevices,
    ContainerResources,
    GetPodResourcesRequest,
    GetPodResourcesResponse,
    ListPodResourcesRequest,
    ListPodResourcesResponse,
    PodResources,
)
from dray.wire.podresources import SOCKET, PodResourcesService
from dray.wire.serve import serve


@dataclass
class SmallKubelet:
    """`directory` is the plugin directory; pod resources are served beside it, below its parent."""

    directory: Path
    registered: list[str] = field(default_factory=list)
    lists: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    options: dict[str, DevicePluginOptions] = field(default_factory=dict)
    refuse: str = ""
    requests: list[RegisterRequest] = field(default_factory=list)
    """All that came, refused or not."""
    healthy: dict[str, list[str]] = field(default_factory=dict)
    """What it would hand out: none of a plugin that was dropped."""
    pods: dict[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    """Pod name to what its one container holds: resource to ids."""
    endpoints: dict[str, str] = field(default_factory=dict)
    asked: int = 0
    """How often its pod resources were asked for."""
    slow: float = 0.0
    """Seconds it thinks about each answer on pod resources."""
    wipes: bool = True
    """Whether it removes all sockets when it starts, as the real one does."""
    _queue: asyncio.Queue[tuple[str, str]] = field(default_factory=asyncio.Queue)
    _readers: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def register(self, request: RegisterRequest) -> Empty:
        self.requests.append(request)
        if self.refuse:
            raise UnavailableError(self.refuse)
        async with connect(self.directory / request.endpoint, timeout=60) as channel:
            self.options[request.resource_name] = await DevicePluginClient(channel).get_device_plugin_options(
                Empty()
            )
        self.registered.append(request.resource_name)
        self.endpoints[request.resource_name] = request.endpoint
        self._queue.put_nowait((request.resource_name, request.endpoint))
        return Empty()

    async def allocate(self, resource: str, *ids: str) -> ContainerAllocateResponse:
        """As for one container, from the plugin that is registered now."""
        request = AllocateRequest(container_requests=[ContainerAllocateRequest(devices_ids=ids)])
        async with connect(self.directory / self.endpoints[resource], timeout=60) as channel:
            answer = await DevicePluginClient(channel).allocate(request)
        return answer.container_responses[0]

    def drop(self, resource: str) -> None:
        """Close the connection to the plugin that is registered now."""
        self.healthy[resource] = []
        if (reader := self._readers.pop(resource, None)) is not None:
            reader.cancel()

    async def read_lists(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                resource, endpoint = await self._queue.get()
                self._readers[resource] = group.create_task(self._read(resource, endpoint))

    async def _read(self, resource: str, endpoint: str) -> None:
        try:
            async with (
                connect(self.directory / endpoint) as channel,
                DevicePluginClient(channel).list_and_watch(Empty()) as answers,
            ):
                async for answer in answers:
                    self.lists[resource] = [(device.ID, device.health) for device in answer.devices]
                    self.healthy[resource] = [
                        device.ID for device in answer.devices if device.health == HEALTHY
                    ]
        except UnavailableError:
            pass
        self.drop(resource)

    async def list(self, request: ListPodResourcesRequest) -> ListPodResourcesResponse:
        await self._think()
        return ListPodResourcesResponse(pod_resources=[self._pod(name) for name in self.pods])

    async def get_allocatable_resources(
        self, request: AllocatableResourcesRequest
    ) -> AllocatableResourcesResponse:
        await self._think()
        return AllocatableResourcesResponse(devices=_entries(self.healthy))

    async def get(self, request: GetPodResourcesRequest) -> GetPodResourcesResponse:
        if request.pod_name not in self.pods:
            raise NotFoundError(f"pod {request.pod_name} not found", kind="Pod", name=request.pod_name)
        return GetPodResourcesResponse(pod_resources=self._pod(request.pod_name))

    def _pod(self, name: str) -> PodResources:
        container = ContainerResources(name="main", devices=_entries(self.pods[name]))
        return PodResources(name=name, namespace="default", containers=[container])

    async def _think(self) -> None:
        self.asked += 1
        await asyncio.sleep(self.slow)

    def wipe(self) -> None:
        for path in self.directory.iterdir():
            if stat.S_ISSOCK(path.lstat().st_mode):
                path.unlink()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        if self.wipes:
            self.wipe()
        self.healthy.clear()
        self._readers.clear()
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(
                serve(self.directory.parent / SOCKET, [PodResourcesService(self)], directory_mode=0o750)
            )
            await stack.enter_async_context(
                serve(self.directory / KUBELET_SOCKET, [DevicePluginRegistrationService(self)])
            )
            await stack.enter_async_context(running(self.read_lists(), name="small kubelet"))
            yield


def _entries(held: Mapping[str, Sequence[str]]) -> list[ContainerDevices]:
    """One for each device, as the real one does."""
    return [
        ContainerDevices(resource_name=resource, device_ids=[name])
        for resource, names in held.items()
        for name in names
    ]
