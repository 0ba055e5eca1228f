"""`open_store`: the store on one SQLite file. All objects are in memory; the file is what survives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from dray.apiserver.store.contract import (
    Bookmark,
    Change,
    ChangeKind,
    Index,
    Key,
    Page,
    RevisionTooLargeError,
    Stored,
    Transaction,
)
from dray.apiserver.store.groups import Groups
from dray.apiserver.store.history import History
from dray.apiserver.store.journal import Connect, Journal, connect
from dray.apiserver.store.memory import Indexes, Layer, Objects, Step, in_order
from dray.apiserver.store.paging import newest_page, older_page
from dray.apiserver.store.transaction import Counter, OpenTransaction
from dray.apiserver.store.watching import HistoryFeed, Watcher, Watchers
from dray.apiserver.store.worker import Worker
from dray.errors import Error, UnavailableError
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.files.durable import make_directory
from dray.runtime.files.filelock import FileLock
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.logs import get_log
from dray.runtime.tasks import running

T = TypeVar("T")

_log = get_log("apiserver.store.sqlite")


class StoreConfig(msgspec.Struct, frozen=True):
    """Bounds. A watch from before the history, or too slow for it, has to list again."""

    history_changes: int = 20_000
    history_bytes: int = 64 << 20
    most_waiting: int = 20_000
    """Decisions that wait for the disk; further ones are refused until it has caught up."""
    most_waiting_bytes: int = 256 << 20
    bookmark_seconds: float = 60.0
    stop_seconds: float = 10.0
    """How long the disk gets to answer when the store stops; then it is left behind."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What the log told."""

    objects: Objects
    history: History


class SqliteStore:
    """The `Store`; made by `open_store`."""

    def __init__(self, config: StoreConfig, journal: Journal, worker: Worker, loaded: Loaded) -> None:
        self._config = config
        self._objects = loaded.objects
        self._history = loaded.history
        self._counter = Counter(journal.given)
        self._durable = journal.given
        self._watchers = Watchers()
        self._stopping = False
        self._groups = Groups(journal, worker, Layer(loaded.objects), loaded.history, self._counter)

    @property
    def revision(self) -> int:
        """The newest durable revision."""
        return self._durable

    @property
    def commits(self) -> int:
        """How many groups were committed since the start."""
        return self._groups.commits

    @property
    def watchers(self) -> int:
        """How many watches there are."""
        return len(self._watchers)

    async def write(self, decide: Callable[[Transaction], T]) -> T:
        """Decide now, return when it is durable."""
        self._check_room()
        transaction = OpenTransaction(self._groups.decided, self._counter, self._objects.indexes)
        try:
            result = decide(transaction)
        except Error:
            # The refusal may rest on something that is not durable: it is told when that is.
            if self._groups.waiting:
                await self._groups.add(())
            raise
        finally:
            transaction.close()
        if transaction.steps or self._groups.waiting:
            await self._groups.add(transaction.steps)
        return result

    def get(self, key: Key) -> Stored | None:
        """The object, or None."""
        return self._objects.get(key)

    def list(
        self, resource: str, namespace: str = "", after: str = "", limit: int = 0, at: int | None = None
    ) -> Page:
        """A page of now, or of a revision."""
        shelf = self._objects.shelf(resource)
        if at is None or at == self._durable:
            return newest_page(shelf, self._durable, namespace, after, limit)
        self._check_given(at)
        return older_page(shelf, self._history.before(resource, at), at, namespace, after, limit)

    def indexed(self, name: str, value: str) -> tuple[Stored, ...]:
        """The objects with that entry, in order."""
        return in_order(self._objects.indexed(name, value))

    @asynccontextmanager
    async def watch(
        self, resource: str, namespace: str = "", since: int | None = None
    ) -> AsyncIterator[AsyncIterator[Change | Bookmark]]:
        """The changes after a revision, and bookmarks."""
        start = self._start_of(resource, since)
        watcher = Watcher(self._history, resource, namespace, start)
        with self._watchers.with_one(watcher.feed):
            yield watcher

    @contextmanager
    def follow(
        self, resource: str, namespace: str, since: int | None, notify: Callable[[], None]
    ) -> Iterator[HistoryFeed]:
        """The same, for who is told."""
        start = self._start_of(resource, since)
        feed = HistoryFeed(self._history, resource, namespace, start, notify)
        with self._watchers.with_one(feed):
            yield feed

    async def commit(self) -> None:
        """Make decisions durable; runs as long as the store."""
        await self._groups.run(self._settle)

    async def remind(self, clock: Clock) -> None:
        """Have every watcher give a bookmark from time to time; runs as long as the store."""
        while True:
            await clock.sleep(self._config.bookmark_seconds)
            self._watchers.remind(self._durable)

    async def stop(self) -> None:
        """Take no more writes, wait for those that were decided, end the watches."""
        self._stopping = True
        await self._groups.wait_empty(self._config.stop_seconds)
        self._watchers.end()

    def _settle(self, steps: Sequence[Step]) -> None:
        """A group is durable: from here on everyone sees it."""
        for step in steps:
            self._objects.apply(step)
            self._history.append(step.change)
            self._durable = step.change.revision
        for resource in sorted({step.change.new.key.resource for step in steps}):
            self._watchers.wake(resource, self._durable)

    def _start_of(self, resource: str, since: int | None) -> int:
        """Where a watch begins, after a look whether it can."""
        if self._stopping:
            raise UnavailableError("the store stops", retry_after=1.0)
        start = self._durable if since is None else since
        self._check_given(start)
        self._history.after(resource, start, 1)
        return start

    def _check_given(self, revision: int) -> None:
        if revision > self._durable:
            raise RevisionTooLargeError(revision, self._durable)

    def _check_room(self) -> None:
        if self._stopping:
            raise UnavailableError("the store stops", retry_after=1.0)
        groups, config = self._groups, self._config
        if groups.waiting >= config.most_waiting or groups.bytes >= config.most_waiting_bytes:
            raise UnavailableError(
                f"{groups.waiting} writes wait for the disk: try again later", retry_after=1.0
            )


