"""Every change of a reflector's picture as a pair of what was and what is, however the reflector came to know it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from dray.api.meta import Model
from dray.client.feed import Replaced
from dray.client.reflector import Reflector
from dray.client.store import Added, Change, Deleted, Entry, Key, Modified

T = TypeVar("T", bound=Model)
Seen = Callable[[T | None, T | None], None]
"""Called with (None, new), (old, new) or (old, None). Another object under the same name is two calls."""


async def follow(reflector: Reflector[T], seen: Seen[T]) -> None:
    """Call `seen` for the whole picture and then for each change, until the reflector stops.

    A listener that was too slow gets the newest picture instead of the single changes; `seen` then hears what is
    different from what it heard last, deletions included.
    """
    known: dict[Key, Entry[T]] = {}
    async for change in reflector.changes():
        if isinstance(change, Replaced):
            _catch_up(known, change.snapshot.entries, seen)
        else:
            _pass_on(known, change, seen)


def _catch_up(known: dict[Key, Entry[T]], entries: Mapping[Key, Entry[T]], seen: Seen[T]) -> None:
    for key in sorted(known.keys() | entries.keys()):
        old, new = known.get(key), entries.get(key)
        if old is not None and new is not None and old.uid != new.uid:
            seen(old.value, None)
            old = None
        if old is not new:
            seen(None if old is None else old.value, None if new is None else new.value)
    known.clear()
    known.update(entries)


def _pass_on(known: dict[Key, Entry[T]], change: Change[T], seen: Seen[T]) -> None:
    match change:
        case Added(new=new):
            known[change.key] = new
            seen(None, new.value)
        case Modified(old=old, new=new):
            known[change.key] = new
            seen(old.value, new.value)
        case Deleted(old=old):
            known.pop(change.key, None)
            seen(old.value, None)
