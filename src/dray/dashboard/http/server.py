"""The dashboard over HTTP: every request passes the doorkeeper, is looked up in one table, and gets one answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from socket import SO_LINGER, SO_SNDBUF, SOL_SOCKET
from struct import pack
from typing import Any, Final
from urllib.parse import unquote

from aiohttp import web

from dray.dashboard.http.answers import TooManyError, file_answer, json_answer, refused
from dray.dashboard.http.files import File
from dray.dashboard.http.login import log_in
from dray.dashboard.http.security import HEADERS, Doorkeeper
from dray.dashboard.http.stream import Stream
from dray.dashboard.telling.pages import Pages
from dray.errors import DeniedError, Error, UnavailableError
from dray.runtime.http_server import STOP_SECONDS, PlainServer, RequestError, listening
from dray.runtime.logs import get_log
from dray.runtime.tasks import wait_first

_log = get_log("dashboard")

BODY_LIMIT: Final = 1 * 2**20
HEADER_LIMIT: Final = 16 * 1024
IDLE_SECONDS: Final = 60.0
READ_SECONDS: Final = 15.0
SEND_BYTES: Final = 256 * 1024
"""That the kernel keeps for a follower which does not take them."""
_API: Final = "api"
_DEVICES: Final = "devices"

Door = Callable[[web.BaseRequest, tuple[str, ...]], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serve(server: Server, host: str, port: int) -> AsyncIterator[int]:
    """Answer while entered; gives the port. Streams end at once when it is left."""
    plain = PlainServer(
        server.handle, refused, "dashboard", idle_seconds=IDLE_SECONDS, max_field_size=HEADER_LIMIT
    )
    runner = web.ServerRunner(plain, shutdown_timeout=STOP_SECONDS)
    async with listening(runner, host, port, advice="choose another address with --listen") as chosen:
        try:
            yield chosen
        finally:
            server.stop()


async def _slowly_if_wrong(doorkeeper: Doorkeeper, check: Callable[[], None]) -> None:
    try:
        check()
    except DeniedError:
        try:
            await doorkeeper.slow_down()
        except UnavailableError as error:
            raise TooManyError(str(error), retry_after=error.retry_after) from error
        raise


class Server:
    """The doorkeeper is given when the port is known: until then nobody is let in."""

    def __init__(self, pages: Pages, stream: Stream, files: Mapping[str, File]) -> None:
        self._pages = pages
        self._files = files
        self._stream = stream
        self._doorkeeper: Doorkeeper | None = None
        self._stopped = asyncio.Event()
        get: dict[tuple[str, ...], Door] = {
            ("fleet",): self._plain(pages.fleet),
            ("nodes", "*"): self._plain(pages.node),
            (_DEVICES, "*", "*", "*"): self._plain(pages.device),
            ("claims",): self._plain(pages.claims),
            ("pods",): self._plain(pages.pods),
            ("events",): self._plain(pages.events),
            ("explain",): self._plain(pages.explain),
            ("stream",): self._follow,
        }
        post: dict[tuple[str, ...], Door] = {
            ("login",): self._log_in,
            ("logout",): self._log_out,
            ("whatif",): self._what_if,
        }
        self._doors: Mapping[str, Mapping[tuple[str, ...], Door]] = {"GET": get, "POST": post}

    def open_for(self, doorkeeper: Doorkeeper) -> None:
        """From now on requests are answered."""
        self._doorkeeper = doorkeeper

    def stop(self) -> None:
        """Ends all streams."""
        self._stopped.set()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Called by the library for each request. Nothing but our own bugs comes out of it."""
        try:
            return await self._answer(request)
        except Error as error:
            answer = refused(error)
            if not request.can_read_body or request.content.is_eof():
                return answer
            answer.force_close()  # what is left of the body is not read
            return answer

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        doorkeeper = self._doorkeeper
        if doorkeeper is None:
            raise UnavailableError("the dashboard is starting", retry_after=1.0)
        first, *rest = request.raw_path.partition("?")[0].removeprefix("/").split("/")
        is_api = first == _API
        doorkeeper.check_place(request.headers, is_api=is_api)
        if not is_api:
            return self._file(request)
        door, words = self._door(request.method, _decoded(rest))
        if rest != ["login"]:
            await _slowly_if_wrong(
                doorkeeper, lambda: doorkeeper.check_user(request.headers, request.cookies)
            )
        return await door(request, words)

    def _file(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method not in ("GET", "HEAD"):
            raise RequestError(405, f"{request.method} is not answered here: ask with GET")
        file = self._files.get(request.raw_path.partition("?")[0].removeprefix("/"))
        if file is None:
            raise RequestError(404, "there is no such page: open / instead")
        return file_answer(file, request.headers.get("If-None-Match", ""))

    def _door(self, method: str, words: tuple[str, ...]) -> tuple[Door, tuple[str, ...]]:
        found = {name: table for name, table in self._doors.items() if _match(table, words)}
        if not found:
            raise RequestError(404, "there is no such question: docs/reference/dashboard.md lists them")
        if method not in found:
            raise RequestError(405, f"{method} is not answered here: use {' or '.join(sorted(found))}")
        pattern = _match(found[method], words)
        assert pattern is not None
        given = tuple(word for word, part in zip(words, pattern, strict=True) if part == "*")
        return found[method][pattern], given

    def _plain(self, page: Callable[..., Awaitable[Any]]) -> Door:
        async def answer(request: web.BaseRequest, words: tuple[str, ...]) -> web.StreamResponse:
            return json_answer(await page(*words, query=dict(request.query)))

        return answer

    async def _log_in(self, request: web.BaseRequest, _: tuple[str, ...]) -> web.StreamResponse:
        doorkeeper = self._doorkeeper
        assert doorkeeper is not None
        body = await read_body(request)
        await _slowly_if_wrong(doorkeeper, lambda: log_in(doorkeeper, body))
        answer = json_answer({"ok": True})
        answer.set_cookie(
            doorkeeper.cookie, doorkeeper.cookie_value, httponly=True, samesite="Strict", path="/"
        )
        return answer

    async def _log_out(self, request: web.BaseRequest, _: tuple[str, ...]) -> web.StreamResponse:
        assert self._doorkeeper is not None
        answer = json_answer({"ok": True})
        answer.del_cookie(self._doorkeeper.cookie, path="/", httponly=True, samesite="Strict")
        return answer

    async def _what_if(self, request: web.BaseRequest, _: tuple[str, ...]) -> web.StreamResponse:
        return json_answer(await self._pages.what_if(await read_body(request)))

    async def _follow(self, request: web.BaseRequest, _: tuple[str, ...]) -> web.StreamResponse:
        stream = self._stream
        if stream.followers >= stream.options.most:
            raise UnavailableError(
                f"{stream.options.most} pages follow already: close some", retry_after=10.0
            )
        since = request.headers.get("Last-Event-ID") or request.query.get("since", "")
        headers = {
            "Content-Type": "text/event-stream",
            "Cache-Control": "no-store",
            "X-Accel-Buffering": "no",
        }
        answer = web.StreamResponse(headers={**headers, **HEADERS})
        stream.followers += 1
        try:
            await answer.prepare(request)
            _set(request, SO_SNDBUF, SEND_BYTES)
            await wait_first(self._send(request, answer, since), self._stopped.wait())
        except (TimeoutError, ConnectionError):
            _log.info("a follower was cut off: it takes nothing", peer=request.remote)
            _cut_off(request)
        finally:
            stream.followers -= 1
        return answer

    async def _send(self, request: web.BaseRequest, answer: web.StreamResponse, since: str) -> None:
        async for message in self._stream.follow(since):
            async with asyncio.timeout(self._stream.options.patience):
                await answer.write(message)


def _cut_off(request: web.BaseRequest) -> None:
    """At once: otherwise the kernel would keep for minutes what the other side does not take."""
    if request.transport is not None:
        _set(request, SO_LINGER, pack("ii", 1, 0))
        request.transport.abort()


def _set(request: web.BaseRequest, option: int, value: int | bytes) -> None:
    """For the connection, where there still is one."""
    if request.transport is not None:
        request.transport.get_extra_info("socket").setsockopt(SOL_SOCKET, option, value)


async def read_body(request: web.BaseRequest) -> bytes:
    """The whole body. RequestError where it is too large, takes too long, or is no JSON by its own words.

    Browsers ask before they send JSON to another site, and do not ask before they send a form.
    """
    if request.content_type != "application/json":
        raise RequestError(415, "send JSON, with Content-Type: application/json")
    if (request.content_length or 0) > BODY_LIMIT:
        raise RequestError(413, f"the body is larger than {BODY_LIMIT} bytes")
    body = bytearray()
    try:
        async with asyncio.timeout(READ_SECONDS):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > BODY_LIMIT:
                    raise RequestError(413, f"the body is larger than {BODY_LIMIT} bytes")
    except TimeoutError:
        raise RequestError(408, f"the body did not come in {READ_SECONDS:g} s") from None
    return bytes(body)


def _decoded(words: list[str]) -> tuple[str, ...]:
    """The parts of a path. A pool's name may have slashes, escaped or not."""
    found = tuple(unquote(word) for word in words)
    if found[:1] == (_DEVICES,) and len(found) > 4:
        return (*found[:2], "/".join(found[2:-1]), found[-1])
    return found


def _match(table: Mapping[tuple[str, ...], Door], words: tuple[str, ...]) -> tuple[str, ...] | None:
    """The entry that words stand for; `*` is any one word."""
    for pattern in table:
        if len(pattern) == len(words) and all(part in ("*", word) for part, word in zip(pattern, words, strict=True)):  # fmt: skip
            return pattern
    return None
