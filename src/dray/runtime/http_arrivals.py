"""How connections that have shown nothing yet are bounded: first in the TLS handshake, then until they show who they are.

Each costs a quarter of a megabyte, so whoever only holds connections must not have as many as there are descriptors.
Of too many the oldest end: new ones, those of honest clients among them, always have their turn.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from dray.runtime.tasks import running

MOST_HANDSHAKES: Final = 64
"""Connections of one server whose handshake has not ended, counted from when they are accepted. A server that many clients
connect to at once, such as after its restart, needs more: those that are ended try again, but later."""
HANDSHAKE_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 1.0


class TLSSite(web.BaseSite):
    """Accepts connections and hands them to the runner's server when their handshake is done, which must be soon."""

    def __init__(
        self, runner: web.BaseRunner, host: str, port: int, context: ssl.SSLContext, most: int
    ) -> None:
        super().__init__(runner, ssl_context=context)
        self._most = most
        self._host, self._port = host, port
        self._context = context
        self._handshakes: dict[asyncio.Transport, asyncio.Task[None]] = {}
        self._is_stopped = False

    @property
    def name(self) -> str:
        """Where it listens, for the library's own messages."""
        return f"https://{self._host}:{self._port}"

    async def start(self) -> None:
        """Listen. OSError where the address cannot be had."""
        await super().start()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Arrival(self), self._host, self._port)

    async def stop(self) -> None:
        """Accept no more, and end those whose handshake is not done."""
        await super().stop()
        self._is_stopped = True
        handshakes = list(self._handshakes.items())
        for transport, _ in handshakes:
            transport.abort()
        if handshakes:
            await asyncio.wait([task for _, task in handshakes], timeout=HANDSHAKE_SECONDS)

    def accept(self, transport: asyncio.Transport, arrival: _Arrival) -> None:
        """Called for each new connection, of which nothing is read yet."""
        if self._is_stopped:  # it was accepted just before
            transport.abort()
            return
        waiting = [one for one in self._handshakes if not one.is_closing()]
        if len(waiting) >= self._most:
            waiting[0].abort()
        loop = asyncio.get_running_loop()
        handshake = self._shake_hands(transport, arrival)
        self._handshakes[transport] = loop.create_task(handshake, name="TLS handshake")

    async def _shake_hands(self, transport: asyncio.Transport, arrival: _Arrival) -> None:
        loop = asyncio.get_running_loop()
        try:
            if transport.is_closing():  # too many came after it
                return
            encrypted = await loop.start_tls(
                transport,
                arrival,
                self._context,
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
            )
        except OSError:  # of TLS, or of a client that is gone or too slow
            transport.abort()
            return
        finally:
            del self._handshakes[transport]
        if encrypted is None or transport.is_closing() or self._runner.server is None:
            transport.abort()
            return
        arrival.become(self._runner.server(), encrypted)


class _Arrival(asyncio.Protocol):
    """The protocol of a connection until its handshake is done; it keeps what came right behind the handshake."""

    def __init__(self, site: TLSSite) -> None:
        self._site = site
        self._came = bytearray()
        self._has_ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called when it is accepted, before TLS."""
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        self._site.accept(transport, self)

    def data_received(self, data: bytes) -> None:
        """Called with what was decrypted before `become`."""
        self._came += data

    def eof_received(self) -> bool:
        """Called when the client will send no more; the connection stays for an answer."""
        self._has_ended = True
        return True

    def become(self, protocol: web.RequestHandler, transport: asyncio.Transport) -> None:
        """From now on the connection is this protocol's."""
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if self._came:
            protocol.data_received(bytes(self._came))
        if self._has_ended:
            protocol.eof_received()


class Strangers:
    """The connections of a server on which nobody has shown yet who they are: of more than `most` the oldest end."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[object] = set()

    def know(self, request: web.BaseRequest) -> None:
        """Called when the client has shown who it is: its connection is no stranger's any more."""
        self._known.add(request.protocol)

    @asynccontextmanager
    async def bounded(self, runner: web.BaseRunner) -> AsyncIterator[None]:
        """Look at the runner's connections again and again while entered."""

        async def look() -> None:
            while True:
                await asyncio.sleep(_LOOK_SECONDS)
                if runner.server is not None:
                    self._drop(runner.server.connections)

        async with running(look(), name="strangers' connections"):
            yield

    def _drop(self, connected: list[web.RequestHandler]) -> None:
        """The oldest come first."""
        self._known &= set(connected)
        strangers = [one for one in connected if one not in self._known]
        for one in strangers[: -self._most]:
            if one.transport is not None:
                one.transport.abort()
