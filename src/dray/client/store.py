"""What a reflector knows, as a pure state machine: lists and watch events go in, ordered changes come out.

The rules that make the change log trustworthy:

- An object is one incarnation: the same key with another uid is a `Deleted` and then an `Added`.
- A resource version that did not change is no change, however often the server repeats it.
- A list replaces everything. What vanished meanwhile comes out as `Deleted`, so a lost watch loses no delete.
- An object that cannot be decoded counts as an update that has not arrived: the last readable version stays, as in
  any cache that lags, and `unreadable` names it. Its deletion is still a deletion.
- Time does not go back inside a watch: an event older than what was seen is a `ProtocolError` and the owner lists
  again. A list that is older than the cache (etcd restored from a backup) is believed: the server is the truth, so
  objects then change to *lower* resource versions. A restore that has already overtaken the last version seen here
  cannot be noticed through the API; restart the parts after restoring etcd, as Kubernetes itself asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Generic, Literal, TypeVar

import msgspec

from dray.errors import ProtocolError

T = TypeVar("T")

Key = tuple[str, str]
"""Namespace ("" for cluster-scoped objects) and name."""


class Entry(msgspec.Struct, Generic[T], frozen=True, weakref=True):
    """One object as it was at one resource version."""

    key: Key
    uid: str
    version: str
    value: T


class Unreadable(msgspec.Struct, frozen=True):
    """An object of which only the metadata could be read; `reason` is one line."""

    key: Key
    uid: str
    version: str
    reason: str


class Added(msgspec.Struct, Generic[T], frozen=True):
    """An object is there that was not there before."""

    new: Entry[T]

    @property
    def key(self) -> Key:
        """Whose change this is."""
        return self.new.key


class Modified(msgspec.Struct, Generic[T], frozen=True):
    """The same incarnation of an object has another resource version."""

    old: Entry[T]
    new: Entry[T]

    @property
    def key(self) -> Key:
        """Whose change this is."""
        return self.new.key


class Deleted(msgspec.Struct, Generic[T], frozen=True):
    """An object is gone. `version` is that of the deletion, "" where only a list showed that it is missing."""

    old: Entry[T]
    version: str

    @property
    def key(self) -> Key:
        """Whose change this is."""
        return self.old.key


Change = Added[T] | Modified[T] | Deleted[T]


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """One line of a watch. ADDED and MODIFIED mean the same to a cache; BOOKMARK moves only the version."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    item: Entry[T] | Unreadable | None
    version: str


class Snapshot(msgspec.Struct, Generic[T], frozen=True):
    """All objects at one moment. `generation` counts the changes since the reflector was made."""

    generation: int
    version: str
    entries: Mapping[Key, Entry[T]]

    def get(self, key: Key) -> T | None:
        """The object, or None."""
        entry = self.entries.get(key)
        return None if entry is None else entry.value

    def values(self) -> Iterator[T]:
        """All objects, in no particular order."""
        return (entry.value for entry in self.entries.values())

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, key: object) -> bool:
        return key in self.entries


