"""Changes to whoever listens, in order, without letting a slow listener grow the memory."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar
from weakref import WeakSet

import msgspec

from dray.client.store import Change, Snapshot

T = TypeVar("T")


class Replaced(msgspec.Struct, Generic[T], frozen=True):
    """Start over from this snapshot: the first thing a listener gets, and again whenever it was too slow.

    Who needs the single changes keeps the last snapshot and calls `store.diff(old, new)`.
    """

    snapshot: Snapshot[T]


class Feed(Generic[T]):
    """Hands each batch of changes to all listeners. One task publishes; any number listen."""

    def __init__(self, snapshot: Callable[[], Snapshot[T]], limit: int) -> None:
        self._snapshot = snapshot
        self._limit = limit
        self._listeners: WeakSet[Changes[T]] = WeakSet()
        self._turn = asyncio.Event()
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """Whether nothing will be published any more."""
        return self._closed

    def publish(self, changes: Iterable[Change[T]]) -> None:
        """Queue a batch everywhere and wake who waits."""
        batch = tuple(changes)
        for listener in self._listeners:
            listener.push(batch)
        self._wake()

    def close(self) -> None:
        """No more changes: listeners end after what they have queued."""
        self._closed = True
        self._wake()

    def listen(self) -> Changes[T]:
        """A new listener, which starts with the state of now."""
        listener = Changes(self, self._snapshot, self._limit)
        self._listeners.add(listener)
        return listener

    async def wait_turn(self) -> None:
        """Return after the next batch, or at once when closed."""
        if not self._closed:
            await self._turn.wait()

    def _wake(self) -> None:
        self._turn.set()
        self._turn = asyncio.Event()


class Changes(Generic[T]):
    """One listener: `async for change in …`. First comes a `Replaced`, then every change in order.

    At most `limit` changes wait here; one more and all of them give way to a `Replaced` with the then newest state.
    """

    def __init__(self, feed: Feed[T], snapshot: Callable[[], Snapshot[T]], limit: int) -> None:
        self._feed = feed
        self._snapshot = snapshot
        self._limit = limit
        self._queue: deque[Change[T]] = deque()
        self._start_over = True

    def push(self, batch: tuple[Change[T], ...]) -> None:
        """Called by the feed."""
        if self._start_over:
            return
        self._queue.extend(batch)
        if len(self._queue) > self._limit:
            self._queue.clear()
            self._start_over = True

    def __aiter__(self) -> Changes[T]:
        return self

    async def __anext__(self) -> Change[T] | Replaced[T]:
        while not self._start_over and not self._queue:
            if self._feed.is_closed:
                raise StopAsyncIteration
            await self._feed.wait_turn()
        if self._start_over:
            self._start_over = False
            return Replaced(self._snapshot())
        return self._queue.popleft()
