"""The plugin watcher: a socket that appears below `plugins_registry` is asked who it is, and its handler takes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dray.errors import Error, ProtocolError, UnavailableError
from dray.kubelet.failure import rpc_text
from dray.kubelet.plugins.handler import PluginHandler
from dray.kubelet.plugins.reconcile import (
    Operation,
    Register,
    Unregister,
    Wait,
    World,
    failed,
    next_due,
    operations,
)
from dray.kubelet.plugins.tree import Sockets, SocketTree
from dray.runtime.clock import Clock
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.logs import get_log
from dray.runtime.tasks import running, single, wait_first
from dray.wire.connect import connect
from dray.wire.gen.pluginregistration_v1_pb2 import InfoRequest, PluginInfo, RegistrationStatus
from dray.wire.registration import GET_INFO_TIMEOUT, NOTIFY_TIMEOUT, RegistrationClient

_log = get_log("kubelet.plugins")

DIRECTORY_MODE = 0o755
DIAL_TIMEOUT = 10.0
DIAL_WAIT = 1.0
"""Seconds a socket gets to listen once it is there; after that the next try is the backoff's."""
RECONCILE_SECONDS = 1.0
LONGEST_NAME, LONGEST_ENDPOINT = 253, 4096
AT_ONCE = 64
"""Sockets that are asked at once: each takes a connection. Those that failed least come first."""
_ERROR = "RegisterPlugin error --"


@dataclass(frozen=True, slots=True)
class _Taken:
    """A plugin that its handler has."""

    generation: int
    handler: PluginHandler
    name: str
    endpoint: str