class ReflectorState(Generic[T]):
    """The cache itself. Owned by one reflector; others get snapshots."""

    def __init__(self) -> None:
        self._entries: dict[Key, Entry[T]] = {}
        self._unreadable: dict[Key, Unreadable] = {}
        self._generation = 0
        self._version = ""
        self._snapshot: Snapshot[T] | None = None

    @property
    def version(self) -> str:
        """Where a watch goes on: the newest resource version seen in a list, an event or a bookmark."""
        return self._version

    @property
    def generation(self) -> int:
        """How many changes there have been."""
        return self._generation

    @property
    def unreadable(self) -> Mapping[Key, Unreadable]:
        """Objects whose newest version could not be decoded, with the reason. A copy."""
        return dict(self._unreadable)

    def get(self, key: Key) -> Entry[T] | None:
        """One object without making a snapshot."""
        return self._entries.get(key)

    def snapshot(self) -> Snapshot[T]:
        """The state as a value that never changes; made anew only after a change, so asking often is cheap."""
        known = self._snapshot
        if known is None or known.generation != self._generation or known.version != self._version:
            entries = (
                known.entries
                if known is not None and known.generation == self._generation
                else MappingProxyType(dict(self._entries))
            )
            known = self._snapshot = Snapshot(self._generation, self._version, entries)
        return known

    def replace(self, items: Iterable[Entry[T] | Unreadable], version: str) -> tuple[Change[T], ...]:
        """Take a complete list as the truth and say what that changed."""
        fresh: dict[Key, Entry[T]] = {}
        unreadable: dict[Key, Unreadable] = {}
        for item in items:
            if isinstance(item, Entry):
                fresh[item.key] = item
                continue
            unreadable[item.key] = item
            known = self._entries.get(item.key)
            if known is not None and known.uid == item.uid:
                fresh[item.key] = known
        changes = tuple(_diff(self._entries, fresh))
        for key, known in self._entries.items():
            if key in fresh and _same(known, fresh[key]):
                fresh[key] = known
        self._entries, self._unreadable, self._version = fresh, unreadable, version
        self._generation += len(changes)
        return changes

    def apply(self, event: WatchEvent[T]) -> tuple[Change[T], ...]:
        """Take one watch event and say what it changed; nothing for a bookmark or a repetition.

        ProtocolError: the event is older than what was seen before, and the caller must list again.
        """
        item = event.item
        is_late = _goes_back(self._version, event.version)
        if event.type == "DELETED":
            changes = self._delete(event)
        elif is_late:
            raise ProtocolError(
                f"the watch went back from resource version {self._version} to {event.version}: list again"
            )
        elif isinstance(item, Entry):
            changes = self._put(item)
        else:
            changes = self._skip(item) if item is not None else ()
        if not is_late:  # some servers send a deletion with the object's last version
            self._version = event.version
        self._generation += len(changes)
        return changes

    def _put(self, item: Entry[T]) -> tuple[Change[T], ...]:
        known = self._entries.get(item.key)
        if known is not None and _same(known, item):
            return ()
        self._entries[item.key] = item
        if self._unreadable:
            self._unreadable.pop(item.key, None)
        if known is None:
            return (Added(item),)
        if known.uid == item.uid:
            return (Modified(known, item),)
        return (Deleted(known, ""), Added(item))

    def _delete(self, event: WatchEvent[T]) -> tuple[Change[T], ...]:
        item = event.item
        if item is None:
            return ()
        known = self._entries.get(item.key)
        self._unreadable.pop(item.key, None)
        if known is None or (item.uid and known.uid != item.uid):
            return ()
        del self._entries[item.key]
        return (Deleted(known, event.version),)

    def _skip(self, item: Unreadable) -> tuple[Change[T], ...]:
        self._unreadable[item.key] = item
        known = self._entries.get(item.key)
        if known is None or known.uid == item.uid:
            return ()
        del self._entries[item.key]
        return (Deleted(known, ""),)


def diff(old: Snapshot[T], new: Snapshot[T]) -> tuple[Change[T], ...]:
    """What a consumer that holds `old` missed until `new`: deletions first, then the rest, each by key."""
    return tuple(_diff(old.entries, new.entries))


def replay(entries: dict[Key, Entry[T]], changes: Iterable[Change[T]]) -> None:
    """Bring a copy of the cache up to date with the change log."""
    for change in changes:
        if isinstance(change, Deleted):
            del entries[change.key]
        else:
            entries[change.key] = change.new


def _diff(old: Mapping[Key, Entry[T]], new: Mapping[Key, Entry[T]]) -> Iterator[Change[T]]:
    for key in sorted(old):
        if key not in new or new[key].uid != old[key].uid:
            yield Deleted(old[key], "")
    for key in sorted(new):
        entry, known = new[key], old.get(key)
        if known is None or known.uid != entry.uid:
            yield Added(entry)
        elif known.version != entry.version:
            yield Modified(known, entry)


def _same(one: Entry[T], other: Entry[T]) -> bool:
    return one.version == other.version and one.uid == other.uid


def _goes_back(known: str, version: str) -> bool:
    """Whether `version` is older. Versions that are no numbers cannot be compared: then never."""
    if known.isdecimal() and version.isdecimal():
        return int(version) < int(known)
    return False
