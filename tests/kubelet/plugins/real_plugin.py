"""Device plugins on real sockets, well-behaved and not, and somebody who writes down what the kubelet is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf.wrappers_pb2 import BytesValue

from dray.errors import Error
from dray.kubelet.devices.known import Device
from dray.kubelet.plugins.connections import Connections
from dray.kubelet.plugins.endpoint import DEFAULT_TIMEOUTS, PluginEndpoint, Timeouts
from dray.wire.deviceplugin import HEALTHY, DevicePluginClient, DevicePluginService
from dray.wire.gen.deviceplugin_v1beta1_pb2 import (
    AllocateRequest,
    AllocateResponse,
    ContainerAllocateResponse,
    ContainerPreferredAllocationResponse,
    DevicePluginOptions,
    Empty,
    ListAndWatchResponse,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
    PreStartContainerRequest,
    PreStartContainerResponse,
)
from dray.wire.gen.deviceplugin_v1beta1_pb2 import Device as WireDevice
from dray.wire.limits import MIB, Limits
from dray.wire.serve import serve
from dray.wire.service import Client, Service, Streaming

RESOURCE = "example.com/tape"
SHORT = Timeouts(dial=0.3, options=0.3, call=0.3, pre_start=0.3)
ROOMY = Limits(send=64 * MIB)


def devices(*ids: str) -> ListAndWatchResponse:
    return ListAndWatchResponse(devices=[WireDevice(ID=name, health=HEALTHY) for name in ids])


@dataclass
class Plugin:
    """Sends what is put into `lists`; None ends the stream. An event that is not set makes its call hang."""

    first: ListAndWatchResponse | None = field(default_factory=lambda: devices("a", "b"))
    lists: asyncio.Queue[ListAndWatchResponse | Error | None] = field(default_factory=asyncio.Queue)
    options: DevicePluginOptions = field(default_factory=DevicePluginOptions)
    calls: list[str] = field(default_factory=list)
    requests: list[object] = field(default_factory=list)
    fault: Error | None = None
    answer: AllocateResponse = field(
        default_factory=lambda: AllocateResponse(container_responses=[ContainerAllocateResponse()])
    )
    allocating: asyncio.Event = field(default_factory=asyncio.Event)
    hang: str = ""
    streams: int = 0
    """How many are open now."""

    async def get_device_plugin_options(self, request: Empty) -> DevicePluginOptions:
        await self._called("options", request)
        return self.options

    async def list_and_watch(self, request: Empty) -> AsyncIterator[ListAndWatchResponse]:
        self.calls.append("list")
        self.streams += 1
        try:
            if self.first is not None:
                yield self.first
            while (message := await self.lists.get()) is not None:
                if isinstance(message, Error):
                    raise message
                yield message
        finally:
            self.streams -= 1

    async def get_preferred_allocation(
        self, request: PreferredAllocationRequest
    ) -> PreferredAllocationResponse:
        await self._called("preferred", request)
        wanted = request.container_requests[0]
        chosen = wanted.available_deviceIDs[: wanted.allocation_size]
        return PreferredAllocationResponse(
            container_responses=[ContainerPreferredAllocationResponse(deviceIDs=chosen)]
        )

    async def allocate(self, request: AllocateRequest) -> AllocateResponse:
        await self._called("allocate", request)
        return self.answer

    async def pre_start_container(self, request: PreStartContainerRequest) -> PreStartContainerResponse:
        await self._called("pre_start", request)
        return PreStartContainerResponse()

    async def _called(self, name: str, request: object) -> None:
        self.calls.append(name)
        self.requests.append(request)
        if name == self.hang:
            await self.allocating.wait()
        if self.fault is not None:
            raise self.fault

    @asynccontextmanager
    async def serving(self, path: Path) -> AsyncIterator[Plugin]:
        async with serve(path, [DevicePluginService(self)], limits=ROOMY):
            yield self


class RawLists(Plugin):
    """Sends bytes that are no list: each entry of `raw` is meant as one device."""

    def __init__(self, *raw: bytes) -> None:
        super().__init__()
        self.raw = raw

    async def list_and_watch(self, request: Empty) -> AsyncIterator[BytesValue]:  # type: ignore[override]
        for one in self.raw:
            yield BytesValue(value=one)
        await asyncio.Event().wait()

    @asynccontextmanager
    async def serving(self, path: Path) -> AsyncIterator[Plugin]:
        async with serve(path, [_RawService(self)], limits=ROOMY):
            yield self


class _RawClient(Client):
    get_device_plugin_options = DevicePluginClient.get_device_plugin_options
    list_and_watch = Streaming(DevicePluginClient.list_and_watch.path, Empty, BytesValue)


class _RawService(Service[RawLists]):
    tables = (_RawClient,)


@dataclass
class Recorder:
    """What the device manager would be told, in order."""

    told: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)
    newest: dict[str, Sequence[Device]] = field(default_factory=dict)
    connected_now: list[PluginEndpoint] = field(default_factory=list)

    def connected(self, resource: str, endpoint: PluginEndpoint) -> None:
        self.connected_now.append(endpoint)
        self.told.append(("connected", endpoint.path.name, ()))

    def listed(self, resource: str, devices: Sequence[Device], endpoint: PluginEndpoint) -> None:
        assert endpoint in self.connected_now
        self.newest[resource] = devices
        self.told.append(("listed", endpoint.path.name, tuple(one.id for one in devices)))

    def disconnected(self, resource: str, endpoint: PluginEndpoint) -> None:
        self.connected_now.remove(endpoint)
        self.told.append(("disconnected", endpoint.path.name, ()))

    @property
    def words(self) -> list[str]:
        return [f"{what} {name} {','.join(ids)}".strip() for what, name, ids in self.told]


@asynccontextmanager
async def connections(
    recorder: Recorder, timeouts: Timeouts = DEFAULT_TIMEOUTS
) -> AsyncIterator[Connections]:
    made = Connections(recorder, timeouts)
    async with made.running():
        yield made


@asynccontextmanager
async def connected(
    plugin: Plugin, path: Path, recorder: Recorder | None = None, timeouts: Timeouts = DEFAULT_TIMEOUTS
) -> AsyncIterator[PluginEndpoint]:
    """One plugin, served and connected, and its list read."""
    recorder = recorder or Recorder()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(plugin.serving(path))
        made = await stack.enter_async_context(connections(recorder, timeouts))
        await made.connect(RESOURCE, path)
        (endpoint,) = made.endpoints
        yield endpoint
