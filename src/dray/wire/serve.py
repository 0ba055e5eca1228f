"""Serve handlers on a unix socket: `async with serve(path, [DevicePluginService(handler)]): …`."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Collection, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dray.errors import InvariantError
from dray.runtime.logs import get_log
from dray.runtime.tasks import running
from dray.wire.limits import DEFAULT, Limits
from dray.wire.service import Route, Service
from dray.wire.sockets import Listener, listening, peer_of
from dray.wire.transport.dispatch import Dispatcher
from dray.wire.transport.http2 import CallProtocol
from dray.wire.transport.room import Room

_log = get_log("wire.serve")
# Turns of the event loop from accepting a connection to telling its protocol: accept, make the transport, tell.
_ACCEPT_TURNS = 4
LARGE_MESSAGES = 4
"""Of the largest size, that all callers of a server may have on their way and in work together."""


@asynccontextmanager
async def serve(
    path: str | os.PathLike[str],
    services: Sequence[Service[object]],
    *,
    mode: int = 0o600,
    directory_mode: int | None = None,
    staging: Path | None = None,
    allowed_uids: Collection[int] | None = None,
    limits: Limits = DEFAULT,
) -> AsyncIterator[Server]:
    """Listen while the context is open. Entered: callers get answers. Left: stopped, and the socket is gone.

    The socket appears under its name only when it has its `mode` and accepts calls. A socket that nobody listens on
    is replaced; one that somebody does is a ConflictError. `directory_mode` lets missing parents be made; see `listening`
    for `staging`. With `allowed_uids` other users' connections are closed at once.

    On the way out streams end at once with UNAVAILABLE, unary calls get `limits.grace` seconds, then all are
    cancelled. A file that replaced ours meanwhile is left alone. An InvariantError in a handler ends the body.
    """
    opened = listening(Path(path), mode=mode, directory_mode=directory_mode, staging=staging)
    async with opened as listener:
        server = Server(listener, services, limits, allowed_uids)
        try:
            async with running(server.host(), name=f"serve {path}", stop_timeout=limits.stop):
                await server.open()
                try:
                    yield server
                finally:
                    await server.drain()
        finally:
            await server.close()


class Server:
    """What `serve` gives: one listening socket with its connections and calls. All tasks are its own."""

    def __init__(
        self,
        listener: Listener,
        services: Sequence[Service[object]],
        limits: Limits,
        allowed_uids: Collection[int] | None,
    ) -> None:
        self.path = listener.path
        self._listener = listener
        self._routes = _table(services)
        self._limits = limits
        self._allowed = allowed_uids
        self._accepting: asyncio.Server | None = None
        self._protocols: set[CallProtocol] = set()
        self._peers: Counter[int] = Counter()
        self._calls: dict[asyncio.Task[None], str] = {}
        self._group: asyncio.TaskGroup | None = None
        self._hosting = asyncio.Event()
        self._room = Room(LARGE_MESSAGES * limits.receive)

    async def host(self) -> None:
        """Keep the task group that the calls run in, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            self._hosting.set()
            try:
                await asyncio.Event().wait()
            finally:
                self._group = None

    async def open(self) -> None:
        """Begin to accept."""
        await self._hosting.wait()
        loop = asyncio.get_running_loop()
        try:
            self._accepting = await loop.create_unix_server(self._connected, sock=self._listener.socket)
        except BaseException:
            # Cancelled, it may accept already: a reader that outlives its socket makes the number's next owner deaf.
            loop.remove_reader(self._listener.socket.fileno())
            raise

    async def drain(self) -> None:
        """Take the socket away, refuse new calls, end the streams, let unary calls finish for a while."""
        self._group = None
        self._listener.unlink()
        await self._stop_accepting()
        for task, kind in self._calls.items():
            if kind == "stream":
                task.cancel()
        if self._calls:
            await asyncio.wait(set(self._calls), timeout=self._limits.grace)

    async def _stop_accepting(self) -> None:
        """Accept no more, and let what was accepted become a connection first.

        asyncio before 3.12 drops a connection that is between the two when its server closes, and leaks its socket.
        """
        if self._accepting is None:
            return
        asyncio.get_running_loop().remove_reader(self._listener.socket.fileno())
        try:
            for _ in range(_ACCEPT_TURNS):
                await asyncio.sleep(0)
        finally:
            self._accepting.close()

    async def close(self) -> None:
        """Close what connections are left."""
        closed = {protocol.closed for protocol in self._protocols}
        for protocol in self._protocols:
            protocol.shut("the server is stopping")
        if closed:
            _, late = await asyncio.wait(closed, timeout=self._limits.stop)
            if late:
                _log.info("connections dropped with bytes unsent", path=self.path, count=len(late))
        for protocol in self._protocols:
            protocol.abort()

    def _connected(self) -> CallProtocol:
        """A protocol for a new connection; called by the event loop for each."""
        dispatcher = Dispatcher(self._routes, self._limits, self._spawn, self._room)
        return ServedProtocol(dispatcher, self)

    def admit(self, protocol: CallProtocol, transport: asyncio.BaseTransport) -> bool:
        """Whether this connection may stay."""
        if len(self._protocols) >= self._limits.connections:
            _log.warning("connection refused: too many", path=self.path, limit=self._limits.connections)
            return False
        peer = peer_of(transport.get_extra_info("socket"))
        if not self._has_room(peer.pid):
            _log.warning("connection refused: too many of one process", path=self.path, pid=peer.pid)
            return False
        if self._allowed is not None and peer.uid not in self._allowed:
            _log.warning("connection refused: user not allowed", path=self.path, uid=peer.uid, pid=peer.pid)
            return False
        self._protocols.add(protocol)
        self._peers[peer.pid] += 1
        protocol.closed.add_done_callback(lambda _: self._left(protocol, peer.pid))
        return True

    def _has_room(self, pid: int) -> bool:
        """A process of another namespace has no number here (0): those cannot be told apart."""
        limit = self._limits.per_process
        return not limit or not pid or self._peers[pid] < limit

    def _left(self, protocol: CallProtocol, pid: int) -> None:
        self._protocols.discard(protocol)
        self._peers[pid] -= 1
        if not self._peers[pid]:
            del self._peers[pid]

    def _spawn(self, call: Coroutine[Any, Any, None], kind: str) -> asyncio.Task[None] | None:
        try:
            task = self._group.create_task(call) if self._group is not None else None
        except RuntimeError:  # the group is being torn down by a failure
            task = None
        if task is None:
            call.close()
            return None
        self._calls[task] = kind
        task.add_done_callback(lambda done: self._calls.pop(done, None))
        return task


class ServedProtocol(CallProtocol):
    """A server's side of a connection: asks the server first."""

    def __init__(self, dispatcher: Dispatcher, server: Server) -> None:
        super().__init__(dispatcher, client=False, limits=server._limits)  # noqa: SLF001
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop for each accepted connection."""
        super().connection_made(transport)
        if not self._server.admit(self, transport):
            self.abort()


def _table(services: Sequence[Service[object]]) -> dict[str, Route]:
    table: dict[str, Route] = {}
    for service in services:
        for route in service.routes():
            if route.path in table:
                raise InvariantError(f"two services answer {route.path} on one socket")
            table[route.path] = route
    return table
