"""Watches. A watcher has a place in the history, not a queue: however slow it is, it holds no memory for what it missed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from dray.apiserver.store.contract import Bookmark, Change
from dray.apiserver.store.history import History

_AT_ONCE: Final = 100


class HistoryFeed:
    """A `Feed` of the changes of a resource, or of one namespace of it."""

    def __init__(
        self, history: History, resource: str, namespace: str, since: int, notify: Callable[[], None]
    ) -> None:
        self.resource = resource
        self.seen = since
        self.has_ended = False
        self._history = history
        self._namespace = namespace
        self._newest = since
        self._bookmark_due = False
        self._notify = notify

    def take(self) -> Sequence[Change | Bookmark]:
        """Some changes, or a bookmark when there are none and one is due."""
        while changes := self._history.after(self.resource, self.seen, _AT_ONCE):
            self.seen = changes[-1].revision
            if not self._namespace:
                return changes
            if mine := [one for one in changes if one.new.key.namespace == self._namespace]:
                return mine
        self.seen = max(self.seen, self._newest)
        if not self._bookmark_due:
            return ()
        self._bookmark_due = False
        return (Bookmark(self.seen),)

    def wake(self, newest: int) -> None:
        """The store is at this revision, and something of the resource changed."""
        self._newest = newest
        self._notify()

    def remind(self, newest: int) -> None:
        """Give a bookmark when all changes are taken."""
        self._bookmark_due = True
        self.wake(newest)

    def end(self) -> None:
        """The store stops."""
        self.has_ended = True
        self._notify()


class Watcher:
    """An iterator over a feed. It is read by one task."""

    def __init__(self, history: History, resource: str, namespace: str, since: int) -> None:
        self._woken = asyncio.Event()
        self.feed = HistoryFeed(history, resource, namespace, since, self._woken.set)
        self._ready: deque[Change | Bookmark] = deque()

    def __aiter__(self) -> AsyncIterator[Change | Bookmark]:
        return self

    async def __anext__(self) -> Change | Bookmark:
        """The next change, or a bookmark when there is none. Expired where the history went on without us."""
        while not self.feed.has_ended:
            if not self._ready:
                self._ready.extend(self.feed.take())
            if self._ready:
                return self._ready.popleft()
            self._woken.clear()
            await self._woken.wait()
        raise StopAsyncIteration


class Watchers:
    """Everyone's feeds, by resource."""

    def __init__(self) -> None:
        self._by_resource: dict[str, set[HistoryFeed]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_resource.values()))

    @contextmanager
    def with_one(self, feed: HistoryFeed) -> Iterator[None]:
        """Wake this one too while entered."""
        feeds = self._by_resource.setdefault(feed.resource, set())
        feeds.add(feed)
        try:
            yield
        finally:
            feeds.discard(feed)
            if not feeds:
                self._by_resource.pop(feed.resource, None)

    def wake(self, resource: str, newest: int) -> None:
        """Tell those who watch the resource."""
        for feed in self._by_resource.get(resource, ()):
            feed.wake(newest)

    def remind(self, newest: int) -> None:
        """Have all of them give a bookmark."""
        for feeds in self._by_resource.values():
            for feed in feeds:
                feed.remind(newest)

    def end(self) -> None:
        """End all of them."""
        for feeds in self._by_resource.values():
            for feed in feeds:
                feed.end()
