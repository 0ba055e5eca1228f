"""The kubelet as a device plugin sees it: `kubelet.sock`, a call back inside Register, and a list stream kept open.

Unlike a real one it takes every registration and keeps what was wrong with it, so that the other rules can be tried.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from dray.errors import Error
from dray.runtime.clock import Clock
from dray.runtime.tasks import running
from dray.testing.check.program import is_socket
from dray.wire.connect import connect
from dray.wire.deviceplugin import KUBELET_SOCKET, DevicePluginClient, DevicePluginRegistrationService
from dray.wire.gen.deviceplugin_v1beta1_pb2 import (
    DevicePluginOptions,
    Empty,
    ListAndWatchResponse,
    RegisterRequest,
)
from dray.wire.limits import MIB, Limits
from dray.wire.serve import serve

CALLBACK_SECONDS = 5.0
_WAIT_SECONDS = 1.0
LARGE = Limits(receive=256 * MIB)
"""More than a kubelet takes, so that a rule can say how much it was."""


@dataclass
class ListStream:
    """A ListAndWatch stream and what came through it."""

    opened: float
    first_after: float | None = None
    devices: ListAndWatchResponse | None = None
    messages: int = 0
    ended: str = ""
    was_awaited: bool = False


@dataclass
class Served:
    """One plugin that a kubelet knows: a resource behind a socket. On a live socket there was no request."""

    resource: str
    path: Path
    stream: ListStream
    request: RegisterRequest | None = None
    options: DevicePluginOptions | None = None
    callback_fault: str = ""
    """Why GetDevicePluginOptions failed inside Register."""


async def follow(path: Path, stream: ListStream, clock: Clock) -> None:
    """Keep a list stream open until it ends or this is cancelled; nothing is raised."""
    try:
        async with (
            connect(path, limits=LARGE, wait=_WAIT_SECONDS) as channel,
            DevicePluginClient(channel).list_and_watch(Empty()) as answers,
        ):
            async for answer in answers:
                stream.messages += 1
                stream.devices = answer
                if stream.first_after is None:
                    stream.first_after = clock.monotonic() - stream.opened
        stream.ended = "the plugin ended the stream"
    except Error as error:
        stream.ended = str(error)


@dataclass
class PlayedKubelet:
    """Started and stopped any number of times; `served` is what registered since the last start, by resource."""

    directory: Path
    clock: Clock
    served: dict[str, Served] = field(default_factory=dict)
    registrations: int = 0
    _stack: AsyncExitStack | None = None
    _queue: asyncio.Queue[Served] = field(default_factory=asyncio.Queue)

    async def register(self, request: RegisterRequest) -> Empty:
        """As the kubelet: connect and ask for the options before answering."""
        path = self.directory / request.endpoint
        found = Served(request.resource_name, path, ListStream(self.clock.monotonic()), request)
        try:
            async with connect(path, timeout=CALLBACK_SECONDS) as channel:
                found.options = await DevicePluginClient(channel).get_device_plugin_options(Empty())
        except Error as error:
            found.callback_fault = str(error)
        self.served[request.resource_name] = found
        self.registrations += 1
        self._queue.put_nowait(found)
        return Empty()

    async def start(self, *, wipe: bool = True) -> None:
        """Serve; with `wipe` all sockets in the directory go first, as at each start of a real kubelet."""
        for path in sorted(self.directory.iterdir()) if wipe else ():
            if is_socket(path):
                path.unlink(missing_ok=True)
        self.served.clear()
        self._stack = AsyncExitStack()
        service = DevicePluginRegistrationService(self)
        await self._stack.enter_async_context(running(self._follow_all(), name="lists"))
        await self._stack.enter_async_context(serve(self.directory / KUBELET_SOCKET, [service]))

    async def stop(self) -> None:
        """Be away: the socket and all streams are gone. Safe to call twice."""
        stack, self._stack = self._stack, None
        if stack is not None:
            await stack.aclose()

    async def _follow_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                found = await self._queue.get()
                found.stream.opened = self.clock.monotonic()
                group.create_task(follow(found.path, found.stream, self.clock))
