"""A channel: connections that want the same lines and have seen all of them. Each change is encoded once, and its bytes go
straight to every connection.

A connection that is full is let go of with its place in the history: it holds up nobody, and holds no memory for what it
misses. `fanout.py` brings connections here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import ExitStack
from typing import Final, NamedTuple

from dray.apiserver.http.paths import Place
from dray.apiserver.http.watching.watches import Lines, Piece, pieces
from dray.apiserver.store.contract import Expired, LiveStore

_AT_ONCE: Final = 64
"""Connections written to before others have their turn."""
MOST_WAITING: Final = 128 << 10
"""Bytes that may wait for a client; one with more waits for its connection by itself."""


class Sink:
    """A connection in a channel. `released` is done when it is out: with the revision to go on from, None at the end."""

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self.released: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._transport = transport

    def send(self, piece: Piece, chunk: bytes) -> None:
        """Pass the bytes on, or let go of the connection where too many wait there already."""
        if self.released.done():
            return
        if self._transport.get_write_buffer_size() > MOST_WAITING:
            self.released.set_result(piece.since)
        else:
            self._transport.write(chunk)

    def release(self, since: int | None) -> None:
        """Let go of it."""
        if not self.released.done():
            self.released.set_result(since)


class _Round(NamedTuple):
    """Bytes on their way to those who were there when they were taken."""

    piece: Piece
    chunk: bytes
    sinks: tuple[Sink, ...]


class Channel:
    """The connections that have seen everything, and what is on its way to them. Driven by callbacks of the loop."""

    def __init__(self, store: LiveStore, place: Place, lines: Lines) -> None:
        self._is_broken = False
        self._lines = lines
        self._sinks: dict[Sink, None] = {}
        self._rounds: deque[_Round] = deque()
        self._served = 0
        self._is_due = False
        self._loop = asyncio.get_running_loop()
        self._stack = ExitStack()
        resource = str(place.served.resource)
        self._feed = self._stack.enter_context(store.follow(resource, place.namespace, None, self._note))

    @property
    def is_empty(self) -> bool:
        """Nobody is in it."""
        return not self._sinks

    def join(self, sink: Sink) -> bool:
        """Send it what comes from now on: it has seen all there is. False where the channel is broken."""
        while self._take():
            pass
        if self._is_broken:
            return False
        self._sinks[sink] = None
        if self._feed.has_ended:
            self._note()
        return True

    def leave(self, sink: Sink) -> None:
        """Send it nothing more."""
        sink.release(None)
        self._sinks.pop(sink, None)

    def close(self) -> None:
        """Nobody is in it any more."""
        self._stack.close()

    def _note(self) -> None:
        """There is something to do."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._is_due = False
        if self._rounds:
            self._send_some()
            self._note()
        elif not self._take() and self._feed.has_ended:
            self._release_all(None)

    def _take(self) -> bool:
        """Put some of what is new on its way to those who are here; False where nothing is.

        It breaks where the history has gone on without it: each goes on from there by itself, and is told.
        """
        since = self._feed.seen
        try:
            items = self._feed.take()
        except Expired:
            self._is_broken = True
            self._release_all(since)
            return False
        sinks = tuple(self._sinks)
        for piece in pieces(items, since, self._lines):
            self._rounds.append(_Round(piece, _chunk(piece.data), sinks))
        if items:
            self._note()
        return bool(items)

    def _send_some(self) -> None:
        now = self._rounds[0]
        for sink in now.sinks[self._served : self._served + _AT_ONCE]:
            sink.send(now.piece, now.chunk)
        self._served += _AT_ONCE
        if self._served >= len(now.sinks):
            self._rounds.popleft()
            self._served = 0

    def _release_all(self, since: int | None) -> None:
        while self._rounds:
            self._send_some()
        for sink in self._sinks:
            sink.release(since)
        self._sinks.clear()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
