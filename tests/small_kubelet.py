"""A small kubelet on a real socket: registers plugins, reads their lists, and can be restarted as the real one is."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dray.errors import UnavailableError
from dray.runtime.tasks import running
from dray.wire.connect import connect
from dray.wire.deviceplugin import KUBELET_SOCKET, DevicePluginClient, DevicePluginRegistrationService
from dray.wire.gen.deviceplugin_v1beta1_pb2 import DevicePluginOptions, Empty, RegisterRequest
from dray.wire.serve import serve


@dataclass
class SmallKubelet:
    directory: Path
    registered: list[str] = field(default_factory=list)
    lists: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    options: dict[str, DevicePluginOptions] = field(default_factory=dict)
    refuse: str = ""
    _queue: asyncio.Queue[tuple[str, str]] = field(default_factory=asyncio.Queue)

    async def register(self, request: RegisterRequest) -> Empty:
        if self.refuse:
            raise UnavailableError(self.refuse)
        async with connect(self.directory / request.endpoint, timeout=5) as channel:
            self.options[request.resource_name] = await DevicePluginClient(channel).get_device_plugin_options(
                Empty()
            )
        self.registered.append(request.resource_name)
        self._queue.put_nowait((request.resource_name, request.endpoint))
        return Empty()

    async def read_lists(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                resource, endpoint = await self._queue.get()
                group.create_task(self._read(resource, endpoint))

    async def _read(self, resource: str, endpoint: str) -> None:
        try:
            async with (
                connect(self.directory / endpoint) as channel,
                DevicePluginClient(channel).list_and_watch(Empty()) as answers,
            ):
                async for answer in answers:
                    self.lists[resource] = [(device.ID, device.health) for device in answer.devices]
        except UnavailableError:
            pass

    def wipe(self) -> None:
        for path in self.directory.iterdir():
            if stat.S_ISSOCK(path.lstat().st_mode):
                path.unlink()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self.wipe()
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(
                serve(self.directory / KUBELET_SOCKET, [DevicePluginRegistrationService(self)])
            )
            await stack.enter_async_context(running(self.read_lists(), name="small kubelet"))
            yield
