"""The kubelet as a device plugin sees it: `kubelet.sock` or its watcher, a call back inside Register, a list stream kept open.

Unlike a real one it takes every registration and keeps what was wrong with it, so that the other rules can be tried.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from dray.errors import Error
from dray.runtime.clock import Clock
from dray.runtime.tasks import running
from dray.testing.check.program import Room, is_socket
from dray.testing.check.registry import get_info, notify, registration_sockets
from dray.wire.connect import connect
from dray.wire.deviceplugin import (
    KUBELET_SOCKET,
    VERSION,
    DevicePluginClient,
    DevicePluginRegistrationService,
)
from dray.wire.gen.deviceplugin_v1beta1_pb2 import (
    DevicePluginOptions,
    Empty,
    ListAndWatchResponse,
    RegisterRequest,
)
from dray.wire.limits import MIB, Limits
from dray.wire.registration import DEVICE_PLUGIN
from dray.wire.serve import serve

CALLBACK_SECONDS = 5.0
_WAIT_SECONDS = 1.0
_LOOK_SECONDS = 0.05
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
    registration: Path | None = None
    """Its socket in `plugins_registry`, where it came that way."""
    notify_fault: str = ""
    """Why it could not be told there that it is in."""


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

    room: Room
    clock: Clock
    served: dict[str, Served] = field(default_factory=dict)
    registrations: int = 0
    _stack: AsyncExitStack | None = None
    _asked: dict[Path, int] = field(default_factory=dict)
    _queue: asyncio.Queue[Served] = field(default_factory=asyncio.Queue)

    async def register(self, request: RegisterRequest) -> Empty:
        """As the kubelet: connect and ask for the options before answering."""
        path = self.room.device_plugins / request.endpoint
        await self._take(Served(request.resource_name, path, ListStream(self.clock.monotonic()), request))
        return Empty()

    async def _take(self, found: Served) -> None:
        try:
            async with connect(found.path, timeout=CALLBACK_SECONDS) as channel:
                found.options = await DevicePluginClient(channel).get_device_plugin_options(Empty())
        except Error as error:
            found.callback_fault = str(error)
        self.served[found.resource] = found
        self.registrations += 1
        self._queue.put_nowait(found)

    async def _watch(self) -> None:
        """Ask each socket of `plugins_registry` once, and again where it was made anew or did not answer."""
        while True:
            for path in registration_sockets(self.room.registry):
                with suppress(Error, FileNotFoundError):
                    if self._asked.get(path) != (made := path.stat().st_ctime_ns):
                        await self._ask(path)
                        self._asked[path] = made
            await self.clock.sleep(_LOOK_SECONDS)

    async def _ask(self, path: Path) -> None:
        info = await get_info(path)
        if info.type != DEVICE_PLUGIN:
            return
        version = VERSION if VERSION in info.supported_versions else ", ".join(info.supported_versions)
        request = RegisterRequest(version=version, endpoint=info.endpoint, resource_name=info.name)
        endpoint = path.parent / self.room.outside(info.endpoint) if info.endpoint else path
        found = Served(info.name, endpoint, ListStream(self.clock.monotonic()), request, registration=path)
        await self._take(found)
        try:
            await notify(path)
        except Error as error:
            found.notify_fault = str(error)

    async def start(self, *, wipe: bool = True) -> None:
        """Serve; with `wipe` all sockets beside its own go first, as at each start of a real kubelet; the registry's stay."""
        directory = self.room.device_plugins
        for path in sorted(directory.iterdir()) if wipe else ():
            if is_socket(path):
                path.unlink(missing_ok=True)
        self.served.clear()
        self._asked.clear()
        self._stack = AsyncExitStack()
        service = DevicePluginRegistrationService(self)
        await self._stack.enter_async_context(running(self._follow_all(), name="lists"))
        await self._stack.enter_async_context(serve(directory / KUBELET_SOCKET, [service]))
        await self._stack.enter_async_context(running(self._watch(), name="registry"))

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
