"""One HTTP session to one API server: who we are, TLS, deadlines, size limits, retries the server asked for.

Retried here is only what the server itself refused for now (429, or 500, 503 and 504 with Retry-After), only for
requests that may be sent twice, and only inside the request's deadline. A 401 leads to one more try where a token
file or a plugin has newer credentials. Everything else is the caller's decision.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import TypeVar
from urllib.parse import urlencode

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from dray import __version__
from dray.client.access import ClusterAccess
from dray.client.exec_credentials import ExecLimits
from dray.client.failures import from_connection, from_response
from dray.client.identity import Identity
from dray.client.proxy import choose_proxy
from dray.client.rate_limit import RateLimit, RateLimiter
from dray.errors import DeniedError, Error, InvariantError, ProtocolError, UnavailableError
from dray.runtime.clock import Clock, SystemClock

JSON = "application/json"

_REPEATABLE = frozenset({"GET", "PUT", "DELETE"})
_ERROR_LIMIT = 2**20
_STREAM_BUFFER = 2**18

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """Limits of one client. Times in seconds; `timeout` covers a whole request with its retries.

    The wait for a `rate_limit` (off unless given) and for a plugin with credentials comes before that time.
    """

    timeout: float = 30.0
    connect_timeout: float = 10.0
    response_limit: int = 256 * 2**20
    retries: int = 4
    connections: int = 512
    rate_limit: RateLimit | None = None
    exec_limits: ExecLimits = field(default_factory=ExecLimits)


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `path` is percent-encoded already; `timeout` replaces the client's."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    content_type: str = JSON
    accept: str = JSON
    timeout: float | None = None
    is_watch: bool = False


class Transport:
    """The session. Entered: ready to send (nothing is connected yet). Left: all connections are closed."""

    def __init__(
        self,
        access: ClusterAccess,
        options: HttpOptions | None = None,
        *,
        clock: Clock | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.server = URL(access.server, encoded=True)
        self._access = access
        self._options = options or HttpOptions()
        self._clock = clock or SystemClock()
        self._identity = Identity(access, self._clock, self._options.exec_limits)
        rate = self._options.rate_limit
        self._limiter = RateLimiter(rate, self._clock) if rate is not None else None
        self._proxy = choose_proxy(self.server, access.proxy_url, os.environ if environ is None else environ)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Transport:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=self._options.connections, keepalive_timeout=60.0, socket_factory=_open_socket
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": f"dray/{__version__}"},
            auto_decompress=True,
            max_line_size=2**16,
            max_field_size=2**16,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def send(self, request: Request) -> bytes:
        """The body of a successful answer; everything else is raised as an Error."""
        return await self._as_somebody(lambda: self._send_within(request))

    async def _as_somebody(self, attempt: Callable[[], Awaitable[R]]) -> R:
        """Try with the credentials of now; once more where the server did not take them and there are others."""
        if self._limiter is not None:
            await self._limiter.wait()
        proof = await self._identity.prove()
        try:
            return await attempt()
        except DeniedError as error:
            if error.authenticated or not await self._identity.renew(proof):
                raise
        return await attempt()

    async def _send_within(self, request: Request) -> bytes:
        limit = request.timeout if request.timeout is not None else self._options.timeout
        deadline = asyncio.get_running_loop().time() + limit
        try:
            async with asyncio.timeout_at(deadline):
                return await self._send_until(request, deadline)
        except TimeoutError as error:
            raise UnavailableError(f"{self._what(request)}: no answer within {limit:g} s") from error

    async def _send_until(self, request: Request, deadline: float) -> bytes:
        left = self._options.retries if request.method in _REPEATABLE else 0
        while True:
            try:
                return await self._send_once(request)
            except UnavailableError as error:
                wait = error.retry_after
                if left == 0 or wait is None or asyncio.get_running_loop().time() + wait >= deadline:
                    raise
            left -= 1
            await self._clock.sleep(wait)

    async def _send_once(self, request: Request) -> bytes:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._options.connect_timeout)
        body = await self._start(request, timeout)
        try:
            data = await body.read_all(self._options.response_limit)
        finally:
            body.finish()
        if request.accept == JSON and body.content_type != JSON:
            raise ProtocolError(
                f"{self._what(request)}: answered with {body.content_type}, not JSON; is this an API server?"
            )
        return data

    @asynccontextmanager
    async def stream(self, request: Request, *, idle_timeout: float, timeout: float) -> AsyncIterator[Body]:
        """The body piece by piece; silence of `idle_timeout` seconds ends it with UnavailableError.

        The connection is closed when the block is left; the rest of the body is not read.
        """
        limits = aiohttp.ClientTimeout(
            total=timeout, sock_connect=self._options.connect_timeout, sock_read=idle_timeout
        )
        body = await self._as_somebody(lambda: self._start(request, limits))
        try:
            yield body
        finally:
            body.finish()

    async def _start(self, request: Request, timeout: aiohttp.ClientTimeout) -> Body:
        """Send, and get an answer with status 2xx whose body is still to be read."""
        if self._session is None:
            raise InvariantError("the client was used outside its `async with` block")
        what = self._what(request)
        try:
            response = await self._session.request(
                request.method,
                self._url(request),
                data=request.body,
                headers=self._headers(request),
                timeout=timeout,
                allow_redirects=False,
                ssl=self._identity.tls_context() or True,
                server_hostname=self._access.tls_server_name or None,
                proxy=self._proxy,
                read_bufsize=_STREAM_BUFFER,
            )
        except (aiohttp.ClientError, OSError) as error:
            raise from_connection(what, error) from error
        body = Body(response, what)
        if response.status < 300:
            return body
        try:
            raise await _refusal(body, response, what)
        finally:
            body.finish()

    def _headers(self, request: Request) -> CIMultiDict[str]:
        headers = self._identity.headers()
        headers["Accept"] = request.accept
        headers["Accept-Encoding"] = "gzip" if self._access.compress and not request.is_watch else "identity"
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        return headers

    def _url(self, request: Request) -> URL:
        query = f"?{urlencode(request.query)}" if request.query else ""
        return URL(f"{self._access.server}{request.path}{query}", encoded=True)

    def _what(self, request: Request) -> str:
        return f"{request.method} {self._access.server}{request.path}"


class Body:
    """The body of an answer. Errors of the connection come out as Errors."""

    def __init__(self, response: aiohttp.ClientResponse, what: str) -> None:
        self.content_type = response.content_type
        self._response = response
        self._what = what

    async def read(self) -> bytes:
        """The next bytes, as many as there are; empty at the end."""
        try:
            return await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise from_connection(self._what, error) from error

    async def read_all(self, limit: int) -> bytes:
        """Everything; ProtocolError if that is more than `limit` bytes."""
        chunks: list[bytes] = []
        size = 0
        while chunk := await self.read():
            size += len(chunk)
            if size > limit:
                raise ProtocolError(f"{self._what}: the answer is larger than {limit} bytes")
            chunks.append(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def finish(self) -> None:
        """Let go of the connection: back to the pool if all was read, else closed."""
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()


async def _refusal(body: Body, response: aiohttp.ClientResponse, what: str) -> Error:
    """The error in an answer that is not a success."""
    if response.status < 400:
        to = response.headers.get("Location", "nowhere")
        return ProtocolError(
            f"{what}: redirects ({response.status}) to {to}; give that address as the server"
        )
    try:
        data = await body.read_all(_ERROR_LIMIT)
    except (ProtocolError, UnavailableError):
        data = b""  # the status alone says enough
    return from_response(what, response.status, response.headers, data)


def _open_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket whose dead peer is noticed within about a minute, also while nothing is sent."""
    family, kind, protocol, _, _ = address
    opened = socket.socket(family, kind, protocol)
    for level, option, value in (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
        (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000),
    ):
        opened.setsockopt(level, option, value)
    return opened
