"""Find objects by what is in them, kept up to date change by change: no lookup ever walks over all objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from dray.client.store import Entry, Key

T = TypeVar("T")

Indexer = Callable[[T], Iterable[str]]
"""Under which values an object is found; none: under no value. Pure, and asked once for each version of an object."""


class Index(Generic[T]):
    """Values → objects. Owned by one cache, which tells it every change."""

    def __init__(self, indexer: Indexer[T], entries: Iterable[Entry[T]] = ()) -> None:
        self.indexer = indexer
        self._found: dict[str, dict[Key, Entry[T]]] = {}
        self._values: dict[Key, tuple[str, ...]] = {}
        self._sorted: dict[str, tuple[T, ...]] = {}
        for entry in entries:
            self.put(entry)

    def put(self, entry: Entry[T]) -> None:
        """The object is there, or there is a new version of it."""
        values = tuple(dict.fromkeys(self.indexer(entry.value)))
        for value in self._values.get(entry.key, ()):
            if value not in values:
                self._leave(value, entry.key)
        for value in values:
            self._found.setdefault(value, {})[entry.key] = entry
            self._sorted.pop(value, None)
        if values:
            self._values[entry.key] = values
        else:
            self._values.pop(entry.key, None)

    def remove(self, key: Key) -> None:
        """The object is gone."""
        for value in self._values.pop(key, ()):
            self._leave(value, key)

    def get(self, value: str) -> tuple[T, ...]:
        """The objects under this value, by key. Sorted once after a change of theirs, so asking often is cheap."""
        known = self._sorted.get(value)
        if known is None:
            found = self._found.get(value)
            if not found:
                return ()
            known = self._sorted[value] = tuple(found[key].value for key in sorted(found))
        return known

    def values(self) -> tuple[str, ...]:
        """All values under which there is something, sorted."""
        return tuple(sorted(self._found))

    def _leave(self, value: str, key: Key) -> None:
        found = self._found[value]
        del found[key]
        self._sorted.pop(value, None)
        if not found:
            del self._found[value]
