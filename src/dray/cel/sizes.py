"""How large values are through and through, so that nothing walks over one that has not been measured.

A list may hold a list twice, which holds one twice, …: forty such steps are 2⁴⁰ values in a few kilobytes. Python's own
`==`, `hash` and `str` would walk over all of them without ever looking up. Here every list and map is looked at once,
whoever holds it, and its size is the sum of what it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, Final

from dray.cel.types import Type
from dray.cel.values import (
    Duration,
    JoinedList,
    MixedMap,
    Opaque,
    Optional,
    Timestamp,
    Uint,
    Value,
    is_list,
    is_map,
)

LARGEST: Final = 2**62
"""Sizes stop here."""
WALKED: Final = 5
"""Characters are walked over 2⁵ at a step."""
_ONE: Final = frozenset({bool, int, Uint, float, type(None), Duration, Timestamp, Type})


class Sizes:
    """The sizes of one evaluation's values: what it does not change any more, which it holds on to, so that identities last."""

    __slots__ = ("_known", "_spend")

    def __init__(self, spend: Callable[[int], None]) -> None:
        self._spend = spend
        self._known: dict[int, tuple[Value, int]] = {}

    def of(self, value: Value) -> int:
        """Values within the value, itself included, and its characters by 32; measuring is charged as work."""
        size = _plain(value)
        if size:
            return size
        known = self._known.get(id(value))
        return known[1] if known is not None else self._measured(value)

    def _measured(self, root: Value) -> int:
        """Without recursion: values may be nested deeper than Python calls."""
        known, waiting = self._known, [root]
        while waiting:
            value = waiting[-1]
            if id(value) in known:
                waiting.pop()
                continue
            total, open_parts = 1, len(waiting)
            self._spend(1 + _length(value))
            for part in _parts(value):
                size = _plain(part)
                if not size:
                    found = known.get(id(part))
                    if found is None:
                        waiting.append(part)
                        continue
                    size = found[1]
                total += size
            if len(waiting) == open_parts:
                waiting.pop()
                known[id(value)] = value, min(total, LARGEST)
        return known[id(root)][1]


def _plain(value: Value) -> int:
    """The size of what holds no other values, 0 for what does."""
    kind = value.__class__
    if kind in _ONE:
        return 1
    if kind is str or kind is bytes:
        return 1 + (len(value) >> WALKED)
    if isinstance(value, Opaque):
        return value.weight
    return 0 if kind is Optional or is_list(value) or is_map(value) else 1


def _length(value: Value) -> int:
    return 2 if value.__class__ is Optional or value.__class__ is JoinedList else len(value)


def _parts(value: Value) -> Iterable[Any]:
    kind = value.__class__
    if kind is Optional:
        return (value.content,)
    if kind is JoinedList:
        return value.left, value.right
    if isinstance(value, MixedMap):
        return chain.from_iterable(value.items())
    if isinstance(value, dict):
        return chain(value.keys(), value.values())
    parts: Iterable[Any] = value
    return parts
