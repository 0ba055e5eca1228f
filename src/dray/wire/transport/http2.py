"""One connection below both sides: grpclib's HTTP/2 layer, closed where a hostile or dying peer could hurt.

grpclib's `protocol` module drives h2 and is used as it is. Its `server` and `client` modules are not: they have no
message limit, they keep a call waiting for ever in some cases of loss, and they interrupt the *caller's* task with
`cancel()`, which breaks TaskGroup and `asyncio.timeout` around it. The subclasses here and in `stream` change this:

- `Inbox`: stops at a size limit, takes empty DATA frames, wakes its reader when the connection is lost;
- `CallStream`: every wait ends when the stream is lost, with `Lost`;
- `CallConnection`: may be used after it was closed, by readers of what had arrived before;
- `Frames`: a frame that announces 16 MiB is refused at once, h2 would keep it first;
- `Events`: unknown HTTP/2 frames are ignored, as the standard asks;
- `CallProtocol`: the handshake has a time limit, a peer that floods without reading is cut off, and whatever
  goes wrong with the bytes of one connection ends that connection with one log line.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from grpclib.config import Configuration
from grpclib.protocol import AbstractHandler, Connection, EventsProcessor, H2Protocol
from grpclib.utils import Wrapper
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import Event, RemoteSettingsChanged
from h2.exceptions import H2Error
from h2.frame_buffer import FrameBuffer
from h2.settings import SettingCodes, Settings

from dray.runtime.logs import get_log
from dray.wire.limits import MIB, Limits
from dray.wire.transport.stream import CallStream

if TYPE_CHECKING:
    from hyperframe.frame import Frame

_log = get_log("wire.http2")
# At debug level hpack writes several lines per header of every call.
logging.getLogger("hpack").setLevel(logging.INFO)

WINDOW = 1 * MIB
"""Bytes a peer may send on one connection before we have read them."""
STREAM_WINDOW = WINDOW // 4
"""Bytes of one call among these: a call that is not read leaves room on the connection for others."""
UNREAD = 1 * MIB
"""Bytes of ours that may wait for a peer that does not read. Messages stop far below; only answers to floods get here."""


class Frames(FrameBuffer):
    """h2's reader of frames, which looks at a frame's length before the frame has arrived, not after."""

    def __next__(self) -> Frame:
        if len(self._data) >= 3:
            self._validate_frame_length(int.from_bytes(self._data[:3], "big"))
        return super().__next__()


class CallConnection(Connection):
    """grpclib's connection, with our streams."""

    def create_stream(self, *, stream_id: int | None = None, wrapper: Wrapper | None = None) -> CallStream:
        """A stream of this connection; without a number until it is started."""
        return CallStream(self, self._connection, self._transport, stream_id=stream_id, wrapper=wrapper)

    def flush(self) -> None:
        """Hand to the transport what h2 has ready."""
        if not self.is_closing():
            super().flush()

    def close(self) -> None:
        """Close the transport and wake everyone who waits for it to become writable."""
        if not self.is_closing():
            super().flush()
        super().close()
        self.write_ready.set()
        self.stream_close_waiter.set()


class Events(EventsProcessor):
    """grpclib's event table, deaf to frames it does not know."""

    def process(self, event: Event) -> None:
        """One event of h2; called in the order of arrival."""
        if type(event) in getattr(self, "processors", ()):
            super().process(event)


class CallProtocol(H2Protocol):
    """One connection, from the first byte to the last."""

    connection: CallConnection

    def __init__(self, handler: AbstractHandler, *, client: bool, limits: Limits) -> None:
        h2_config = H2Configuration(
            client_side=client,
            # Every byte has a meaning in latin-1: a header of odd bytes is the caller's problem, not ours.
            header_encoding="latin-1",
            validate_inbound_headers=False,
            validate_outbound_headers=False,
            normalize_inbound_headers=False,
            normalize_outbound_headers=False,
        )
        # A unix socket tells of a dead peer at once: no pings.
        super().__init__(handler, Configuration(_keepalive_time=None), h2_config)
        self.limits = limits
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = loop.create_future()
        """Done when the peer's settings have arrived: it speaks HTTP/2."""
        self.closed: asyncio.Future[None] = loop.create_future()
        self.reason = "the peer closed the connection"
        self._late: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop once the socket is connected."""
        self._transport = cast("asyncio.Transport", transport)
        h2 = H2Connection(config=self.h2_config)
        h2.incoming_buffer = Frames(server=not self.h2_config.client_side)
        h2.local_settings = Settings(client=bool(self.h2_config.client_side), initial_values=self._settings())
        h2.initiate_connection()
        h2.increment_flow_control_window(WINDOW - 65535)
        self.connection = CallConnection(h2, self._transport, config=self.config)
        self.connection.flush()
        self.processor = Events(self.handler, self.connection)
        self._late = asyncio.get_running_loop().call_later(self.limits.arrival, self._check_handshake)

    def _settings(self) -> dict[SettingCodes, int]:
        return {
            SettingCodes.ENABLE_PUSH: 0,
            SettingCodes.MAX_CONCURRENT_STREAMS: self.limits.calls,
            SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
            SettingCodes.MAX_HEADER_LIST_SIZE: H2Connection.DEFAULT_MAX_HEADER_LIST_SIZE,
        }

    def data_received(self, data: bytes) -> None:
        """Called by the event loop with whatever has arrived."""
        try:
            events = self.connection.feed(data)
            self.connection.flush()
            for event in events:
                if isinstance(event, RemoteSettingsChanged) and not self.ready.done():
                    self.ready.set_result(None)
                self.processor.process(event)
            self.connection.flush()
        except H2Error as error:
            self.end(f"the peer broke HTTP/2: {_line(error)}")
        except Exception as error:  # noqa: BLE001 (no bytes of a peer may reach the event loop as an exception)
            self.end(f"the peer's bytes could not be handled: {_line(error)}")
        if self._unread() > UNREAD:
            self.end("the peer sends and does not read")

    def end(self, reason: str) -> None:
        """Close the connection because the peer misbehaved."""
        _log.info("connection ended", reason=reason)
        self.reason = reason
        self.processor.close(reason)
        self.abort()

    def shut(self, reason: str) -> None:
        """Close the connection in order: tell the peer, send what is waiting. Calls still open are lost."""
        if not self.connection.is_closing():
            # The peer's own GOAWAY may have come first. grpclib has no call for it.
            with suppress(H2Error):
                self.connection._connection.close_connection()  # noqa: SLF001
        self.processor.close(reason)

    def abort(self) -> None:
        """Drop the connection, with whatever is still waiting to be sent."""
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Called by the event loop once the socket is gone."""
        super().connection_lost(exc)
        if self._late is not None:
            self._late.cancel()
        for future in (self.ready, self.closed):
            if not future.done():
                future.set_result(None)
        self._transport = None

    def _check_handshake(self) -> None:
        if not self.ready.done():
            self.end(f"no HTTP/2 settings from the peer within {self.limits.arrival:g} s")

    def _unread(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
