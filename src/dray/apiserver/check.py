"""Whether a store at rest is what a server may have left behind: `dray apiserver --check`.

Looks at the file of a server that does not run. Opening it finishes what a kill left half done, as a start does; nothing
else is changed. What only the past could tell (was this write ever acknowledged?) is not looked at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dray.allocation.holding import Held, clashes, given_twice, held_in
from dray.api.codec import loads, view
from dray.api.kinds import ALL_RESOURCES, NAMESPACES, RESOURCE_CLAIMS
from dray.apiserver.store.contract import ChangeKind, Key, Stored
from dray.apiserver.store.journal import Journal, Row
from dray.errors import InvalidError, NotFoundError
from dray.runtime.files.filelock import FileLock

_TYPED: Final = {str(resource): resource for resource in ALL_RESOURCES}


@dataclass(frozen=True, slots=True)
class Report:
    """What was found. `faults` is empty for a store in order."""

    revision: int
    changes: int
    objects: int
    faults: tuple[str, ...]


def check_store(path: Path) -> Report:
    """Read all of it. ConflictError: a server has it open. HardwareError: so damaged that none would start with it."""
    if not path.is_file():
        raise NotFoundError(
            f"there is no store {str(path)!r}: name the data directory of a server", kind="store"
        )
    lock = FileLock(path.with_name(f"{path.name}.lock"))
    lock.acquire()
    try:
        return _read(Journal(path))
    finally:
        lock.release()


def _read(journal: Journal) -> Report:
    journal.open()
    try:
        log = _Log(journal.given, journal.floor)
        for row in journal.rows():
            log.take(row)
    finally:
        journal.close()
    found = [*log.faults, *_state(log.objects)]
    return Report(journal.given, log.changes, len(log.objects), tuple(found))


class _Log:
    """The changes one by one, in order of their revisions."""

    def __init__(self, given: int, floor: int) -> None:
        self.objects: dict[Key, Stored] = {}
        self.faults: list[str] = []
        self.changes = 0
        self._given = given
        self._floor = floor

    def take(self, row: Row) -> None:
        self.changes += 1
        new = row.new
        self.faults += (f"revision {new.revision}, {_name(new.key)}: {why}" for why in self._wrong(row))
        if row.kind is ChangeKind.DELETED:
            self.objects.pop(new.key, None)
        else:
            self.objects[new.key] = new

    def _wrong(self, row: Row) -> Iterator[str]:
        new, old = row.new, self.objects.get(row.new.key)
        if new.revision > self._given:
            yield f"it is newer than the counter, which is at {self._given}"
        if row.kind is ChangeKind.ADDED and old is not None:
            yield "it is added, but was there"
        # What came before the floor may have been forgotten; after it no row may be missing.
        if row.kind is not ChangeKind.ADDED and old is None and new.revision > self._floor:
            yield f"it is {row.kind.lower()}, but the log does not have it before"
        if old is not None and old.uid != new.uid:
            yield f"its uid was {old.uid} and is {new.uid}"
        yield from _document(new)


def _document(stored: Stored) -> Iterator[str]:
    """What the document says of itself must be what the row says of it."""
    try:
        document = loads(stored.raw)
    except InvalidError as error:
        yield f"its document cannot be read: {error}"
        return
    metadata: Any = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(metadata, dict):
        yield "its document has no metadata"
        return
    for field, wanted in (
        ("name", stored.key.name),
        ("namespace", stored.key.namespace),
        ("uid", stored.uid),
        ("resourceVersion", str(stored.revision)),
    ):
        if (found := metadata.get(field, "")) != wanted:
            yield f"metadata.{field} is {found!r}, where {wanted!r} belongs"
    try:
        if resource := _TYPED.get(stored.key.resource):
            view(document, resource.type)
    except InvalidError as error:
        yield f"it cannot be read as {resource.kind if resource else ''}: {error}"


def _state(objects: dict[Key, Stored]) -> Iterator[str]:
    """What must hold between the objects that are there now."""
    uids: dict[str, Key] = {}
    namespaces = {key.name for key in objects if key.resource == str(NAMESPACES)}
    for key, stored in objects.items():
        if (other := uids.setdefault(stored.uid, key)) != key:
            yield f"{_name(key)} and {_name(other)} have the same uid {stored.uid}"
        if key.namespace and key.namespace not in namespaces:
            yield f"{_name(key)} is in a namespace that does not exist"
    yield from _devices([one for key, one in objects.items() if key.resource == str(RESOURCE_CLAIMS)])


def _devices(claims: list[Stored]) -> Iterator[str]:
    holders: dict[str, list[tuple[Key, Held]]] = defaultdict(list)
    for claim in claims:
        try:
            held = held_in(claim.raw)
        except InvalidError:
            continue  # told already: its document cannot be read
        if (twice := given_twice(held)) is not None:
            yield f"{_name(claim.key)} holds device {twice} twice"
        for one in held:
            for key, other in holders[one.place]:
                if key != claim.key and clashes(one, other):
                    yield f"device {one} is held by {_name(key)} and {_name(claim.key)}"
            holders[one.place].append((claim.key, one))


def _name(key: Key) -> str:
    return f"{key.resource} {key.namespace}/{key.name}" if key.namespace else f"{key.resource} {key.name}"
