"""Which objects have a value: a small index that a loop keeps beside its picture."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Hashable)


class Index(Generic[K, V]):
    """Keys by value. Owned by one loop; `put` replaces all values of a key, and no values forget it."""

    def __init__(self) -> None:
        self._values: dict[K, frozenset[V]] = {}
        self._keys: dict[V, set[K]] = {}

    def put(self, key: K, values: Iterable[V] = ()) -> None:
        """From now on `key` has exactly these values."""
        new, old = frozenset(values), self._values.get(key, frozenset())
        for value in old - new:
            keys = self._keys[value]
            keys.discard(key)
            if not keys:
                del self._keys[value]
        for value in new - old:
            self._keys.setdefault(value, set()).add(key)
        if new:
            self._values[key] = new
        else:
            self._values.pop(key, None)

    def having(self, value: V) -> frozenset[K]:
        """The keys with this value; sort them where the order can reach anybody."""
        return frozenset(self._keys.get(value, ()))
