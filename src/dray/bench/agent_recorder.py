"""The kubelet's end for a benchmark: takes registrations on a real socket, follows every list, notes when each came."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dray.errors import UnavailableError
from dray.runtime.tasks import running
from dray.wire.connect import connect
from dray.wire.deviceplugin import (
    HEALTHY,
    KUBELET_SOCKET,
    DevicePluginClient,
    DevicePluginRegistrationService,
)
from dray.wire.gen.deviceplugin_v1beta1_pb2 import Empty, RegisterRequest
from dray.wire.serve import serve


@dataclass(frozen=True, slots=True)
class Listed:
    """The newest message of one plugin. `at` is on `time.perf_counter`, taken when it was decoded."""

    socket: Path
    ids: tuple[str, ...]
    healthy: int
    at: float


@dataclass
class Recorder:
    """One for each plugin process under test. `directory` is its plugin directory."""

    directory: Path
    lists: dict[str, Listed] = field(default_factory=dict)
    messages: int = 0
    _queue: asyncio.Queue[RegisterRequest] = field(default_factory=asyncio.Queue)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def register(self, request: RegisterRequest) -> Empty:
        """As a kubelet does, the list is asked for after the plugin was answered."""
        self._queue.put_nowait(request)
        return Empty()

    @asynccontextmanager
    async def recording(self) -> AsyncIterator[None]:
        """Entered = plugins can register."""
        async with (
            serve(self.directory / KUBELET_SOCKET, [DevicePluginRegistrationService(self)]),
            running(self._follow_all(), name="recorder"),
        ):
            yield

    async def wait_listed(self, resources: Collection[str], timeout: float = 60.0) -> None:
        """Until all of these are registered with all devices healthy."""
        async with asyncio.timeout(timeout):
            for resource in sorted(resources):
                while (found := self.lists.get(resource)) is None or not 0 < found.healthy == len(found.ids):
                    await self._news.wait()

    async def wait_healthy(self, resource: str, count: int, timeout: float = 10.0) -> float:
        """When the message came that shows exactly so many healthy ids."""
        async with asyncio.timeout(timeout):
            while self.lists[resource].healthy != count:
                await self._news.wait()
        return self.lists[resource].at

    async def _follow_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._follow(await self._queue.get()))

    async def _follow(self, request: RegisterRequest) -> None:
        socket = self.directory / request.endpoint
        try:
            async with (
                connect(socket) as channel,
                DevicePluginClient(channel).list_and_watch(Empty()) as answers,
            ):
                async for answer in answers:
                    at = time.perf_counter()
                    ids = tuple(device.ID for device in answer.devices)
                    healthy = sum(device.health == HEALTHY for device in answer.devices)
                    self.lists[request.resource_name] = Listed(socket, ids, healthy, at)
                    self.messages += 1
                    self._news.set()
                    self._news = asyncio.Event()
        except UnavailableError:  # the plugin ended
            return
