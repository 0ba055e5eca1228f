"""A watch as the lines that a client reads: one JSON document for each change of the objects it selected."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from dray.api.http_status import to_status
from dray.apiserver.http.options import ListOptions
from dray.apiserver.http.paths import Place
from dray.apiserver.http.showing.tables import table
from dray.apiserver.http.watching.lists import find
from dray.apiserver.store.contract import (
    Bookmark,
    Change,
    ChangeKind,
    Expired,
    RevisionTooLargeError,
    Store,
    Stored,
)

Document = dict[str, Any]
_INITIAL_END = {"k8s.io/initial-events-end": "true"}
_PIECE: Final = 128 << 10
"""Lines are sent together up to here; a single one may be longer."""


class Lines:
    """Turns changes into lines for one watcher."""

    def __init__(self, place: Place, options: ListOptions, now: Callable[[], datetime] | None = None) -> None:
        """`now` makes tables of the objects."""
        self._place = place
        self._options = options
        self._now = now
        self._has_columns = False

    @property
    def shape(self) -> Hashable:
        """Those of the same shape say the same of every change. None: each is different."""
        if self._now is not None:
            return None
        place, options = self._place, self._options
        resource = str(place.served.resource)
        return (type(self), resource, place.version, place.namespace, options.select, options.wants_bookmarks)

    def told(self, item: Change | Bookmark) -> bytes | None:
        """None where it does not concern this watcher."""
        if not isinstance(item, Bookmark):
            return self.change(item)
        return self.bookmark(item.revision) if self._options.wants_bookmarks else None

    def change(self, change: Change) -> bytes | None:
        """None where it does not concern this watcher. Coming into the selection is an ADDED, leaving it a DELETED."""
        if not self._options.select:
            return self._line(change.kind, change.new.raw)
        is_in = change.kind is not ChangeKind.DELETED and self._takes(change.new)
        was_in = change.old is not None and self._takes(change.old)
        if is_in:
            kind = ChangeKind.MODIFIED if was_in else ChangeKind.ADDED
            return self._line(kind, change.new.raw)
        if not was_in or change.old is None:
            return None
        if change.kind is ChangeKind.DELETED:
            return self._line(ChangeKind.DELETED, change.new.raw)
        return self._line(ChangeKind.DELETED, _at(change.old, change.revision))

    def added(self, one: Stored) -> bytes:
        """An object that was there before the watch."""
        return self._line(ChangeKind.ADDED, one.raw)

    def bookmark(self, revision: int, *, ends_initial: bool = False) -> bytes:
        """How far the watcher is."""
        served = self._place.served
        metadata: Document = {"resourceVersion": str(revision)}
        if ends_initial:
            metadata["annotations"] = _INITIAL_END
        document: Document = {
            "kind": served.resource.kind,
            "apiVersion": served.api_version(self._place.version),
            "metadata": metadata,
        }
        if self._now is not None:
            document = self._table([], {"resourceVersion": str(revision)}) | {"rows": []}
        return b'{"type":"BOOKMARK","object":' + msgspec.json.encode(document) + b"}\n"

    def _takes(self, one: Stored) -> bool:
        return self._options.select.takes(self._place.served, _looked_into(one.raw))

    def _line(self, kind: ChangeKind, raw: bytes) -> bytes:
        if self._now is not None:
            document = msgspec.json.decode(raw)
            version = document["metadata"]["resourceVersion"]
            raw = msgspec.json.encode(self._table([document], {"resourceVersion": version}))
        return b"".join((b'{"type":"', kind.value.encode(), b'","object":', raw, b"}\n"))

    def _table(self, documents: list[Document], metadata: Document) -> Document:
        assert self._now is not None
        found = table(self._place.served, documents, metadata, self._options.include, self._now())
        if self._has_columns:
            found["columnDefinitions"] = None
        self._has_columns = True
        return found


@lru_cache(maxsize=32)
def _looked_into(raw: bytes) -> Document:
    """Not to be changed. Every selection asks about the same change, one after the other."""
    document: Document = msgspec.json.decode(raw)
    return document


def _at(old: Stored, revision: int) -> bytes:
    """The last state that was selected, with the revision at which it left."""
    document = msgspec.json.decode(old.raw)
    document["metadata"]["resourceVersion"] = str(revision)
    return msgspec.json.encode(document)


def gone(error: Expired) -> bytes:
    """What ends a watch that cannot go on: the client lists again."""
    status = msgspec.to_builtins(to_status(error)) | {"code": 410, "reason": "Expired"}
    document = {"kind": "Status", "apiVersion": "v1", "metadata": {}, **status}
    return b'{"type":"ERROR","object":' + msgspec.json.encode(document) + b"}\n"


class Piece(NamedTuple):
    """Some lines. Who does not get them goes on from `since`."""

    data: bytes
    since: int


def pieces(items: Sequence[Change | Bookmark], since: int, lines: Lines) -> Iterator[Piece]:
    """What is told of these, which follow the revision `since`."""
    told: list[bytes] = []
    size = 0
    for item in items:
        line = lines.told(item)
        if line is None:
            continue
        told.append(line)
        size += len(line)
        if size >= _PIECE:
            yield Piece(b"".join(told), since)
            told, size, since = [], 0, item.revision
    if told:
        yield Piece(b"".join(told), since)


class Begun(NamedTuple):
    """What a watch says first, and the revision it goes on from."""

    first: list[Stored]
    end: bytes
    since: int
    lines: Lines

    def pieces(self) -> Iterator[bytes]:
        """The lines, some at a time."""
        told: list[bytes] = []
        size = 0
        for one in self.first:
            told.append(self.lines.added(one))
            size += len(told[-1])
            if size >= _PIECE:
                yield b"".join(told)
                told, size = [], 0
        if told or self.end:
            yield b"".join((*told, self.end))


def begin(store: Store, place: Place, options: ListOptions, lines: Lines) -> Begun:
    """Without a revision, with 0, and where the client asks for it, all objects come first.

    RevisionTooLargeError for one that was not given yet.
    """
    since = options.revision or 0
    if since > store.revision:
        raise RevisionTooLargeError(since, store.revision)
    if since and not options.wants_initial:
        return Begun([], b"", since, lines)
    found = find(store, place, ListOptions(select=options.select))
    wants_end = options.wants_initial and options.wants_bookmarks
    end = lines.bookmark(found.revision, ends_initial=True) if wants_end else b""
    return Begun(found.items, end, found.revision, lines)


@asynccontextmanager
async def watching(
    store: Store, place: Place, options: ListOptions, lines: Lines
) -> AsyncIterator[AsyncIterator[bytes]]:
    """Entered: the watch has begun, and Expired or RevisionTooLargeError was raised where it cannot. Gives its lines.

    They end when the store stops. For views of the store; the store's own watches are in `fanout.py`.
    """
    begun = begin(store, place, options, lines)
    async with (
        store.watch(str(place.served.resource), place.namespace, begun.since) as changes,
        aclosing(_told(begun, changes, lines)) as told,
    ):
        yield told


async def _told(
    begun: Begun, changes: AsyncIterator[Change | Bookmark], lines: Lines
) -> AsyncGenerator[bytes, None]:
    for one in begun.first:
        yield lines.added(one)
    if begun.end:
        yield begun.end
    try:
        async for change in changes:
            told = lines.told(change)
            if told is not None:
                yield told
    except Expired as error:
        yield gone(error)
