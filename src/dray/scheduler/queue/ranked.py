"""A heap of keys with ranks from which any key can be taken out."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
Rank = tuple[float, ...]


class Ranked(Generic[K]):
    """Least rank first; equal ranks come in the order of their adding. Adding and taking out cost O(log n)."""

    def __init__(self) -> None:
        self._heap: list[tuple[Rank, int, K]] = []
        self._numbers: dict[K, int] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, key: K) -> bool:
        return key in self._numbers

    def __iter__(self) -> Iterator[K]:
        return iter(self._numbers)

    def add(self, key: K, rank: Rank) -> None:
        """Put a key in, or give it another rank."""
        self._last += 1
        self._numbers[key] = self._last
        heapq.heappush(self._heap, (rank, self._last, key))

    def discard(self, key: K) -> bool:
        """Take a key out; tells whether it was there."""
        was_there = self._numbers.pop(key, None) is not None
        # What was taken out stays in the heap until it comes to the top; more than half of it must not be that.
        if len(self._heap) > 64 and len(self._heap) > 2 * len(self._numbers):
            self._heap = [one for one in self._heap if self._is_valid(one)]
            heapq.heapify(self._heap)
        return was_there

    def first(self) -> tuple[K, Rank] | None:
        """The key with the least rank, left where it is."""
        while self._heap:
            entry = self._heap[0]
            if self._is_valid(entry):
                return entry[2], entry[0]
            heapq.heappop(self._heap)
        return None

    def pop(self) -> K | None:
        """Take the key with the least rank."""
        found = self.first()
        if found is None:
            return None
        heapq.heappop(self._heap)
        del self._numbers[found[0]]
        return found[0]

    def _is_valid(self, entry: tuple[Rank, int, K]) -> bool:
        return self._numbers.get(entry[2]) == entry[1]
