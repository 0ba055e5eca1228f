"""Random lives of a store beside a list of what happened: states, pages, watches, failures and restarts agree."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from dray.apiserver.store.contract import (
    Bookmark,
    Change,
    ChangeKind,
    Expired,
    Key,
    Transaction,
)
from dray.apiserver.store.sqlite import SqliteStore
from dray.errors import Error, HardwareError, NotFoundError
from dray.runtime.clock import FakeClock
from tests.apiserver.store.stores import Gate, document, memory_directory, store_at, until_bookmark, value_of
from tests.campaign import campaign

WINDOW = 12
RESOURCES, NAMESPACES = ("pods", "claims.x"), ("a", "a-b", "b")
Keys = st.builds(Key, st.sampled_from(RESOURCES), st.sampled_from(NAMESPACES), st.sampled_from("xyz"))
Work = st.lists(st.tuples(Keys, st.booleans()), max_size=4)
Where = st.tuples(st.sampled_from(RESOURCES), st.sampled_from(("", *NAMESPACES)))


@dataclass(frozen=True)
class Happened:
    """One durable change: `value` is None for a removal."""

    revision: int
    key: Key
    value: int | None
    before: int | None

    @property
    def kind(self) -> ChangeKind:
        if self.value is None:
            return ChangeKind.DELETED
        return ChangeKind.ADDED if self.before is None else ChangeKind.MODIFIED


@dataclass
class Open:
    """A watch that is read now and then."""

    watch: AsyncIterator[Change | Bookmark]
    leave: AsyncExitStack
    resource: str
    namespace: str
    seen: int


class Life(RuleBasedStateMachine):
    """A store, its restarts, and what must be in it."""

    @initialize()
    def begin(self) -> None:
        self.directory = memory_directory()
        self.runner = asyncio.Runner()
        self.log: list[Happened] = []
        self.newest = 1
        self.given = 1
        self.count = 0
        self.watches: list[Open] = []
        self.runner.run(self._open())

    async def _open(self) -> None:
        self.stack = AsyncExitStack()
        self.gate, self.clock = Gate(), FakeClock()
        self.store: SqliteStore = await self.stack.enter_async_context(
            store_at(Path(self.directory.name) / "s", self.clock, self.gate, history_changes=WINDOW)
        )

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.runner.run(self._close())
            self.runner.close()
            self.directory.cleanup()

    async def _close(self) -> None:
        for watch in self.watches:
            await watch.leave.aclose()
        self.watches = []
        await self.stack.aclose()

    # What is done.

    def _decide(
        self, work: list[tuple[Key, bool]], abort: bool
    ) -> Callable[[Transaction], tuple[list[Happened], int]]:
        """Does the work, and says what it did; `self.given` follows what was given even where it is dropped."""

        def decide(transaction: Transaction) -> tuple[list[Happened], int]:
            done: list[Happened] = []
            for key, removes in work:
                before = value_of(transaction.get(key))
                assert transaction.revision > self.given
                self.given = transaction.revision
                if removes and before is not None:
                    stored = transaction.delete(key)
                    done.append(Happened(stored.revision, key, None, before))
                elif not removes:
                    self.count += 1
                    stored = transaction.put(key, "u", document(key, self.count))
                    done.append(Happened(stored.revision, key, self.count, before))
                else:
                    self.given -= 1
            if abort:
                raise NotFoundError("aborted")
            return done, len(transaction.list("pods"))

        return decide

    @rule(works=st.lists(st.tuples(Work, st.integers(0, 4)), min_size=1, max_size=5))
    def write_at_once(self, works: list[tuple[list[tuple[Key, bool]], int]]) -> None:
        results = self.runner.run(self._write(works))
        for (_, abort), result in zip(works, results, strict=True):
            assert isinstance(result, NotFoundError) if abort == 0 else not isinstance(result, Error)
            if isinstance(result, tuple):
                self._take(result[0])

    def _take(self, done: list[Happened]) -> None:
        for happened in done:
            assert happened.before == self._state(None).get(happened.key)
            assert happened.revision > self.newest
            self.log.append(happened)
            self.newest = happened.revision

    async def _write(self, works: list[tuple[list[tuple[Key, bool]], int]]) -> list[Any]:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._outcome(self._decide(work, abort == 0))) for work, abort in works
            ]
        return [task.result() for task in tasks]

    async def _outcome(self, decide: Callable[[Transaction], Any]) -> Any:
        try:
            return await self.store.write(decide)
        except Error as error:
            return error

    @rule(works=st.lists(st.tuples(Work, st.just(1)), min_size=1, max_size=4), late=st.booleans())
    def fail(self, works: list[tuple[list[tuple[Key, bool]], int]], late: bool) -> None:
        """The disk refuses every commit: none of it has happened."""
        name = "fail_after" if late else "fail_before"
        setattr(self.gate, name, "SQLITE_IOERR_FSYNC")
        results = self.runner.run(self._write(works))
        setattr(self.gate, name, "")
        for result in results:
            assert isinstance(result, HardwareError) or result[0] == []

    @rule()
    def restart(self) -> None:
        self.runner.run(self._close())
        self.runner.run(self._open())
        assert self.newest <= self.store.revision <= self.given
        self.newest = self.store.revision
        self.given = (
            self.store.revision
        )  # what was only given to transactions that were dropped is not remembered

    # What must be seen.

    def _state(self, at: int | None) -> dict[Key, int]:
        state: dict[Key, int] = {}
        for happened in self.log:
            if at is not None and happened.revision > at:
                break
            if happened.value is None:
                del state[happened.key]
            else:
                state[happened.key] = happened.value
        return state

    def _after(self, since: int, resource: str) -> list[Happened]:
        return [h for h in self.log if h.revision > since and h.key.resource == resource]

    def _check_expired(self, since: int, resource: str) -> None:
        """Allowed only where the window has moved on: something of the resource is lost that was asked for."""
        assert len([h for h in self.log if h.revision > since]) > WINDOW
        assert self._after(since, resource)

    @invariant()
    def the_newest_state_is_right(self) -> None:
        if hasattr(self, "store"):
            assert self.store.revision == self.newest
            state = self._state(None)
            for resource in RESOURCES:
                page = self.store.list(resource)
                assert {s.key: value_of(s) for s in page.items} == {
                    key: value for key, value in state.items() if key.resource == resource
                }
                assert all(self.store.get(s.key) is s for s in page.items)

    @rule(where=Where, back=st.integers(0, 20), limit=st.integers(0, 4))
    def read_in_pages(self, where: tuple[str, str], back: int, limit: int) -> None:
        (resource, namespace), at = where, max(self.newest - back, 1)
        expected = {k: v for k, v in self._state(at).items() if k.resource == resource}
        expected = {k: v for k, v in expected.items() if namespace in ("", k.namespace)}
        found: list[tuple[Key, int]] = []
        after = ""
        while True:
            try:
                page = self.store.list(resource, namespace, after, limit, at)
            except Expired:
                assert not found
                self._check_expired(at, resource)
                return
            assert page.revision == at
            assert not limit or len(page.items) <= limit
            found += [(s.key, value_of(s)) for s in page.items]
            assert page.remaining == len(expected) - len(found)
            after = page.next
            if not after:
                break
        assert found == sorted(expected.items(), key=lambda item: f"{item[0].namespace}/{item[0].name}")
        assert len(self._after(at, resource)) <= WINDOW

    @rule(where=Where, back=st.integers(0, 20))
    def watch(self, where: tuple[str, str], back: int) -> None:
        since = max(self.newest - back, 1)
        leave = AsyncExitStack()
        entering = self.store.watch(*where, since)
        try:
            watch = self.runner.run(leave.enter_async_context(entering))
        except Expired:
            self._check_expired(since, where[0])
            return
        self.watches.append(Open(watch, leave, *where, since))

    @rule(data=st.data())
    def read_a_watch(self, data: st.DataObject) -> None:
        if not self.watches:
            return
        watch = data.draw(st.sampled_from(self.watches))
        try:
            changes, bookmark = self.runner.run(until_bookmark(watch.watch, self.clock))
        except Expired:
            self._check_expired(watch.seen, watch.resource)
            self.watches.remove(watch)
            self.runner.run(watch.leave.aclose())
            return
        expected = self._after(watch.seen, watch.resource)
        assert [(c.revision, c.kind, c.new.key, value_of(c.old)) for c in changes] == [
            (h.revision, h.kind, h.key, h.before)
            for h in expected
            if watch.namespace in ("", h.key.namespace)
        ]
        assert all(
            value_of(c.new) == (value_of(c.old) if c.kind is ChangeKind.DELETED else value_of(c.new))
            for c in changes
        )
        assert bookmark.revision == self.newest
        watch.seen = self.newest


TestLife = Life.TestCase
TestLife.settings = settings(
    max_examples=campaign(15, 400),
    stateful_step_count=campaign(25, 40),
    suppress_health_check=list(HealthCheck),
)
