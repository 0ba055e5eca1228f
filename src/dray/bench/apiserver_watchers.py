"""Many watchers in one process: it reads what comes, counts lines, and says when all of them have the next event."""

from __future__ import annotations

import json
import selectors
import ssl
import sys
import time
from collections.abc import Callable
from typing import Final

from dray.bench.apiserver_connection import READ_BYTES, Answer, Target, connect
from dray.bench.apiserver_loads import Asking
from dray.errors import ProtocolError

READY: Final = "ready"
_CLOSED: Final = "a watch was cut off"


class EventCount:
    """Events in a stream of chunks: each ends with a line feed of its own, and JSON has none inside."""

    def __init__(self) -> None:
        self.events = 0
        self._last = 0

    def feed(self, piece: bytes | bytearray | memoryview) -> int:
        """How many there are now."""
        data = bytes(piece)
        lines = data.count(b"\n") - data.count(b"\r\n")
        if self._last == 13 and data.startswith(b"\n"):
            lines -= 1
        self._last = data[-1]
        self.events += lines
        return self.events


class Progress:
    """How many watchers have seen each event; `said` is the newest that all have."""

    def __init__(self, watchers: int) -> None:
        self._watchers = watchers
        self._seen: dict[int, int] = {}
        self.said = 0

    def move(self, before: int, now: int) -> bool:
        """One watcher went on; True where an event is complete by it."""
        for event in range(before + 1, now + 1):
            self._seen[event] = self._seen.get(event, 0) + 1
        is_complete = False
        while self._seen.get(self.said + 1) == self._watchers:
            self.said += 1
            del self._seen[self.said]
            is_complete = True
        return is_complete


def follow(target: Target, path: str, watchers: int, say: Callable[[str], None]) -> None:
    """Watch until stdin is closed. Says `ready`, then `[EVENT, TIME]` for every event that all have; TIME is monotonic."""
    tls = target.tls()
    progress = Progress(watchers)
    with selectors.EpollSelector() as waiting:
        for _ in range(watchers):
            connection, count = _begin(target, tls, path)
            connection.setblocking(False)
            waiting.register(connection, selectors.EVENT_READ, (connection, count))
        waiting.register(sys.stdin, selectors.EVENT_READ)
        say(READY)
        buffer = bytearray(READ_BYTES)
        while True:
            for key, _ in waiting.select():
                if key.data is None:
                    return
                connection, count = key.data
                if _read(connection, count, buffer, progress):
                    say(json.dumps([progress.said, time.monotonic()]))


def _begin(target: Target, tls: ssl.SSLContext, path: str) -> tuple[ssl.SSLSocket, EventCount]:
    connection = connect(target, tls)
    connection.sendall(target.encode(Asking("GET", path)))
    answer = Answer()
    while not answer.has_begun:
        piece = connection.recv(READ_BYTES)
        if not piece:
            raise ProtocolError(f"GET {path}: the connection was closed")
        answer.feed(piece)
    if answer.status != 200:
        raise ProtocolError(f"GET {path}: {answer.status} {bytes(answer.data[-300:])!r}")
    return connection, EventCount()


def _read(connection: ssl.SSLSocket, count: EventCount, buffer: bytearray, progress: Progress) -> bool:
    """All there is; True where an event is complete by it."""
    view, is_complete = memoryview(buffer), False
    while True:
        try:
            size = connection.recv_into(buffer)
        except ssl.SSLWantReadError:
            return is_complete
        if not size:
            raise ProtocolError(_CLOSED)
        before = count.events
        is_complete |= progress.move(before, count.feed(view[:size]))
