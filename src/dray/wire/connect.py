"""Call a server on a unix socket: `async with connect(path) as channel: await DraClient(channel).…`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager, suppress
from pathlib import Path

from grpclib.metadata import decode_grpc_message
from grpclib.protocol import AbstractHandler, Stream
from h2.errors import ErrorCodes
from h2.exceptions import H2Error, NoAvailableStreamIDError

from dray import __version__
from dray.errors import InvalidError, InvariantError, ProtocolError, UnavailableError
from dray.wire.limits import DEFAULT, Limits
from dray.wire.service import Req, Res, Streaming, Unary
from dray.wire.socket_files import RETRY_SECONDS
from dray.wire.sockets import dial
from dray.wire.status import BrokenMessage, Code, StatusError, TooLarge, to_error
from dray.wire.transport.http2 import CallProtocol
from dray.wire.transport.messages import pack, unpack
from dray.wire.transport.room import CLIENTS, Lease
from dray.wire.transport.stream import CallStream, Headers, Lost

TIMEOUT = 10.0
# What HTTP itself says, where a peer does not get as far as gRPC.
_HTTP = {
    "400": Code.INTERNAL,
    "401": Code.UNAUTHENTICATED,
    "403": Code.PERMISSION_DENIED,
    "404": Code.UNIMPLEMENTED,
    "429": Code.UNAVAILABLE,
    "502": Code.UNAVAILABLE,
    "503": Code.UNAVAILABLE,
    "504": Code.UNAVAILABLE,
}


@asynccontextmanager
async def connect(
    path: str | os.PathLike[str],
    *,
    timeout: float = TIMEOUT,
    wait: float = 0.0,
    limits: Limits = DEFAULT,
) -> AsyncIterator[Channel]:
    """A channel to the server at `path`, connected when entered, closed when left.

    `timeout` bounds the connecting and each unary call that does not bring its own. With `wait` a server that is not
    there yet is tried again for so many seconds. Any number of tasks may call at once over the one connection.

    When the connection is lost, the calls in flight fail with UnavailableError and the next call connects again, once.
    No call is ever sent twice: whether to repeat is the caller's decision.
    """
    channel = Channel(Path(path), timeout, limits)
    try:
        await channel.wait_connected(wait)
        yield channel
    finally:
        await channel.close()


class Channel:
    """One connection to one server, made anew when it was lost."""

    def __init__(self, path: Path, timeout: float, limits: Limits) -> None:
        self.path = path
        self._timeout = timeout
        self._limits = limits
        self._protocol: CallProtocol | None = None
        self._dialling = asyncio.Lock()
        self._closed = False

    async def call(self, method: Unary[Req, Res], request: Req, timeout: float | None = None) -> Res:
        """One request, one answer."""
        seconds = self._timeout if timeout is None else timeout
        with self._told(method.path, seconds):
            frame = pack(request, self._limits.send)
            async with asyncio.timeout(seconds), self._started(method.path, frame, seconds) as stream:
                await _accepted(stream)
                data = await stream.receive(self._limits)
                if data is not None and await stream.receive(self._limits) is not None:
                    raise BrokenMessage(Code.INTERNAL, "more than one answer to a unary call")
                await _ended(stream)
        with self._told(method.path, seconds):
            if data is None:
                raise BrokenMessage(Code.INTERNAL, "success without an answer")
            return unpack(data, method.response)

    @asynccontextmanager
    async def open(
        self, method: Streaming[Req, Res], request: Req, timeout: float | None = None
    ) -> AsyncIterator[AsyncIterator[Res]]:
        """One request, many answers. An error is raised by the iteration, after all that came before it."""
        seconds = self._timeout if timeout is None else timeout
        end = None if timeout is None else asyncio.get_running_loop().time() + timeout
        async with AsyncExitStack() as stack:
            with self._told(method.path, seconds):
                frame = pack(request, self._limits.send)
                async with asyncio.timeout(seconds):
                    stream = await stack.enter_async_context(self._started(method.path, frame, timeout))
            yield await stack.enter_async_context(aclosing(self._answers(stream, method, timeout, end)))

    async def wait_connected(self, wait: float = 0.0) -> None:
        """Return once the server has answered the handshake; tries for `wait` seconds where it is not there."""
        loop = asyncio.get_running_loop()
        end = loop.time() + wait
        while True:
            try:
                with self._told("", self._timeout):
                    async with asyncio.timeout(self._timeout):
                        await self._connection()
                return
            except UnavailableError:
                if loop.time() + RETRY_SECONDS >= end:
                    raise
            await asyncio.sleep(RETRY_SECONDS)

    async def close(self) -> None:
        """Close the connection; calls in flight fail. Safe to call twice."""
        self._closed = True
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.shut("the channel was closed")
            await asyncio.wait({protocol.closed}, timeout=1.0)
            protocol.abort()

    async def _answers(
        self, stream: CallStream, method: Streaming[Req, Res], timeout: float | None, end: float | None
    ) -> AsyncGenerator[Res, None]:
        # The deadline is looked at while we wait, never while the caller works on an answer.
        with self._told(method.path, timeout):
            async with asyncio.timeout_at(end):
                await _accepted(stream)
        while True:
            with self._told(method.path, timeout):
                async with asyncio.timeout_at(end):
                    data = await stream.receive(self._limits)
                    if data is None:
                        await _ended(stream)
                        return
                answer = unpack(data, method.response)
            del data
            yield answer
            del answer  # it may be large, and the next one may be long in coming

    @asynccontextmanager
    async def _started(self, path: str, frame: bytes, timeout: float | None) -> AsyncIterator[CallStream]:
        protocol = await self._connection()
        stream = protocol.connection.create_stream()
        stream.lease = Lease(CLIENTS, waits=True)
        try:
            release = await stream.start(_headers(path, timeout), protocol.processor)
        except NoAvailableStreamIDError:
            # After a thousand million calls a connection is used up.
            protocol.shut("all stream numbers of this connection are used")
            raise
        try:
            # A server may answer before it has read the request; then its answer says more than our failure to send.
            with suppress(Lost, H2Error):
                await stream.send(frame, end=True)
            yield stream
        finally:
            if stream.closable:
                stream.reset_nowait(ErrorCodes.CANCEL)
            stream.lease.drop()
            release()

    async def _connection(self) -> CallProtocol:
        """The connection, made first if need be. Calls that need one at the same time wait for the same."""
        self._require_open()
        if (usable := self._usable()) is not None:
            return usable
        async with self._dialling:
            if (usable := self._usable()) is not None:
                return usable
            self._require_open()
            protocol = await self._dialled()
            if self._closed:
                protocol.shut("the channel was closed")
            self._require_open()
            self._protocol = protocol
            return protocol

    def _require_open(self) -> None:
        if self._closed:
            raise InvariantError(f"the channel to {str(self.path)!r} is used after it was closed")

    def _usable(self) -> CallProtocol | None:
        protocol = self._protocol
        return None if protocol is None or protocol.connection.is_closing() else protocol

    async def _dialled(self) -> CallProtocol:
        connection = await dial(self.path)
        try:
            _, protocol = await asyncio.get_running_loop().create_unix_connection(
                lambda: CallProtocol(_NoRequests(), client=True, limits=self._limits), sock=connection
            )
        except BaseException:
            connection.close()
            raise
        try:
            await asyncio.wait({protocol.ready})
        except BaseException:
            protocol.abort()
            raise
        if protocol.connection.is_closing():
            raise Lost(f"the handshake failed: {protocol.reason}")
        return protocol

    @contextmanager
    def _told(self, path: str, timeout: float | None) -> Iterator[None]:
        """Around our own waits only, never around the caller's code: its exceptions are not ours to rename."""
        doing = (
            f"{path.rpartition('/')[2]} at {str(self.path)!r}"
            if path
            else f"connecting to {str(self.path)!r}"
        )
        try:
            yield
        except TooLarge as status:
            raise InvalidError(f"{doing}: {status.message}") from status
        except BrokenMessage as status:
            raise ProtocolError(f"{doing}: {status.message}") from status
        except StatusError as status:
            raise to_error(status, doing) from status
        except (Lost, H2Error) as error:
            lost = StatusError(Code.UNAVAILABLE, str(error) or type(error).__name__)
            raise to_error(lost, doing) from lost
        except TimeoutError:
            late = StatusError(Code.DEADLINE_EXCEEDED, f"no answer within {timeout:g} s")
            raise to_error(late, doing) from late


