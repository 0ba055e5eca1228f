"""A few pages over HTTP for machines that ask: GET and HEAD, one answer a connection.

Our own, and small: a web framework costs a node agent more memory than all of its devices.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

from dray.runtime.http_hosts import LOOPBACK, Hosts
from dray.runtime.logs import get_log
from dray.runtime.ports import cannot_listen

_log = get_log("runtime.pages")

_HEAD_BYTES = 16 * 1024
_SECONDS = 10.0
_CONNECTIONS = 32


@dataclass(frozen=True, slots=True)
class Page:
    """One answer."""

    status: int
    content_type: str
    body: bytes


PROBES: Final = ("/healthz", "/livez", "/readyz")
_TOKEN_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Readers:
    """Who may read pages: who calls us by an address, or by a name of ours, and knows the token where there is one.

    A page of another site can only call us by a name of its own. `token_file` is read for each request, so that it can
    be changed; while it is missing or empty nobody is let in. Probes (`PROBES`) are answered without a token.
    """

    names: tuple[str, ...] = ()
    token_file: Path | None = None

    def refuse(self, path: str, headers: Mapping[str, str], host: str) -> Page | None:
        """The answer to who may not read `path`; None: he may. `host` is the address that we listen on."""
        named = headers.get("host")
        # Every browser names a host.
        if named is not None and not Hosts.named((*LOOPBACK, host, *self.names)).has(named):
            return _told(HTTPStatus.FORBIDDEN, "this name is not the server's: call it by its address")
        if self.token_file is None or path in PROBES:
            return None
        known = _token_in(self.token_file)
        kind, _, given = headers.get("authorization", "").partition(" ")
        is_right = hmac.compare_digest(given.strip().encode("latin-1", "replace"), known)
        if known and kind.lower() == "bearer" and is_right:
            return None
        why = (
            "send the token as Authorization: Bearer" if known else "no token is set, so nobody may read this"
        )
        return _told(HTTPStatus.UNAUTHORIZED, why)


ANYBODY: Final = Readers()


def _token_in(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(_TOKEN_BYTES).strip()
    except OSError as error:
        _log.debug("the token of the pages cannot be read", file=str(file), error=str(error))
        return b""


@asynccontextmanager
async def serve_pages(
    pages: Mapping[str, Callable[[], Page]], *, host: str, port: int = 0, readers: Readers = ANYBODY
) -> AsyncIterator[int]:
    """Serve these paths while entered; gives the port. A page is made anew for each request, in the loop: keep it quick.

    A slow or silent client is dropped after 10 seconds; of more than 32 at once the oldest is, so that whoever holds many
    connections does not keep the kubelet's probes from being answered.
    """

    def choose(head: bytes) -> tuple[str, Page]:
        method, path, headers = _read_head(head)
        refusal = readers.refuse(path, headers, host) if path else None
        return method, refusal or _page(pages, method, path)

    answering: dict[asyncio.Task[None] | None, asyncio.StreamWriter] = {}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(answering) >= _CONNECTIONS:
            answering.pop(next(iter(answering))).transport.abort()
        answering[task := asyncio.current_task()] = writer
        try:
            async with asyncio.timeout(_SECONDS):
                await _answer(choose, reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            _log.debug("a client was dropped", error=repr(error))
        finally:
            answering.pop(task, None)
            # What is not sent by now never will be.
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    try:
        server = await asyncio.start_server(answer, host, port, limit=_HEAD_BYTES)
    except OSError as error:
        raise cannot_listen(host, port, error, "choose another address or port") from error
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        left = {task for task in answering if task is not None}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=2.0)


async def _answer(
    choose: Callable[[bytes], tuple[str, Page]], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    method, page = choose(await reader.readuntil(b"\r\n\r\n"))
    reason = HTTPStatus(page.status).phrase
    lines = [
        f"HTTP/1.1 {page.status} {reason}",
        f"Content-Type: {page.content_type}",
        f"Content-Length: {len(page.body)}",
        "Connection: close",
        *(["Allow: GET, HEAD"] if page.status == HTTPStatus.METHOD_NOT_ALLOWED else []),
        *(["WWW-Authenticate: Bearer"] if page.status == HTTPStatus.UNAUTHORIZED else []),
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode() + (b"" if method == "HEAD" else page.body))
    await writer.drain()
    writer.write_eof()
    # Until the client has read and closed: an early close could take the answer with it.
    await reader.read(1)


def _read_head(head: bytes) -> tuple[str, str, dict[str, str]]:
    """Method, path without its query and headers with small letters; no path where it is not HTTP."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return "", "", {}
    pairs = (line.partition(":") for line in lines if ":" in line)
    return words[0], words[1].partition("?")[0], {name.lower(): value.strip() for name, _, value in pairs}


def _page(pages: Mapping[str, Callable[[], Page]], method: str, path: str) -> Page:
    if not path:
        return _told(HTTPStatus.BAD_REQUEST)
    if method not in ("GET", "HEAD"):
        return _told(HTTPStatus.METHOD_NOT_ALLOWED)
    make = pages.get(path)
    return make() if make is not None else _told(HTTPStatus.NOT_FOUND)


def _told(status: HTTPStatus, why: str = "") -> Page:
    text = f"{status.value} {status.phrase}{f': {why}' if why else ''}\n"
    return Page(status, "text/plain; charset=utf-8", text.encode())
