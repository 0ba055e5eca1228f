"""The changes of late, for watches and for pages of an older revision. Bounded: the oldest go first."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from dray.apiserver.store.contract import Change, ChangeKind, Expired, Key, Stored

_OVERHEAD: Final = 300
_revision = attrgetter("revision")


class _Track:
    """The changes of one resource. `floor`: those up to it are gone, all after it are here."""

    def __init__(self, floor: int) -> None:
        self.floor = floor
        self._changes: list[Change] = []
        self._gone = 0

    def append(self, change: Change) -> None:
        self._changes.append(change)

    def drop_first(self) -> None:
        self.floor = self._changes[self._gone].revision
        self._gone += 1
        if self._gone > 64 and self._gone * 2 > len(self._changes):
            del self._changes[: self._gone]
            self._gone = 0

    def after(self, revision: int, limit: int | None) -> Sequence[Change]:
        start = bisect_right(self._changes, revision, lo=self._gone, key=_revision)
        return self._changes[start : None if limit is None else start + limit]


class History:
    """What happened after `floor`, of each resource. A resource that is quiet for long loses nothing to a busy one
    but what it really had: a watch of it goes on from any revision after its own last loss.
    """

    def __init__(self, floor: int, most_changes: int, most_bytes: int) -> None:
        self.floor = floor
        self._start = floor
        self._most_changes = most_changes
        self._most_bytes = most_bytes
        self._bytes = 0
        self._order: deque[Change] = deque()
        self._tracks: dict[str, _Track] = {}
        self._rows: list[int] = []

    def __len__(self) -> int:
        return len(self._order)

    def append(self, change: Change) -> None:
        """Add the newest change, and lose the oldest where there are too many or too large ones."""
        self._order.append(change)
        self._bytes += _size(change)
        self._track(change.new.key.resource).append(change)
        while self._order and (len(self._order) > self._most_changes or self._bytes > self._most_bytes):
            self._lose(self._order.popleft())

    def after(self, resource: str, revision: int, limit: int | None = None) -> Sequence[Change]:
        """The changes of a resource after a revision, oldest first. Expired where some of them are gone."""
        track = self._tracks.get(resource)
        floor = self._start if track is None else track.floor
        if revision < floor:
            raise Expired(f"too old resource version: {revision} ({floor})")
        return () if track is None else track.after(revision, limit)

    def before(self, resource: str, revision: int) -> dict[Key, Stored | None]:
        """What objects that changed after a revision were at it. Expired where that is no longer known."""
        states: dict[Key, Stored | None] = {}
        for change in self.after(resource, revision):
            states.setdefault(change.new.key, change.old)
        return states

    @property
    def unneeded(self) -> tuple[int, ...]:
        """The log's rows that neither the objects nor the history need, oldest first."""
        return tuple(self._rows)

    def removed(self, count: int) -> None:
        """The first of them were removed, durably."""
        del self._rows[:count]

    def _lose(self, change: Change) -> None:
        self._bytes -= _size(change)
        self.floor = change.revision
        self._track(change.new.key.resource).drop_first()
        if change.old is not None:
            self._rows.append(change.old.revision)
        if change.kind is ChangeKind.DELETED:
            self._rows.append(change.revision)

    def _track(self, resource: str) -> _Track:
        return self._tracks.setdefault(resource, _Track(self._start))


def _size(change: Change) -> int:
    old = 0 if change.old is None else len(change.old.raw)
    return _OVERHEAD + len(change.new.raw) + old
