"""An informer's objects, with our own writes on top until the informer has caught up.

A part that has just written an object decides the next thing before the watch brings it back. It tells the cache what
the server answered (`assume`), and reads the newest of the two from then on. `restore` takes it back.

Which of two versions is newer: resource versions are compared as numbers, which Kubernetes' API servers and ours
guarantee for one resource. Versions that are no numbers are opaque: equal or not. Then whatever the informer brings is
believed, and only an object of the very version that is known can be assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from dray.api.kinds import Resource
from dray.api.meta import Model
from dray.client.decode import meta_of
from dray.client.index import Index, Indexer
from dray.client.informer import Handler
from dray.client.store import Added, Change, Deleted, Entry, Key, Modified
from dray.errors import ConflictError, InvariantError, NotFoundError

T = TypeVar("T", bound=Model)


class Source(Protocol[T]):
    """Where the server's objects come from: an `Informer`."""

    @property
    def resource(self) -> Resource[T]:
        """What they are."""
        ...

    def on_change(self, handler: Handler[T]) -> Callable[[], None]:
        """Tell `handler` all there is and every change from then on."""
        ...


class AssumeCache(Generic[T]):
    """The newest we know of each object. Used from one event loop, like the informer it follows.

    Handlers are called as the informer's are, also for what is assumed and restored, before the call returns. A handler
    that itself assumes or restores has that change told after the one under way.
    """

    def __init__(self, informer: Source[T], *, indexers: Mapping[str, Indexer[T]] | None = None) -> None:
        self.resource = informer.resource
        self._api: dict[Key, Entry[T]] = {}
        self._latest: dict[Key, Entry[T]] = {}
        self._indexes: dict[str, Index[T]] = {name: Index(one) for name, one in (indexers or {}).items()}
        self._handlers: tuple[Handler[T], ...] = ()
        self._waiting: list[Change[T]] = []
        self._is_telling = False
        informer.on_change(self._take)

    def by_key(self, key: Key) -> T | None:
        """The newest of an object: the informer's, or what was assumed on top of it."""
        entry = self._latest.get(key)
        return None if entry is None else entry.value

    def from_api(self, key: Key) -> T | None:
        """The object as the informer has it."""
        entry = self._api.get(key)
        return None if entry is None else entry.value

    def is_assumed(self, key: Key) -> bool:
        """Whether the newest is ours and the informer has not caught up."""
        return self._latest.get(key) is not self._api.get(key)

    def indexed(self, name: str, value: str) -> tuple[T, ...]:
        """The newest objects that index `name` has under `value`, by key."""
        index = self._indexes.get(name)
        if index is None:
            raise InvariantError(f"the assume cache of {self.resource} has no index {name!r}")
        return index.get(value)

    def values(self) -> Iterator[T]:
        """The newest of all objects, in no particular order; not over an `await`."""
        return (entry.value for entry in self._latest.values())

    def __len__(self) -> int:
        return len(self._latest)

    def on_change(self, handler: Handler[T]) -> None:
        """Tell `handler` every change, and first, before this returns, each object there is as `Added`."""
        for key in sorted(self._latest):
            handler(Added(self._latest[key]))
        self._handlers = (*self._handlers, handler)

    def assume(self, value: T) -> None:
        """Take what the server answered to a write as the newest, until the informer brings it or something newer.

        NotFoundError: the informer does not know the object (yet, or any more). ConflictError: something newer, or
        another object of that name, is known. Only a server's answer is safe: an object that we changed ourselves and
        that still has the version it was read with is dropped when the informer brings the next one.
        """
        meta = meta_of(value)
        entry = Entry((meta.namespace, meta.name), meta.uid, meta.resource_version, value)
        known = self._latest.get(entry.key)
        what = f"{self.resource} {'/'.join(filter(None, entry.key))}"
        if known is None:
            raise NotFoundError(
                f"{what}: is not known, so nothing can be assumed of it",
                kind=str(self.resource),
                name=meta.name,
            )
        if known.uid != entry.uid:
            raise ConflictError(f"{what}: is another object of that name now (uid {known.uid})")
        if not _is_newer(entry.version, known.version) and entry.version != known.version:
            raise ConflictError(
                f"{what}: version {known.version} is known, which {entry.version} is not newer than"
            )
        if entry != known:  # the informer may have been faster than the answer: then there is nothing new
            self._set(entry, Modified(known, entry))

    def restore(self, key: Key) -> None:
        """Forget what was assumed; the informer's object is the newest again. Nothing where nothing was assumed."""
        api, latest = self._api.get(key), self._latest.get(key)
        if api is not None and latest is not None and api is not latest:
            self._set(api, Modified(latest, api))

    def _take(self, change: Change[T]) -> None:
        """From the informer."""
        if isinstance(change, Deleted):
            self._delete(change)
            return
        entry, before = change.new, self._api.get(change.key)
        known = self._latest.get(change.key)
        self._api[change.key] = entry
        if known is None:
            self._set(entry, Added(entry))
        elif known is before or not _covers(known, entry, before):
            self._set(entry, Modified(known, entry))

    def _delete(self, change: Deleted[T]) -> None:
        self._api.pop(change.key, None)
        known = self._latest.pop(change.key, None)
        if known is None:
            return
        for index in self._indexes.values():
            index.remove(change.key)
        self._tell(Deleted(known, change.version))

    def _set(self, entry: Entry[T], change: Change[T]) -> None:
        self._latest[entry.key] = entry
        for index in self._indexes.values():
            index.put(entry)
        self._tell(change)

    def _tell(self, change: Change[T]) -> None:
        """In order for all handlers, also where one of them causes the next change."""
        self._waiting.append(change)
        if self._is_telling:
            return
        self._is_telling = True
        try:
            while self._waiting:
                told = self._waiting.pop(0)
                for handler in self._handlers:
                    handler(told)
        finally:
            self._is_telling = False


def _covers(assumed: Entry[T], entry: Entry[T], before: Entry[T] | None) -> bool:
    """Whether what was assumed stays: it is as new as what came, and the server did not itself go back."""
    went_back = before is not None and _is_newer(before.version, entry.version)
    as_new = assumed.version == entry.version or _is_newer(assumed.version, entry.version)
    return as_new and not went_back


def _is_newer(version: str, than: str) -> bool:
    """Whether `version` is certainly newer; never for versions that are no numbers."""
    return version.isdecimal() and than.isdecimal() and int(version) > int(than)
