"""The store as its users see it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dray.api.codec import loads
from dray.apiserver.store.contract import ChangeKind, Index, Key, Store, Stored, Transaction
from dray.apiserver.store.sqlite import SqliteStore, open_store
from dray.errors import ConflictError, Error, InvariantError, NotFoundError, UnavailableError
from dray.runtime.clock import FakeClock
from tests.apiserver.store.stores import (
    Gate,
    delete,
    document,
    key,
    put,
    store_at,
    until_bookmark,
    value_of,
)

A, B, C = key("a"), key("b"), key("c")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with store_at(tmp_path / "store.db") as opened:
        yield opened


def _keeps_the_contract(store: SqliteStore) -> Store:
    """For the type checker."""
    return store


async def test_an_object_comes_back_with_its_revision(store: SqliteStore) -> None:
    assert store.revision == 1
    stored = await store.write(put(A, "x"))
    assert (stored.revision, stored.uid, value_of(stored)) == (2, "uid", "x")
    assert store.get(A) is stored
    assert store.revision == 2
    assert store.get(B) is None


async def test_a_document_is_stored_as_it_is_and_left_alone(store: SqliteStore) -> None:
    given = {
        "kind": "Pod",
        "unknown": {"z": [1, 2.5, None]},
        "metadata": {"name": "a", "resourceVersion": "9"},
    }
    before = loads(
        b'{"kind":"Pod","unknown":{"z":[1,2.5,null]},"metadata":{"name":"a","resourceVersion":"9"}}'
    )
    stored = await store.write(lambda transaction: transaction.put(A, "u", given))
    assert given == before
    assert (
        stored.raw
        == b'{"kind":"Pod","unknown":{"z":[1,2.5,null]},"metadata":{"name":"a","resourceVersion":"2"}}'
    )


async def test_a_deleted_object_has_the_revision_of_the_deletion(store: SqliteStore) -> None:
    await store.write(put(A, "x"))
    gone = await store.write(delete(A))
    assert (gone.revision, value_of(gone)) == (3, "x")
    assert store.get(A) is None
    with pytest.raises(InvariantError, match="deleted but not there"):
        await store.write(delete(A))


async def test_a_transaction_sees_itself_and_what_is_decided(store: SqliteStore) -> None:
    def both(transaction: Transaction) -> list[object]:
        seen: list[object] = [transaction.revision, value_of(transaction.get(B))]
        transaction.put(A, "u", document(A, 1))
        transaction.delete(B)
        seen += [value_of(transaction.get(A)), transaction.get(B), transaction.revision]
        return [*seen, [s.key.name for s in transaction.list("pods", "ns")]]

    async with asyncio.TaskGroup() as group:
        group.create_task(store.write(put(B, "b")))
        second = group.create_task(store.write(both))
    assert second.result() == [3, "b", 1, None, 5, ["a"]]


async def test_an_error_drops_its_own_changes_only(store: SqliteStore) -> None:
    def fails(transaction: Transaction) -> None:
        transaction.put(A, "u", document(A))
        raise NotFoundError("no")

    with pytest.raises(NotFoundError):
        await store.write(fails)
    assert (store.get(A), store.revision) == (None, 1)
    taken = await store.write(put(B))
    assert taken.revision == 3, "a revision that somebody has seen is not given again"


async def test_a_transaction_is_closed_after_its_decision(store: SqliteStore) -> None:
    leaked = await store.write(lambda transaction: transaction)
    with pytest.raises(InvariantError, match="after its decision"):
        leaked.get(A)


async def test_names_that_would_break_the_order_are_refused(store: SqliteStore) -> None:
    with pytest.raises(InvariantError, match="not validated"):
        await store.write(put(key("a/b")))


async def test_lists_are_ordered_as_the_real_server_orders_them(store: SqliteStore) -> None:
    for namespace, name in (("b", "x"), ("a", "z"), ("a-b", "y"), ("a", "a"), ("", "node")):
        await store.write(put(key(name, namespace)))
    await store.write(put(key("other", "a", "nodes")))
    page = store.list("pods")
    assert [f"{s.key.namespace}/{s.key.name}" for s in page.items] == ["/node", "a-b/y", "a/a", "a/z", "b/x"]
    assert (page.next, page.remaining, page.revision) == ("", 0, store.revision)
    assert [s.key.name for s in store.list("pods", "a").items] == ["a", "z"]
    assert store.list("pods", "nobody").items == ()
    assert store.list("nothing").items == ()


async def test_pages_show_one_revision_whatever_happens_between(store: SqliteStore) -> None:
    for name in "bdfhj":
        await store.write(put(key(name), "old"))
    first = store.list("pods", limit=2)
    await store.write(delete(key("f")))
    await store.write(put(key("g"), "new"))
    await store.write(put(key("h"), "new"))
    second = store.list("pods", after=first.next, limit=2, at=first.revision)
    third = store.list("pods", after=second.next, limit=2, at=first.revision)
    assert [[s.key.name for s in page.items] for page in (first, second, third)] == [
        ["b", "d"],
        ["f", "h"],
        ["j"],
    ]
    assert {value_of(s) for page in (first, second, third) for s in page.items} == {"old"}
    assert [page.remaining for page in (first, second, third)] == [3, 1, 0]
    assert third.next == ""
    assert {page.revision for page in (first, second, third)} == {first.revision}


async def test_an_index_follows_every_state(tmp_path: Path) -> None:
    def devices(stored: Stored) -> list[str]:
        return [str(d) for d in loads(stored.raw)["value"]]

    index = Index("devices", "pods", devices)
    async with open_store(tmp_path / "s", indexes=[index]) as store:

        def decide(transaction: Transaction) -> list[list[str]]:
            def names(value: str) -> list[str]:
                return [s.key.name for s in transaction.indexed("devices", value)]

            before = names("d1")
            transaction.put(C, "u", document(C, ["d1"]))
            transaction.put(A, "u", document(A, ["d3"]))
            return [before, names("d1"), names("d2"), names("d3")]

        async with asyncio.TaskGroup() as group:
            group.create_task(store.write(put(A, ["d1", "d2", "d1"])))
            group.create_task(store.write(put(B, ["d1"])))
            last = group.create_task(store.write(decide))
        assert last.result() == [["a", "b"], ["b", "c"], [], ["a"]]
        await store.write(delete(B))
        assert await store.write(lambda t: [s.key.name for s in t.indexed("devices", "d1")]) == ["c"]
        with pytest.raises(InvariantError, match="no index"):
            await store.write(lambda t: t.indexed("owners", "x"))
    async with open_store(tmp_path / "s", indexes=[index]) as store:
        assert await store.write(lambda t: [s.key.name for s in t.indexed("devices", "d3")]) == ["a"]


async def test_an_index_of_all_resources_and_durable_lookups(tmp_path: Path) -> None:
    def words(stored: Stored) -> list[str]:
        return [str(loads(stored.raw)["value"])]

    gate, indexes = Gate(), [Index("word", "", words), Index("pod word", "pods", words)]
    node, other = key("b", "", "nodes"), key("a", "", "things")
    async with (
        open_store(tmp_path / "s", indexes=indexes, connect=gate.connect) as store,
        asyncio.TaskGroup() as group,
    ):
        for place in (other, B, A, node):
            await store.write(put(place, "x"))
        assert [s.key for s in store.indexed("word", "x")] == [node, A, B, other]
        assert [s.key for s in store.indexed("pod word", "x")] == [A, B]
        assert store.indexed("word", "y") == ()
        with pytest.raises(InvariantError, match="no index"):
            store.indexed("owners", "x")
        gate.is_on = True
        gate.hold()
        group.create_task(store.write(put(node, "y")))
        await asyncio.sleep(0)
        seen = group.create_task(store.write(lambda t: [s.key for s in t.indexed("word", "y")]))
        await asyncio.sleep(0)
        assert store.indexed("word", "y") == () and len(store.indexed("word", "x")) == 4
        gate.release()
        assert await seen == [node]
        assert [s.key for s in store.indexed("word", "y")] == [node]


async def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    clock = FakeClock()
    async with store_at(tmp_path / "d" / "store.db") as store:
        await store.write(put(A, 1))
        await store.write(put(B, 1))
        await store.write(put(A, 2))
        await store.write(delete(B))
    assert (tmp_path / "d" / "store.db").stat().st_mode & 0o777 == 0o600
    async with store_at(tmp_path / "d" / "store.db", clock) as store:
        assert (value_of(store.get(A)), store.get(B), store.revision) == (2, None, 5)
        async with store.watch("pods", since=1) as watch:
            changes, bookmark = await until_bookmark(watch, clock)
        assert [(c.kind, c.new.key.name, c.revision, value_of(c.old)) for c in changes] == [
            (ChangeKind.ADDED, "a", 2, None),
            (ChangeKind.ADDED, "b", 3, None),
            (ChangeKind.MODIFIED, "a", 4, 1),
            (ChangeKind.DELETED, "b", 5, 1),
        ]
        assert bookmark.revision == 5
        assert (await store.write(put(C))).revision == 6


async def test_one_process_at_a_time(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        with pytest.raises(ConflictError, match="is locked by"):
            async with store_at(tmp_path / "s"):
                pass
        await store.write(put(A))
    async with store_at(tmp_path / "s") as store:
        assert store.get(A) is not None


async def test_too_much_that_waits_is_refused(tmp_path: Path) -> None:
    gate = Gate()
    async with store_at(tmp_path / "s", gate=gate, most_waiting=2) as store, asyncio.TaskGroup() as group:
        gate.hold()
        writes = [group.create_task(store.write(put(place))) for place in (A, B)]
        await asyncio.sleep(0)
        with pytest.raises(UnavailableError, match="2 writes wait for the disk"):
            await store.write(put(C))
        gate.release()
        await asyncio.wait(writes, timeout=60)
        await store.write(put(C))


async def test_stopping_waits_for_the_decided_and_ends_watches(tmp_path: Path) -> None:
    async with asyncio.TaskGroup() as group:
        async with store_at(tmp_path / "s") as store:
            write = group.create_task(store.write(put(A)))
            async with store.watch("nodes") as watch:
                reading = group.create_task(_count(watch))
                await asyncio.sleep(0)
                await store.stop()
                assert await reading == 0
            with pytest.raises(UnavailableError, match="stops"):
                await store.write(put(B))
            with pytest.raises(UnavailableError, match="stops"):
                async with store.watch("pods"):
                    pass
        assert write.result().revision == 2
    async with store_at(tmp_path / "s") as store:
        assert store.get(A) is not None


async def test_a_disk_that_never_answers_does_not_hold_up_the_end(tmp_path: Path) -> None:
    gate = Gate()
    async with asyncio.TaskGroup() as group:
        async with store_at(tmp_path / "s", gate=gate, stop_seconds=0.05) as store:
            gate.hold()
            write = group.create_task(_failure(store.write(put(A))))
            await asyncio.to_thread(gate.reached.wait)
        assert "disk has not answered" in str(await write)
    with pytest.raises(ConflictError, match="this process itself"):
        async with store_at(tmp_path / "s"):
            pass
    gate.release()


async def _count(watch: AsyncIterator[object]) -> int:
    return len([item async for item in watch])


async def _failure(write: object) -> object:
    try:
        return await write  # type: ignore[misc]
    except UnavailableError as error:
        return error


async def test_commits_are_counted(store: SqliteStore) -> None:
    before = store.commits
    for place in (A, B):
        await store.write(put(place))
    assert store.commits == before + 2


@pytest.mark.parametrize("place", [Key("", "ns", "a"), Key("pods", "ns", ""), Key("", "", "")])
async def test_an_object_has_a_resource_and_a_name(store: SqliteStore, place: Key) -> None:
    with pytest.raises(InvariantError):
        await store.write(put(place))


async def test_a_directory_that_cannot_be_made_is_told_as_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Error, match="make the directory"):
        async with open_store(tmp_path / "file" / "below" / "s"):
            pass
