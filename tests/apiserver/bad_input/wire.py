"""HTTP written byte by byte over TLS: what no client library would send can be sent, and every answer has a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

DEADLINE: Final = 60.0
"""An answer that takes longer is a hang. Many machines in one are slow, so it is far from what is usual."""
_WATCH_BYTES: Final = 64 << 10
_WATCH_SECONDS: Final = 0.05


@dataclass(frozen=True)
class Target:
    """Where the server is, and who asks."""

    host: str
    port: int
    token: str
    trust: ssl.SSLContext


@dataclass(frozen=True)
class Request:
    """One request. `is_stream`: the answer has no end, so only its start is read."""

    method: str
    path: str
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()
    is_stream: bool = False

    def encoded(self, target: Target) -> bytes:
        """With a token, unless the headers have one."""
        lines = [f"{self.method} {self.path} HTTP/1.1", f"Host: {target.host}:{target.port}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        if not any(name.lower() == "authorization" for name, _ in self.headers):
            lines.append(f"Authorization: Bearer {target.token}")
        if self.body is not None:
            lines.append(f"Content-Length: {len(self.body)}")
        head = "\r\n".join((*lines, "", "")).encode("latin-1", "surrogateescape")
        return head + (self.body or b"")


@dataclass(frozen=True)
class Answer:
    """What came back. Code 0: the connection ended without an answer."""

    code: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def document(self) -> Any:
        """The body as JSON; None where it is none."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None

    @property
    def is_status(self) -> bool:
        """Whether it is a Status that tells its own code, as every refusal must be."""
        told = self.document
        return isinstance(told, dict) and (told.get("kind"), told.get("code")) == ("Status", self.code)


class Connection:
    """One connection, opened anew where the server closed it."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: Request) -> Answer:
        """Send one request and read its answer. TimeoutError after the deadline, which fails a test."""
        async with asyncio.timeout(DEADLINE):
            was_used = self._streams is not None
            try:
                answer = await self._ask(request)
            except OSError:
                answer = Answer(0)
            if answer.code == 0 and was_used:  # it had been closed meanwhile
                self.drop()
                answer = await self._ask(request)
        if request.is_stream or answer.code == 0 or answer.headers.get("connection") == "close":
            self.drop()
        return answer

    async def _ask(self, request: Request) -> Answer:
        reader, writer = await self.streams()
        writer.write(request.encoded(self.target))
        with contextlib.suppress(ConnectionError):
            # A server that refuses a large body may answer before it has read all of it.
            await writer.drain()
        return await read_answer(reader, is_stream=request.is_stream, has_body=request.method != "HEAD")

    async def streams(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """For bytes of one's own."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(
                self.target.host, self.target.port, ssl=self.target.trust, limit=1 << 20
            )
        return self._streams

    def drop(self) -> None:
        """Close it, without a word."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


@asynccontextmanager
async def connection(target: Target) -> AsyncIterator[Connection]:
    """A connection that is gone afterwards."""
    made = Connection(target)
    try:
        yield made
    finally:
        made.drop()


async def read_answer(
    reader: asyncio.StreamReader, *, is_stream: bool = False, has_body: bool = True
) -> Answer:
    """The next answer of a connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        code = int(first.split(" ")[1])
        if code == 100:
            return await read_answer(reader, is_stream=is_stream, has_body=has_body)
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)
        }
        body = await _body(reader, headers, is_stream=is_stream and code == 200) if has_body else b""
    except (asyncio.IncompleteReadError, ConnectionError):
        return Answer(0)
    return Answer(code, headers, body)


async def _body(reader: asyncio.StreamReader, headers: dict[str, str], *, is_stream: bool) -> bytes:
    if is_stream:
        try:
            async with asyncio.timeout(_WATCH_SECONDS):
                return await reader.read(_WATCH_BYTES)
        except TimeoutError:
            return b""
    if headers.get("transfer-encoding") == "chunked":
        told = []
        while size := int((await reader.readline()).split(b";")[0], 16):
            told.append(await reader.readexactly(size))
            await reader.readexactly(2)
        await reader.readline()
        return b"".join(told)
    if "content-length" in headers:
        return await reader.readexactly(int(headers["content-length"]))
    return await reader.read()