class PluginWatcher:
    """Keeps the handlers in step with the sockets. Each socket has one operation at a time, all sockets go at once.

    `handlers` are by plugin type; a type without one is told so.
    """

    def __init__(self, directory: Path, handlers: Mapping[str, PluginHandler], clock: Clock) -> None:
        self._directory = directory
        self._handlers = handlers
        self._clock = clock
        self._desired: Sockets = {}
        self._taken: dict[str, _Taken] = {}
        self._busy: set[str] = set()
        self._waits: dict[str, Wait] = {}
        self._changed = asyncio.Event()

    @property
    def states(self) -> tuple[list[str], list[str]]:
        """The sockets that are there, and those that are registered (`KubeletMetrics.follow_plugins`)."""
        return sorted(self._desired), sorted(self._taken)

    def lost(self, endpoint: str) -> None:
        """The plugin at `endpoint` ended by itself though its socket may be there: it is tried again, as after a failure."""
        for path, taken in sorted(self._taken.items()):
            if taken.endpoint == endpoint:
                del self._taken[path]
                if path not in self._busy:  # else it is just being registered, and that fails
                    self._fail(path, taken.generation)
                self._changed.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch while entered; what is registered then stays with its handlers, which end on their own."""
        try:
            self._directory.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
        except OSError as error:
            raise from_os_error(error, "make the directory", str(self._directory)) from error
        async with running(self._run(), name=f"plugin watcher {self._directory}"):
            yield

    async def _run(self) -> None:
        tree = SocketTree(self._directory, self._clock)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(tree.follow(self._see))
                while True:
                    self._changed.clear()
                    due = operations(self._world(), self._clock.monotonic())
                    for operation in due[: AT_ONCE - len(self._busy)]:
                        self._busy.add(operation.path)
                        group.create_task(self._carry_out(operation))
                    await wait_first(self._changed.wait(), self._clock.sleep(self._rest()))
        except BaseExceptionGroup as failures:
            raise single(failures) from None

    def _see(self, sockets: Sockets) -> None:
        self._desired = sockets
        self._waits = {path: wait for path, wait in self._waits.items() if path in sockets}
        self._changed.set()

    def _world(self) -> World:
        actual = {path: taken.generation for path, taken in self._taken.items()}
        return World(self._desired, actual, self._busy, self._waits)

    def _rest(self) -> float:
        due = next_due(self._world(), self._clock.monotonic())
        return RECONCILE_SECONDS if due is None else min(due, RECONCILE_SECONDS)

    async def _carry_out(self, operation: Operation) -> None:
        try:
            if isinstance(operation, Register):
                await self._register(operation.path, operation.generation)
            else:
                await self._unregister(operation)
        except Error as error:
            _log.warning("plugin not registered", path=operation.path, error=str(error))
            if isinstance(operation, Register):
                self._fail(operation.path, operation.generation)
        finally:
            self._busy.discard(operation.path)
            self._changed.set()

    def _fail(self, path: str, generation: int) -> None:
        self._waits[path] = failed(self._waits.get(path), generation, self._clock.monotonic())

    async def _unregister(self, operation: Unregister) -> None:
        taken = self._taken.pop(operation.path, None)
        if taken is None:  # it ended by itself (`lost`) after this was decided
            return
        await taken.handler.deregister(taken.name, taken.endpoint)
        _log.info("plugin unregistered", path=operation.path, plugin=taken.name)

    async def _register(self, path: str, generation: int) -> None:
        async with AsyncExitStack() as stack:
            with _saying(f"dial failed at socket {path}"):
                channel = await stack.enter_async_context(connect(path, timeout=DIAL_TIMEOUT, wait=DIAL_WAIT))
            await self._introduce(_Plugin(path, RegistrationClient(channel)), generation)

    async def _introduce(self, plugin: _Plugin, generation: int) -> None:
        info = await plugin.info()
        for field, limit in (("name", LONGEST_NAME), ("endpoint", LONGEST_ENDPOINT)):
            if len(getattr(info, field)) > limit:
                raise await plugin.refuse(f"the plugin's {field} has more than {limit} characters")
        handler = self._handlers.get(info.type)
        if handler is None:
            text = f"no handler registered for plugin type: {info.type} at socket {plugin.path}"
            raise await plugin.refuse(text)
        taken = _Taken(generation, handler, info.name, info.endpoint or plugin.path)
        versions, stage = tuple(info.supported_versions), "validation"
        try:
            handler.validate(taken.name, taken.endpoint, versions)
            stage = "registration"
            self._taken[plugin.path] = taken
            await handler.register(taken.name, taken.endpoint, versions)
        except Error as error:
            self._taken.pop(plugin.path, None)
            raise await plugin.refuse(f"plugin {stage} failed with err: {error}") from error
        await self._confirm(plugin, taken)

    async def _confirm(self, plugin: _Plugin, taken: _Taken) -> None:
        """A plugin that cannot be told is not taken: it would not know. One that came in its place is asked first."""
        try:
            if self._desired.get(plugin.path) != taken.generation:
                raise UnavailableError(f"{_ERROR} socket {plugin.path} is gone, or another one by now")
            await plugin.notify(RegistrationStatus(plugin_registered=True))
        except Error:
            self._taken.pop(plugin.path, None)
            await taken.handler.deregister(taken.name, taken.endpoint)
            raise
        if self._taken.get(plugin.path) is not taken:
            raise UnavailableError(f"{_ERROR} the plugin at socket {plugin.path} ended at once")
        _log.info("plugin registered", path=plugin.path, plugin=taken.name, endpoint=taken.endpoint)


@dataclass(frozen=True, slots=True)
class _Plugin:
    """A plugin's registration socket."""

    path: str
    client: RegistrationClient

    async def info(self) -> PluginInfo:
        with _saying(f"failed to get plugin info using RPC GetInfo at socket {self.path}"):
            return await self.client.get_info(InfoRequest(), timeout=GET_INFO_TIMEOUT)

    async def refuse(self, text: str) -> Error:
        """Tell the plugin; gives the error to raise."""
        # A path may have bytes that are no text.
        sendable = f"{_ERROR} {text}".encode(errors="replace").decode()
        await self.notify(RegistrationStatus(plugin_registered=False, error=sendable))
        return ProtocolError(sendable)

    async def notify(self, status: RegistrationStatus) -> None:
        what = "error" if status.error else "registration status"
        with _saying(f"failed to send {what} at socket {self.path}"):
            await self.client.notify_registration_status(status, timeout=NOTIFY_TIMEOUT)


@contextmanager
def _saying(where: str) -> Iterator[None]:
    try:
        yield
    except Error as error:
        raise UnavailableError(f"{_ERROR} {where}, err: {rpc_text(error)}") from error
