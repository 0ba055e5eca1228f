"""A memory of recent things that is bounded in bytes: a text of a tenant's may be small or large, and many are written."""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_LOCK: Final = threading.Lock()
"""For all memories: what is done under it takes microseconds. A copy of the process finds it free, whoever had it."""
os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


class Memo(Generic[K, V]):
    """The things put last, as many as fit into `limit` bytes, by the sizes that are given with them. Any thread may use it."""

    __slots__ = ("_entries", "_limit", "size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: dict[K, tuple[V, int]] = {}
        self.size = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """What is remembered, or None."""
        found = self._entries.get(key)
        return None if found is None else found[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Remembers it, and forgets the oldest to make room. What alone is too large is not kept."""
        if size > self._limit:
            return
        with _LOCK:
            previous = self._entries.pop(key, None)
            if previous is not None:
                self.size -= previous[1]
            self._entries[key] = value, size
            self.size += size
            while self.size > self._limit:
                oldest = next(iter(self._entries))
                self.size -= self._entries.pop(oldest)[1]

    def pop(self, key: K) -> None:
        """Forgets it. A no-op for what is not remembered."""
        with _LOCK:
            found = self._entries.pop(key, None)
            if found is not None:
                self.size -= found[1]

    def clear(self) -> None:
        """Forgets everything."""
        with _LOCK:
            self._entries.clear()
            self.size = 0
