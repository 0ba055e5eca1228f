"""Nobody hears of a change before it is durable, and a commit that fails undoes exactly what was not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path

import pytest

from dray.apiserver.store.contract import Transaction
from dray.apiserver.store.sqlite import SqliteStore
from dray.errors import ConflictError, Error, HardwareError, NotFoundError, UnavailableError
from dray.runtime.clock import FakeClock, settle
from tests.apiserver.store.stores import Gate, delete, document, key, put, store_at, until_bookmark, value_of
from tests.waiting import wait_until

A, B, C = key("a"), key("b"), key("c")


async def reached(gate: Gate) -> None:
    """The writer thread stands at COMMIT, and the loop has come to rest."""
    await wait_until(gate.reached.is_set)
    await settle()


async def outcome(write: Awaitable[object]) -> object:
    try:
        return await write
    except Error as error:
        return error


async def test_the_disk_is_asked_for_a_sync_at_every_commit(tmp_path: Path) -> None:
    gate = Gate()
    async with store_at(tmp_path / "s", gate=gate) as store:
        await store.write(put(A))
        await store.write(put(B))
    assert gate.levels == {(2, "wal")}, "synchronous=FULL: COMMIT returns after the sync of the log"


async def test_no_answer_no_reader_and_no_watcher_before_the_commit(tmp_path: Path) -> None:
    gate, clock = Gate(), FakeClock()
    async with store_at(tmp_path / "s", clock, gate) as store, asyncio.TaskGroup() as group:
        await store.write(put(A, 1))
        async with store.watch("pods") as watch:
            gate.hold()
            writes = [group.create_task(store.write(put(A, 2)))]
            await reached(gate)
            writes.append(group.create_task(store.write(put(B, 1))))
            seen = await store_view(store)
            changes, bookmark = await until_bookmark(watch, clock)
            assert not any(write.done() for write in writes)
            assert seen == {"revision": 2, "a": 1, "b": None, "list": [1]}
            assert (changes, bookmark.revision) == ([], 2)
            gate.release()
            await asyncio.wait(writes, timeout=60)
            assert await store_view(store) == {"revision": 4, "a": 2, "b": 1, "list": [2, 1]}
            changes, bookmark = await until_bookmark(watch, clock)
            assert ([c.revision for c in changes], bookmark.revision) == ([3, 4], 4)


async def store_view(store: SqliteStore) -> dict[str, object]:
    await settle()
    listed = [value_of(item) for item in store.list("pods").items]
    return {
        "revision": store.revision,
        "a": value_of(store.get(A)),
        "b": value_of(store.get(B)),
        "list": listed,
    }


async def test_a_refusal_waits_for_what_it_rests_on(tmp_path: Path) -> None:
    """Else a client hears "exists already" of an object that then never existed."""

    def create(transaction: Transaction) -> None:
        if transaction.get(A) is not None:
            raise ConflictError("exists already")
        transaction.put(A, "u", document(A))

    gate = Gate()
    async with store_at(tmp_path / "s", gate=gate) as store, asyncio.TaskGroup() as group:
        gate.hold()
        first = group.create_task(outcome(store.write(create)))
        await reached(gate)
        second = group.create_task(outcome(store.write(create)))
        await settle()
        assert not second.done()
        gate.fail_before = "SQLITE_IOERR_WRITE"
        gate.release()
        assert isinstance(await first, HardwareError)
        assert isinstance(await second, HardwareError)
        gate.fail_before = ""
        assert await outcome(store.write(create)) is None
        assert str(await outcome(store.write(create))) == "exists already"


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("SQLITE_FULL", UnavailableError, "the disk is full"),
        ("SQLITE_IOERR_FSYNC", HardwareError, "kernel log"),
        ("SQLITE_CORRUPT", HardwareError, "is damaged"),
        ("SQLITE_READONLY_DBMOVED", HardwareError, "mount options"),
    ],
)
@pytest.mark.parametrize("when", ["fail_before", "fail_after"])
async def test_a_failed_commit_undoes_its_group_and_what_came_after(
    tmp_path: Path, when: str, name: str, kind: type[Error], text: str
) -> None:
    """`fail_after`: the sync failed though all was written; it must not come back after a kill."""
    gate, clock = Gate(), FakeClock()
    async with store_at(tmp_path / "s", clock, gate) as store, asyncio.TaskGroup() as group:
        await store.write(put(A, "kept"))
        async with store.watch("pods") as watch:
            gate.hold()
            writes = [group.create_task(outcome(store.write(put(A, "lost"))))]
            await reached(gate)
            writes.append(group.create_task(outcome(store.write(delete(A)))))
            writes.append(group.create_task(outcome(store.write(put(B, "lost")))))
            await settle()
            setattr(gate, when, name)
            gate.release()
            errors = [await write for write in writes]
            assert all(isinstance(error, kind) and text in str(error) for error in errors), errors
            assert str(tmp_path) in str(errors[0])
            assert len({id(error) for error in errors}) == 3
            setattr(gate, when, "")
            assert (value_of(store.get(A)), store.get(B), store.revision) == ("kept", None, 2)
            assert await store.write(lambda t: value_of(t.get(A))) == "kept"
            stored = await store.write(put(C, "after"))
            assert stored.revision == 6, "3, 4 and 5 were given and are not given again"
            changes, _ = await until_bookmark(watch, clock)
            assert [(change.new.key.name, change.revision) for change in changes] == [("c", 6)]
    async with store_at(tmp_path / "s") as store:
        assert [value_of(item) for item in store.list("pods").items] == ["kept", "after"]


async def test_a_commit_that_fails_late_is_gone_even_when_nothing_follows(tmp_path: Path) -> None:
    """And its revision is not given again: what is written over it has the counter."""
    gate = Gate()
    async with store_at(tmp_path / "s", gate=gate) as store:
        await store.write(put(A))
        gate.fail_once_after = "SQLITE_IOERR_FSYNC"
        with pytest.raises(HardwareError):
            await store.write(put(B))
    async with store_at(tmp_path / "s") as store:
        assert (store.get(B), store.revision) == (None, 3)
        assert (await store.write(put(C))).revision == 4


async def test_many_writers_share_few_commits(tmp_path: Path) -> None:
    gate = Gate()
    async with store_at(tmp_path / "s", gate=gate) as store:

        def count(transaction: Transaction) -> int:
            stored = transaction.get(A)
            value = 1 if stored is None else int(value_of(stored)) + 1
            return int(value_of(transaction.put(A, "u", document(A, value))))

        async with asyncio.TaskGroup() as group:
            writers = [group.create_task(store.write(count)) for _ in range(1000)]
        assert sorted(writer.result() for writer in writers) == list(range(1, 1001)), "one after the other"
        assert store.revision == 1001
        assert store.commits == gate.commits < 20


async def test_a_writer_that_went_away_undoes_nothing(tmp_path: Path) -> None:
    gate = Gate()
    async with store_at(tmp_path / "s", gate=gate) as store, asyncio.TaskGroup() as group:
        gate.hold()
        write = group.create_task(store.write(put(A, 1)))
        await reached(gate)
        other = group.create_task(store.write(put(B, 1)))
        await settle()
        write.cancel()
        await settle()
        gate.release()
        await other
        assert write.cancelled()
        assert value_of(store.get(A)) == 1


async def test_a_failed_commit_is_told_to_those_who_still_wait(tmp_path: Path) -> None:
    gate = Gate()
    async with store_at(tmp_path / "s", gate=gate) as store, asyncio.TaskGroup() as group:
        gate.hold()
        gone = group.create_task(store.write(put(A, 1)))
        await reached(gate)
        other = group.create_task(outcome(store.write(put(B, 1))))
        await settle()
        gone.cancel()
        await settle()
        gate.fail_before = "SQLITE_FULL"
        gate.release()
        assert isinstance(await other, UnavailableError)
        assert gone.cancelled()
        gate.fail_before = ""
        assert (store.get(A), store.get(B)) == (None, None)
        assert value_of(await store.write(put(A, 2))) == 2


async def test_reading_in_a_transaction_waits_for_nothing_when_all_is_durable(tmp_path: Path) -> None:
    gate = Gate()
    async with store_at(tmp_path / "s", gate=gate) as store:
        await store.write(put(A, 1))
        commits = gate.commits
        gate.hold()
        assert await store.write(lambda t: len(t.list("pods"))) == 1
        with pytest.raises(NotFoundError):
            await store.write(_not_found)
        assert gate.commits == commits
        gate.release()


def _not_found(transaction: Transaction) -> None:
    raise NotFoundError("no")


async def test_a_bug_ends_the_store_and_leaves_nobody_waiting(tmp_path: Path) -> None:
    """The process is to end: whoever uses the store gets the error, and writers are told that it stops."""
    gate = Gate()
    answers: list[object] = []
    with pytest.raises(ZeroDivisionError, match="a bug"):
        async with store_at(tmp_path / "s", gate=gate) as store:
            await store.write(put(A, 1))
            gate.has_bug = True
            async with asyncio.TaskGroup() as group:
                write = group.create_task(outcome(store.write(put(B, 1))))
                answers += [await write, await outcome(store.write(put(C, 1)))]
                await asyncio.sleep(60)
    assert ["the store stops" in str(answer) for answer in answers] == [True, True]
    gate.has_bug = False
    async with store_at(tmp_path / "s") as store:
        assert (value_of(store.get(A)), store.get(B)) == (1, None)


async def test_what_waits_is_counted_in_bytes_until_it_is_stored_or_refused(tmp_path: Path) -> None:
    gate = Gate()
    async with store_at(tmp_path / "s", gate=gate) as store, asyncio.TaskGroup() as group:
        groups = store._groups
        assert groups.bytes == 0
        for failure in ("", "SQLITE_IOERR_WRITE"):
            gate.fail_before = failure
            gate.hold()
            write = group.create_task(outcome(store.write(put(A))))
            await reached(gate)
            assert groups.bytes > 0
            gate.release()
            assert isinstance(await write, Error) == bool(failure)
            assert groups.bytes == 0
