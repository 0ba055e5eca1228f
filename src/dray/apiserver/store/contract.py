"""What the rest of the API server knows of the store. Read this first; `sqlite.py` holds `open_store`.

One counter gives every change of any object its revision, which is the `resourceVersion` that clients see. A revision
is never given twice, also not after a restart or a failed commit; there may be gaps.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from dray.errors import ConflictError, UnavailableError

T = TypeVar("T")


class Key(NamedTuple):
    """Where an object is kept: `pods` or `resourceclaims.resource.k8s.io`; the namespace is "" for cluster scope."""

    resource: str
    namespace: str
    name: str


class Stored(msgspec.Struct, frozen=True, gc=False):
    """One object at one revision. `raw` is the whole JSON document as clients see it, its resourceVersion inside."""

    key: Key
    uid: str
    revision: int
    raw: bytes


class ChangeKind(StrEnum):
    """The words of a watch."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Change(msgspec.Struct, frozen=True, gc=False):
    """One step of one object. For DELETED, `new` is its last state with the revision of the deletion."""

    kind: ChangeKind
    revision: int
    new: Stored
    old: Stored | None


class Bookmark(msgspec.Struct, frozen=True, gc=False):
    """The watcher has seen every change up to this revision."""

    revision: int


class Page(msgspec.Struct, frozen=True):
    """A part of a list, all of it as it was at `revision`, ordered by `namespace/name` as bytes.

    `next` is the `after` of the next page, "" at the end; ask for it with `at=revision`. `remaining` is what follows.
    """

    revision: int
    items: tuple[Stored, ...]
    next: str
    remaining: int


class Index(msgspec.Struct, frozen=True):
    """Finds the objects of a resource, or of all of them (""), by values taken from them: `Transaction.indexed(name, value)`.

    `values` is called once for each new state of an object and, in another thread, for all of them at start. It must not
    raise.
    """

    name: str
    resource: str
    values: Callable[[Stored], Iterable[str]]


class Expired(ConflictError):  # noqa: N818  # the word of the API
    """410: the revision is older than the history that is kept, or a watcher was too slow. List again."""


class RevisionTooLargeError(UnavailableError):
    """504 with the cause ResourceVersionTooLarge: this revision was not given yet; `current` is the newest."""

    def __init__(self, asked: int, current: int) -> None:
        super().__init__(f"Too large resource version: {asked}, current: {current}", retry_after=1.0)
        self.asked = asked
        self.current = current


class Lookup(Protocol):
    """Single objects: the durable ones of a store, or the newest ones inside a transaction."""

    def get(self, key: Key) -> Stored | None:
        """The object, or None."""
        ...

    def indexed(self, name: str, value: str) -> tuple[Stored, ...]:
        """The objects for which the index of that name gives this value, ordered by resource and `namespace/name`."""
        ...


class Feed(Protocol):
    """A place in the history, for one who must not wait in a task. It holds no memory for what was not taken."""

    @property
    def seen(self) -> int:
        """Everything up to this revision was taken."""
        ...

    @property
    def has_ended(self) -> bool:
        """The store stops: nothing more will come."""
        ...

    def take(self) -> Sequence[Change | Bookmark]:
        """Some of what is there, in order; nothing where all was taken. Expired where the history went on without us."""
        ...


class Transaction(Protocol):
    """What a decision sees and does. It is of use until `decide` returns; after that every call is refused.

    It sees the newest state: its own changes, and those of transactions that are decided but not durable yet.
    """

    @property
    def revision(self) -> int:
        """The revision that the next `put` or `delete` gets: each changed object takes one."""
        ...

    def get(self, key: Key) -> Stored | None:
        """The object, or None."""
        ...

    def list(self, resource: str, namespace: str = "") -> tuple[Stored, ...]:
        """All objects of a resource, or those of one namespace, ordered by `namespace/name`."""
        ...

    def indexed(self, name: str, value: str) -> tuple[Stored, ...]:
        """The objects for which the index of that name gives this value, ordered by resource and `namespace/name`."""
        ...

    def put(self, key: Key, uid: str, document: dict[str, Any]) -> Stored:
        """Create or replace. The document itself is left alone; what is stored has the new resourceVersion."""
        ...

    def delete(self, key: Key) -> Stored:
        """Remove; gives the last state with the revision of the deletion. InvariantError where there is nothing."""
        ...


class Store(Protocol):
    """All objects. Used from one event loop; `get`, `list` and `watch` see only what is durable."""

    @property
    def revision(self) -> int:
        """The newest durable revision; 1 for a store that was never written to."""
        ...

    async def write(self, decide: Callable[[Transaction], T]) -> T:
        """Decide now, return when it is durable. Decisions are taken one after the other, in the order of the calls.

        `decide` is sync and has no effect but through the transaction; an error it raises drops its changes only and
        is raised here, once what it saw is durable. UnavailableError or HardwareError: the disk is full or refused,
        nothing of it is stored, and the next write tries anew. UnavailableError also where too much waits for the
        disk, and where the store stops before the disk answered: then it is stored or not, as a whole. Whoever stops
        waiting does not undo it.
        """
        ...

    def get(self, key: Key) -> Stored | None:
        """The object, or None."""
        ...

    def list(
        self, resource: str, namespace: str = "", after: str = "", limit: int = 0, at: int | None = None
    ) -> Page:
        """A page of a resource, or of one namespace, as it is now or was `at` a revision; `limit` 0: all of it.

        Expired where `at` is too old; RevisionTooLargeError where it was not given yet.
        """
        ...

    def watch(
        self, resource: str, namespace: str = "", since: int | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[Change | Bookmark]]:
        """Every change after `since` (None: after now) in order, and a bookmark from time to time.

        Entering raises Expired or RevisionTooLargeError; iterating raises Expired when the reader fell too far behind, and
        ends when the store stops. Nothing is missed between `list` and `watch(since=page.revision)`.
        """
        ...


class LiveStore(Store, Lookup, Protocol):
    """The store itself, not a view of it."""

    def follow(
        self, resource: str, namespace: str, since: int | None, notify: Callable[[], None]
    ) -> AbstractContextManager[Feed]:
        """As `watch`, for callers that are told: `notify` is called when there may be more to take, or the end came.

        It is called from within the store, so it only makes a note. Entering raises what entering `watch` raises.
        """
        ...
