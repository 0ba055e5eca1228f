"""Of messages that come faster than they can be taken in, only the newest is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from dray.kubelet.turns import Pace

_PAUSE = 0.01
"""Real seconds between two messages of one stream, even under a fake clock."""

T = TypeVar("T")


class Newest(Generic[T]):
    """Holds the newest message until it is taken in. `run` beside the reader, `flush` at its end: the last one counts."""

    def __init__(self, take: Callable[[T], None]) -> None:
        self._take = take
        self._messages: list[T] = []
        self._arrived = asyncio.Event()
        self._empty = asyncio.Event()

    def put(self, message: T) -> None:
        """Instead of one that was not taken in yet."""
        self._messages[:] = [message]
        self._arrived.set()

    def flush(self) -> None:
        """Take in what is there, now."""
        self._arrived.clear()
        if self._messages:
            self._take(self._messages.pop())
        self._empty.set()

    async def wait_taken(self) -> None:
        """Return when nothing waits to be taken in: a reader of large messages keeps no more than one."""
        while self._messages:
            self._empty.clear()
            await self._empty.wait()

    async def run(self, pace: Pace, peer: Hashable) -> None:
        """Until cancelled. `pace` is shared with all who take in messages; `peer` is who sends these."""
        while True:
            await self._arrived.wait()
            async with pace.turn(peer):
                self.flush()
            await asyncio.sleep(_PAUSE)
