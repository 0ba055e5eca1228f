"""The store as an address shows it: other names for the same objects, each turned into the form of the address."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec

from dray.apiserver.forms import PLAIN, Form
from dray.apiserver.http.paths import Place
from dray.apiserver.store.contract import Bookmark, Change, Key, Page, Store, Stored, Transaction

T = TypeVar("T")


def seen_from(store: Store, place: Place) -> Store:
    """The store itself, unless objects look different from there than they are kept."""
    if place.form is PLAIN:
        return store
    return _View(store, place.served.key("", "").resource, place.form)


class _View:
    """Every object costs a conversion each time it is read, so this is for kinds with few."""

    def __init__(self, store: Store, resource: str, form: Form) -> None:
        self._store = store
        self._resource = resource
        self._form = form

    @property
    def revision(self) -> int:
        return self._store.revision

    async def write(self, decide: Callable[[Transaction], T]) -> T:
        return await self._store.write(decide)

    def get(self, key: Key) -> Stored | None:
        found = self._store.get(key)
        return None if found is None else self._shown(found)

    def list(
        self, resource: str, namespace: str = "", after: str = "", limit: int = 0, at: int | None = None
    ) -> Page:
        page = self._store.list(self._resource, namespace, after, limit, at)
        return msgspec.structs.replace(page, items=tuple(map(self._shown, page.items)))

    @asynccontextmanager
    async def watch(
        self, resource: str, namespace: str = "", since: int | None = None
    ) -> AsyncIterator[AsyncIterator[Change | Bookmark]]:
        async with self._store.watch(self._resource, namespace, since) as changes:
            yield (self._changed(change) async for change in changes)

    def _changed(self, change: Change | Bookmark) -> Change | Bookmark:
        if isinstance(change, Bookmark):
            return change
        old = None if change.old is None else self._shown(change.old)
        return msgspec.structs.replace(change, new=self._shown(change.new), old=old)

    def _shown(self, stored: Stored) -> Stored:
        document = self._form.outward(msgspec.json.decode(stored.raw))
        return msgspec.structs.replace(stored, raw=msgspec.json.encode(document))
