"""Watches: every change once and in order, bookmarks, and the ends of the history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dray.apiserver.store.contract import Bookmark, Change, ChangeKind, Expired, RevisionTooLargeError
from dray.apiserver.store.sqlite import SqliteStore
from dray.errors import UnavailableError
from dray.runtime.clock import FakeClock
from tests.apiserver.store.stores import delete, key, put, store_at, until_bookmark, value_of


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[SqliteStore]:
    async with store_at(tmp_path / "s", clock, history_changes=10) as opened:
        yield opened


async def test_a_watcher_gets_what_comes_while_it_waits(store: SqliteStore) -> None:
    async with store.watch("pods", "ns") as watch, asyncio.TaskGroup() as group:
        reading = group.create_task(_take(watch, 3))
        await store.write(put(key("a"), 1))
        await store.write(put(key("x", "other"), 1))
        await store.write(put(key("x", "ns", "nodes"), 1))
        await store.write(put(key("a"), 2))
        await store.write(delete(key("a")))
        changes = await reading
    assert [(c.kind, c.revision, value_of(c.new), value_of(c.old)) for c in changes] == [
        (ChangeKind.ADDED, 2, 1, None),
        (ChangeKind.MODIFIED, 5, 2, 1),
        (ChangeKind.DELETED, 6, 2, 2),
    ]
    assert store.watchers == 0


async def _take(watch: AsyncIterator[Change | Bookmark], count: int) -> list[Change]:
    changes: list[Change] = []
    while len(changes) < count:
        item = await anext(watch)
        assert isinstance(item, Change)
        changes.append(item)
    return changes


async def test_a_watch_goes_on_where_a_list_ended(store: SqliteStore, clock: FakeClock) -> None:
    await store.write(put(key("a")))
    page = store.list("pods")
    await store.write(put(key("b")))
    async with store.watch("pods", since=page.revision) as watch:
        changes, bookmark = await until_bookmark(watch, clock)
    assert ([c.new.key.name for c in changes], bookmark.revision) == (["b"], 3)


async def test_a_bookmark_of_a_quiet_resource_moves_on(store: SqliteStore, clock: FakeClock) -> None:
    async with store.watch("nodes") as watch:
        for number in range(30):
            await store.write(put(key("a"), number))
        changes, bookmark = await until_bookmark(watch, clock)
        assert (changes, bookmark.revision) == ([], 31)
        await store.write(put(key("n", "", "nodes")))
        changes, bookmark = await until_bookmark(watch, clock)
        assert ([c.revision for c in changes], bookmark.revision) == ([32], 32)


async def test_a_slow_watcher_is_cut_off(store: SqliteStore) -> None:
    async with store.watch("pods") as watch:
        for number in range(11):
            await store.write(put(key("a"), number))
        with pytest.raises(Expired, match=r"too old resource version: 1 \(2\)"):
            await anext(watch)


async def test_a_watch_from_before_the_history_is_refused(store: SqliteStore, clock: FakeClock) -> None:
    for number in range(11):
        await store.write(put(key("a"), number))
    with pytest.raises(Expired):
        async with store.watch("pods", since=1):
            pass
    async with store.watch("pods", since=2) as watch:
        assert len((await until_bookmark(watch, clock))[0]) == 10
    with pytest.raises(Expired):
        store.list("pods", at=1)
    assert [value_of(item) for item in store.list("pods", at=2).items] == [0]


async def test_the_history_is_bounded_by_bytes_too(tmp_path: Path) -> None:
    async with store_at(tmp_path / "b", history_bytes=100_000) as store:
        await store.write(put(key("a"), "x" * 60_000))
        await store.write(put(key("a"), "y" * 10))
        await store.write(put(key("b"), "y" * 10))
        with pytest.raises(Expired):
            store.list("pods", at=1)
        assert len(store.list("pods", at=2).items) == 1
        await store.write(put(key("huge"), "z" * 200_000))
        with pytest.raises(Expired):
            store.list("pods", at=4)
        assert len(store.list("pods").items) == 3


async def test_a_revision_of_the_future_is_refused(store: SqliteStore) -> None:
    with pytest.raises(RevisionTooLargeError, match=r"^Too large resource version: 7, current: 1$"):
        async with store.watch("pods", since=7):
            pass
    with pytest.raises(RevisionTooLargeError):
        store.list("pods", at=2)


async def test_many_watchers_see_the_same(store: SqliteStore) -> None:
    async with asyncio.TaskGroup() as group:
        reading = [group.create_task(_watch(store, 5)) for _ in range(300)]
        await asyncio.sleep(0)
        for number in range(5):
            await store.write(put(key("a"), number))
    assert {tuple(task.result()) for task in reading} == {(2, 3, 4, 5, 6)}


async def _watch(store: SqliteStore, count: int) -> list[int]:
    async with store.watch("pods") as watch:
        return [change.revision for change in await _take(watch, count)]


async def test_a_restart_keeps_what_the_table_has(tmp_path: Path, clock: FakeClock) -> None:
    async with store_at(tmp_path / "r", history_changes=4) as store:
        for number in range(10):
            await store.write(put(key("a"), number))
        await store.write(delete(key("a")))
    async with store_at(tmp_path / "r", clock, history_changes=100) as store:
        with pytest.raises(Expired):
            async with store.watch("pods", since=6):
                pass
        async with store.watch("pods", since=8) as watch:
            changes, _ = await until_bookmark(watch, clock)
        assert [(c.revision, value_of(c.old)) for c in changes] == [(9, 6), (10, 7), (11, 8), (12, 9)]


async def test_a_feed_tells_and_is_taken_from(store: SqliteStore, clock: FakeClock) -> None:
    told: list[int] = []
    with store.follow("pods", "ns", None, lambda: told.append(store.revision)) as feed:
        assert (feed.seen, feed.take(), told) == (1, (), [])
        await store.write(put(key("a"), 1))
        await store.write(put(key("x", "other"), 1))
        await store.write(put(key("x", "ns", "nodes"), 1))
        assert told == [2, 3]
        assert [(c.revision) for c in feed.take()] == [2]
        assert (feed.take(), feed.seen) == ((), 3)
        await clock.advance(60)
        assert (feed.take(), feed.take()) == ((Bookmark(4),), ())
    assert store.watchers == 0
    await store.write(put(key("a"), 2))
    assert len(told) == 3


async def test_a_feed_that_is_left_behind_and_one_that_ends(store: SqliteStore) -> None:
    told: list[bool] = []
    with store.follow("pods", "", None, lambda: told.append(feed.has_ended)) as feed:
        for number in range(12):
            await store.write(put(key("a"), number))
        with pytest.raises(Expired):
            feed.take()
        await store.stop()
        assert feed.has_ended and told == [*[False] * 12, True]
    with pytest.raises(UnavailableError), store.follow("pods", "", None, lambda: None):
        pass


async def test_a_feed_begins_where_a_watch_may(store: SqliteStore) -> None:
    with pytest.raises(RevisionTooLargeError), store.follow("pods", "", 5, lambda: None):
        pass
    for number in range(12):
        await store.write(put(key("a"), number))
    with pytest.raises(Expired), store.follow("pods", "", 1, lambda: None):
        pass
