"""Real HTTP servers on loopback that do what a test tells them."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web

from dray.runtime.clock import settle
from tests.waiting import PATIENCE

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass
class ScriptedServer:
    """Answers requests from a list of handlers, in order; the last one answers for ever."""

    port: int = 0
    scheme: str = "http"
    handlers: list[Handler] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def answer(self, *handlers: Handler) -> None:
        self.handlers[:] = handlers

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(Seen(request.method, request.raw_path, dict(request.headers), await request.read()))
        handler = self.handlers.pop(0) if len(self.handlers) > 1 else self.handlers[0]
        return await handler(request)


def reply(status: int = 200, document: Any = None, **headers: str) -> Handler:
    """Answer with a JSON document."""
    body = msgspec.json.encode({} if document is None else document)
    names = {name.replace("_", "-"): value for name, value in headers.items()}

    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, body=body, content_type="application/json", headers=names)

    return handler


def status(code: int, reason: str, message: str, **headers: str) -> Handler:
    """Answer as the API server does when it refuses."""
    document = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
    }
    return reply(code, document, **headers)


def text(code: int, body: str, content_type: str = "text/plain", **headers: str) -> Handler:
    names = {name.replace("_", "-"): value for name, value in headers.items()}

    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(status=code, text=body, content_type=content_type, headers=names)

    return handler


def lines(*events: Any, end: str = "eof", pause: float = 0.0) -> Handler:
    """Answer a watch with these events (bytes are sent as they are), then end: `eof`, `abort` or `hang`."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for event in events:
            data = event if isinstance(event, bytes) else msgspec.json.encode(event) + b"\n"
            await response.write(data)
            await asyncio.sleep(pause)
        if end == "abort":
            assert request.transport is not None
            request.transport.abort()
        if end == "hang":
            await asyncio.sleep(60)
        return response

    return handler


@asynccontextmanager
async def scripted(context: ssl.SSLContext | None = None, port: int = 0) -> AsyncIterator[ScriptedServer]:
    """Serve while entered; open connections are cut at the end."""
    server = ScriptedServer(scheme="https" if context else "http")
    server.answer(reply())
    app = web.Application(client_max_size=64 * 2**20)
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.05, handler_cancellation=True)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=context, reuse_address=True)
        await site.start()
        server.port = runner.addresses[0][1]
        try:
            yield server
        finally:
            await _stop_accepting(site)
    finally:
        web_server = runner.server
        transports = [one.transport for one in web_server.connections] if web_server is not None else []
        await runner.cleanup()
        for transport in transports:
            if transport is not None:
                transport.abort()  # without waiting for a peer to read what is still to be written
        await settle()  # a TLS connection shows up only after its handshake
        if web_server is not None:
            await web_server.shutdown(0.0)


async def _stop_accepting(site: web.TCPSite) -> None:
    """Accept no more, and let what was accepted become a connection: asyncio before 3.12 leaks it when its server closes."""
    listening = site._server
    assert isinstance(listening, asyncio.Server)
    for one in listening.sockets:
        asyncio.get_running_loop().remove_reader(one.fileno())
    await settle()


def _answer_once(secure: ssl.SSLSocket) -> None:
    secure.do_handshake()
    secure.recv(65536)
    secure.sendall(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        b"Connection: close\r\nContent-Length: 2\r\n\r\n{}"
    )


@contextmanager
def blocking_tls_server(context: ssl.SSLContext) -> Iterator[str]:
    """A TLS server in a thread that answers `{}`. Unlike asyncio's, it tells a refused client why (a TLS alert)."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with (
                connection,
                context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False) as secure,
            ):
                secure.settimeout(PATIENCE)
                with suppress(OSError):
                    _answer_once(secure)
                with suppress(OSError):
                    secure.settimeout(0.2)
                    secure.shutdown(socket.SHUT_WR)
                    while secure.recv(65536):  # closing with unread data would reset the connection
                        pass

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(timeout=PATIENCE)


@asynccontextmanager
async def raw_server(
    *answers: bytes | Callable[[], bytes], pause: float = 0.0, hold: bool = False
) -> AsyncIterator[str]:
    """Answer every connection's first request with these bytes, whatever they are, then close (or `hold`)."""
    connections: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(writer)
        try:
            await reader.readuntil(b"\r\n\r\n")
            for answer in answers:
                writer.write(answer if isinstance(answer, bytes) else answer())
                await writer.drain()
                await asyncio.sleep(pause)
            if hold:
                await asyncio.sleep(60)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            connections.discard(writer)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in list(connections):
            writer.transport.abort()
        await asyncio.sleep(0)


@asynccontextmanager
async def tunnel() -> AsyncIterator[str]:
    """An HTTP proxy that opens tunnels (CONNECT) to anywhere."""
    groups: list[asyncio.StreamWriter] = []

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, target, _ = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)
        host, _, port = target.decode().rpartition(":")
        assert method == b"CONNECT"
        try:
            onward = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        groups.extend((writer, onward[1]))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(copy(reader, onward[1]), copy(onward[0], writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in groups:
            writer.transport.abort()
        await asyncio.sleep(0.01)
