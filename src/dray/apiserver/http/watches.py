"""A watch as the lines that a client reads: one JSON document for each change of the objects it selected."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from datetime import datetime
from typing import Any

import msgspec

from dray.api.http_status import to_status
from dray.apiserver.http.lists import find
from dray.apiserver.http.options import ListOptions
from dray.apiserver.http.paths import Place
from dray.apiserver.http.tables import table
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


class Lines:
    """Turns changes into lines for one watcher."""

    def __init__(self, place: Place, options: ListOptions, now: Callable[[], datetime] | None = None) -> None:
        """`now` makes tables of the objects."""
        self._place = place
        self._options = options
        self._now = now
        self._has_columns = False

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
        return self._options.select.takes(self._place.served, msgspec.json.decode(one.raw))

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


@asynccontextmanager
async def watching(
    store: Store, place: Place, options: ListOptions, lines: Lines
) -> AsyncIterator[AsyncIterator[bytes]]:
    """Entered: the watch has begun, and Expired or RevisionTooLargeError was raised where it cannot. Gives its lines.

    Without a revision, with 0, and where the client asks for it, all objects come first. They end when the store stops.
    """
    since = options.revision or 0
    if since > store.revision:
        raise RevisionTooLargeError(since, store.revision)
    first: list[Stored] = []
    if not since or options.wants_initial:
        found = find(store, place, ListOptions(select=options.select))
        first, since = found.items, found.revision
    async with store.watch(str(place.served.resource), place.namespace, since) as changes:
        beginning = [lines.added(one) for one in first]
        if options.wants_initial and options.wants_bookmarks:
            beginning.append(lines.bookmark(since, ends_initial=True))
        async with aclosing(_told(beginning, changes, options, lines)) as told:
            yield told


async def _told(
    beginning: list[bytes],
    changes: AsyncIterator[Change | Bookmark],
    options: ListOptions,
    lines: Lines,
) -> AsyncGenerator[bytes, None]:
    for line in beginning:
        yield line
    try:
        async for change in changes:
            if isinstance(change, Bookmark):
                told = lines.bookmark(change.revision) if options.wants_bookmarks else None
            else:
                told = lines.change(change)
            if told is not None:
                yield told
    except Expired as error:
        yield gone(error)
