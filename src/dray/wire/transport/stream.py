"""One call's stream of bytes, on either side: grpclib's stream with a size limit and an end to every wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import cast

from grpclib.protocol import Buffer, Connection, EventsProcessor, Stream
from h2.errors import ErrorCodes
from h2.exceptions import H2Error, TooManyStreamsError

from dray.wire.limits import Limits
from dray.wire.status import BrokenMessage, Code
from dray.wire.transport.messages import PREFIX, length_of
from dray.wire.transport.room import SMALL, Lease

Headers = list[tuple[str, str]]
_CRUMB = 64
"""Bytes of a chunk that the next one is added to: each chunk takes some memory of its own."""
FRAME = 2**16
"""Most bytes written at once: some peers allow frames of many MiB, which would all wait in our memory."""


class Lost(Exception):  # noqa: N818
    """The connection, or this one call on it, was ended by the other side or by its loss."""


class Inbox(Buffer):
    """The bytes of one call as they arrive. A chunk is acknowledged when it is wanted, so an idle reader holds back
    the sender at the flow-control window. One reader at a time."""

    def __init__(self, acknowledge: Callable[[int], None]) -> None:
        self._acknowledge = acknowledge
        self._chunks: deque[tuple[bytes, int]] = deque()
        self._wanted = bytearray()
        self._ended = False
        self._failure: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    def add(self, data: bytes, ack_size: int) -> None:
        """Called by the protocol for each DATA frame. Empty ones are legal anywhere, and cost the sender nothing."""
        if not ack_size:
            return
        if self._chunks and len(self._chunks[-1][0]) < _CRUMB:
            before, size = self._chunks.pop()
            data, ack_size = before + data, size + ack_size
        self._chunks.append((data, ack_size))
        self._wake()

    def eof(self) -> None:
        """The peer has ended its side."""
        self._ended = True
        self._wake()

    def fail(self, failure: Exception) -> None:
        """Nothing more will come; what has arrived can still be read."""
        self._failure = failure
        self._wake()

    async def read(self, size: int) -> bytes:
        """Exactly `size` bytes, or none at the end of the stream."""
        while len(self._wanted) < size:
            if self._chunks:
                data, ack_size = self._chunks.popleft()
                self._wanted += data
                self._acknowledge(ack_size)
            elif self._ended and not self._wanted:
                return b""
            elif self._ended:
                raise BrokenMessage(Code.INTERNAL, "the stream ended in the middle of a message")
            elif self._failure is not None:
                raise self._failure
            else:
                await self._wait()
        taken = bytes(self._wanted[:size])
        del self._wanted[:size]
        return taken

    def unacked_size(self) -> int:
        """Bytes never read, to be given back to the connection's window when the call is over."""
        size = sum(ack_size for _, ack_size in self._chunks)
        self._chunks.clear()
        return size

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class CallStream(Stream):
    """One call, on either side."""

    lost = ""
    lease: Lease
    """Given by whoever reads messages, and given back when the call is over."""

    def init_stream(self, stream_id: int, connection: Connection) -> None:
        """Called by grpclib as soon as the stream has its number."""
        super().init_stream(stream_id, connection)
        self.buffer: Inbox = Inbox(partial(connection.ack, stream_id))

    def __ended__(self) -> None:
        super().__ended__()
        # A peer that ends without trailers would keep us waiting for them.
        self.headers_received.set()
        self.trailers_received.set()

    def __terminated__(self, reason: str) -> None:
        self.lost = self.lost or reason
        if self.id is not None:
            self.buffer.fail(Lost(self.lost))
        for event in (self.headers_received, self.trailers_received, self.window_updated):
            event.set()

    async def receive(self, limits: Limits) -> bytes | None:
        """The bytes of the next message, None at the end. BrokenMessage if the peer's framing is wrong or too large.

        The room for a large message is taken before it is read, and kept until the next one is asked for.
        """
        self.lease.drop()
        prefix = await self.buffer.read(PREFIX)
        if not prefix:
            return None
        length = length_of(prefix, limits.receive)
        await self.lease.take(length)
        data = await self._body(length, limits.arrival) if length else b""
        if len(data) < length:
            raise BrokenMessage(Code.INTERNAL, "the stream ended in the middle of a message")
        return data

    async def _body(self, length: int, seconds: float) -> bytes:
        """A large message that stops half-way must not keep its room."""
        if length <= SMALL:
            return await self.buffer.read(length)
        try:
            async with asyncio.timeout(seconds) as late:
                return await self.buffer.read(length)
        except TimeoutError:
            if not late.expired():
                raise
            raise BrokenMessage(
                Code.DEADLINE_EXCEEDED, f"a message of {length} bytes did not arrive within {seconds:g} s"
            ) from None

    async def wait_headers(self) -> dict[str, str]:
        """The response's headers, as they arrive."""
        await self.headers_received.wait()
        if self.headers is None:
            raise Lost(self.lost or "the stream ended without a response")
        return dict(self.headers)

    async def wait_trailers(self) -> dict[str, str]:
        """The response's last headers: they hold the status."""
        await self.trailers_received.wait()
        if self.trailers is None:
            raise Lost(self.lost or "the stream ended without a status")
        return dict(self.trailers)

    async def start(self, headers: Headers, events: EventsProcessor) -> Callable[[], None]:
        """Client side: open the stream. The result releases it and must be called once the call is over."""
        while True:
            await self._writable()
            number = self._h2_connection.get_next_available_stream_id()
            try:
                self._h2_connection.send_headers(number, headers)
            except TooManyStreamsError:
                self.connection.stream_close_waiter.clear()
                await self.connection.stream_close_waiter.wait()
                continue
            self.init_stream(number, self.connection)
            release = events.register(self)
            self.connection.flush()
            return release

    async def send(self, data: bytes, end: bool = False) -> None:
        """Write `data` as fast as the peer reads it, no faster."""
        number, h2, rest = cast("int", self.id), self._h2_connection, memoryview(data)
        while True:
            await self._writable()
            size = min(h2.local_flow_control_window(number), h2.max_outbound_frame_size, FRAME)
            if size <= 0:
                self.window_updated.clear()
                await self.window_updated.wait()
                continue
            chunk, rest = rest[:size], rest[size:]
            h2.send_data(number, bytes(chunk), end_stream=end and not rest)
            self.connection.flush()
            if not rest:
                return

    def send_now(self, headers: Headers, end: bool = False) -> None:
        """Server side: write headers or trailers, without waiting for the peer to read. No-op on a lost stream."""
        number = cast("int", self.id)
        if self.lost or self.connection.is_closing() or number not in self._h2_connection.streams:
            return
        try:
            self._h2_connection.send_headers(number, headers, end_stream=end)
        except H2Error:
            return
        if end and self.closable:
            # The rest of the request is not wanted any more.
            self._h2_connection.reset_stream(number, ErrorCodes.NO_ERROR)
        self.connection.flush()

    async def _writable(self) -> None:
        # Looked at again after each wake-up: of many that wait, the first may fill the buffer.
        while not self.connection.write_ready.is_set():
            await self.connection.write_ready.wait()
        if self.lost or self.connection.is_closing():
            raise Lost(self.lost or "the connection is closed")
