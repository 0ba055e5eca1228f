"""A few pages over HTTP for machines that ask: GET and HEAD, one answer a connection.

Our own, and small: a web framework costs a node agent more memory than all of its devices.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus

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


@asynccontextmanager
async def serve_pages(
    pages: Mapping[str, Callable[[], Page]], *, host: str, port: int = 0
) -> AsyncIterator[int]:
    """Serve these paths while entered; gives the port. A page is made anew for each request, in the loop: keep it quick.

    A slow or silent client is dropped after 10 seconds, and more than 32 at once are turned away.
    """
    answering: set[asyncio.Task[None] | None] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answering.add(task := asyncio.current_task())
        try:
            async with asyncio.timeout(_SECONDS):
                if len(answering) <= _CONNECTIONS:
                    await _answer(pages, reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            _log.debug("a client was dropped", error=repr(error))
        finally:
            answering.discard(task)
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
    pages: Mapping[str, Callable[[], Page]], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    page = _page(pages, words)
    reason = HTTPStatus(page.status).phrase
    lines = [
        f"HTTP/1.1 {page.status} {reason}",
        f"Content-Type: {page.content_type}",
        f"Content-Length: {len(page.body)}",
        "Connection: close",
        *(["Allow: GET, HEAD"] if page.status == HTTPStatus.METHOD_NOT_ALLOWED else []),
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode() + (b"" if words[0] == "HEAD" else page.body))
    await writer.drain()
    writer.write_eof()
    # Until the client has read and closed: an early close could take the answer with it.
    await reader.read(1)


def _page(pages: Mapping[str, Callable[[], Page]], words: list[str]) -> Page:
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return _told(HTTPStatus.BAD_REQUEST)
    if words[0] not in ("GET", "HEAD"):
        return _told(HTTPStatus.METHOD_NOT_ALLOWED)
    make = pages.get(words[1].partition("?")[0])
    return make() if make is not None else _told(HTTPStatus.NOT_FOUND)


def _told(status: HTTPStatus) -> Page:
    return Page(status, "text/plain; charset=utf-8", f"{status.value} {status.phrase}\n".encode())