class _NoRequests(AbstractHandler):
    """A client's side of a connection: servers do not call."""

    def accept(self, stream: Stream, headers: Headers, release_stream: Callable[[], None]) -> None:
        """Never called by a peer that keeps to HTTP/2."""
        release_stream()

    def cancel(self, stream: Stream) -> None:
        """The stream itself tells its reader."""

    def close(self) -> None:
        """The streams themselves tell their readers."""


def _headers(path: str, timeout: float | None) -> Headers:
    headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("user-agent", f"dray/{__version__}"),
    ]
    if timeout is not None:
        headers.append(("grpc-timeout", _timeout(timeout)))
    return headers


def _timeout(seconds: float) -> str:
    """At most eight digits, so long waits are told in seconds."""
    milliseconds = max(1, int(seconds * 1000))
    return f"{milliseconds}m" if milliseconds < 10**8 else f"{min(milliseconds // 1000, 10**8 - 1)}S"


async def _accepted(stream: CallStream) -> None:
    """Return when the server has taken the call, or raise what it said instead."""
    headers = await stream.wait_headers()
    http = headers.get(":status", "")
    if http != "200":
        raise StatusError(_HTTP.get(http, Code.UNKNOWN), f"HTTP status {http or 'missing'}")
    if "grpc-status" in headers:
        _raise_for(headers)
    if not headers.get("content-type", "").startswith("application/grpc"):
        raise BrokenMessage(
            Code.INTERNAL, f"the answer is {headers.get('content-type', 'nothing')!r}, not gRPC"
        )


async def _ended(stream: CallStream) -> None:
    """Return when the call ended well, or raise the server's status."""
    headers = dict(stream.headers or ())
    _raise_for(headers if "grpc-status" in headers else await stream.wait_trailers())


def _raise_for(headers: dict[str, str]) -> None:
    text = headers.get("grpc-status", "")
    try:
        code = Code(int(text))
    except ValueError:
        raise BrokenMessage(Code.INTERNAL, f"the gRPC status {text!r} does not exist") from None
    if code is not Code.OK:
        raise StatusError(code, decode_grpc_message(headers.get("grpc-message", "")))
