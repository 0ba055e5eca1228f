"""Watches. A watcher has a place in the history, not a queue: however slow it is, it holds no memory for what it missed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

from dray.apiserver.store.contract import Bookmark, Change
from dray.apiserver.store.history import History

_AT_ONCE: Final = 100


class Watcher:
    """An iterator over the changes of a resource, or of one namespace of it. It is read by one task."""

    def __init__(self, history: History, resource: str, namespace: str, since: int) -> None:
        self.resource = resource
        self._history = history
        self._namespace = namespace
        self._seen = since
        self._ready: deque[Change] = deque()
        self._newest = since
        self._bookmark_due = False
        self._ended = False
        self._woken = asyncio.Event()

    def __aiter__(self) -> AsyncIterator[Change | Bookmark]:
        return self

    async def __anext__(self) -> Change | Bookmark:
        """The next change, or a bookmark when there is none. Expired where the history went on without us."""
        while not self._ended:
            if self._ready or self._read():
                return self._ready.popleft()
            if self._bookmark_due:
                self._bookmark_due = False
                return Bookmark(self._seen)
            self._woken.clear()
            await self._woken.wait()
        raise StopAsyncIteration

    def wake(self, newest: int) -> None:
        """The store is at this revision, and something of the resource changed."""
        self._newest = newest
        self._woken.set()

    def remind(self, newest: int) -> None:
        """Give a bookmark when all changes are read."""
        self._bookmark_due = True
        self.wake(newest)

    def end(self) -> None:
        """The store stops."""
        self._ended = True
        self._woken.set()

    def _read(self) -> bool:
        """Take some more out of the history; False where the watcher has seen all there is."""
        while changes := self._history.after(self.resource, self._seen, _AT_ONCE):
            self._seen = changes[-1].revision
            namespace = self._namespace
            self._ready.extend(c for c in changes if not namespace or c.new.key.namespace == namespace)
            if self._ready:
                return True
        self._seen = max(self._seen, self._newest)
        return False


class Watchers:
    """All of them, by resource."""

    def __init__(self) -> None:
        self._by_resource: dict[str, set[Watcher]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_resource.values()))

    def add(self, watcher: Watcher) -> None:
        """Wake this one from now on."""
        self._by_resource.setdefault(watcher.resource, set()).add(watcher)

    def remove(self, watcher: Watcher) -> None:
        """Nobody reads it any more."""
        watchers = self._by_resource[watcher.resource]
        watchers.discard(watcher)
        if not watchers:
            del self._by_resource[watcher.resource]

    def wake(self, resource: str, newest: int) -> None:
        """Tell those who watch the resource."""
        for watcher in self._by_resource.get(resource, ()):
            watcher.wake(newest)

    def remind(self, newest: int) -> None:
        """Have all of them give a bookmark."""
        for watchers in self._by_resource.values():
            for watcher in watchers:
                watcher.remind(newest)

    def end(self) -> None:
        """End all of them."""
        for watchers in self._by_resource.values():
            for watcher in watchers:
                watcher.end()