@asynccontextmanager
async def open_store(
    path: Path,
    *,
    config: StoreConfig | None = None,
    indexes: Iterable[Index] = (),
    clock: Clock | None = None,
    connect: Connect = connect,
) -> AsyncIterator[SqliteStore]:
    """The store in the file `path`, which is created with its directory where it is missing; one process at a time.

    ConflictError: another process has it. InvalidError: it is another program's, or of a newer Dray. HardwareError: it
    is damaged or cannot be read. `connect` opens the database, for tests that stand between us and the disk.
    """
    config = config or StoreConfig()
    lock = _locked(path)
    journal = Journal(path, connect)
    worker = Worker(f"store {path.name}", last=journal.close)
    worker.start()
    try:
        loaded = await worker.submit(partial(_load, journal, config, tuple(indexes)))
        store = SqliteStore(config, journal, worker, loaded)
        async with (
            running(store.commit(), name="store commits"),
            running(store.remind(clock or SystemClock()), name="store bookmarks"),
        ):
            try:
                yield store
            finally:
                await store.stop()
    finally:
        if await worker.stop(config.stop_seconds):
            lock.release()
        else:  # it may still write, so nobody else may: the lock goes with the process
            _log.error("disk does not answer, store left behind", path=str(path))


def _locked(path: Path) -> FileLock:
    try:
        make_directory(path.parent)
    except OSError as error:
        raise from_os_error(error, "make the directory", str(path.parent)) from error
    lock = FileLock(path.with_name(f"{path.name}.lock"))
    lock.acquire()
    return lock


def _load(journal: Journal, config: StoreConfig, indexes: Sequence[Index]) -> Loaded:
    journal.open()
    objects = Objects(Indexes(indexes))
    history = History(journal.floor, config.history_changes, config.history_bytes)
    for kind, new in journal.rows():
        old = objects.get(new.key)
        if kind is ChangeKind.DELETED and old is None:
            raise journal.damaged(f"row {new.revision} removes what is not there")
        terms = () if kind is ChangeKind.DELETED else objects.indexes.terms(new)
        change = Change(kind, new.revision, new, old)
        objects.apply(Step(change, terms))
        if new.revision > journal.floor:
            history.append(change)
    return Loaded(objects, history)
