from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dray.apiserver.http.options import list_options
from dray.apiserver.http.paths import Place, parse_path
from dray.apiserver.http.watching.watches import Lines, gone, watching
from dray.apiserver.served import standard
from dray.apiserver.store.contract import Expired, Key, RevisionTooLargeError, Store
from dray.apiserver.store.sqlite import StoreConfig, open_store
from dray.runtime.clock import settle

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
SERVING = standard()
INITIAL = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "1"}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(tmp_path / "store.db", config=StoreConfig(bookmark_seconds=0.05)) as opened:
        yield opened


async def put(store: Store, name: str, **labels: str) -> int:
    metadata = {"name": name, "namespace": "a", "labels": labels, "creationTimestamp": "2026-11-15T11:00:00Z"}
    document = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata}
    key = Key("configmaps", "a", name)
    return (await store.write(lambda transaction: transaction.put(key, f"u-{name}", document))).revision


async def remove(store: Store, name: str) -> int:
    key = Key("configmaps", "a", name)
    return (await store.write(lambda transaction: transaction.delete(key))).revision


def watch(store: Store, tables: bool = False, /, **query: str) -> Any:
    where = parse_path("/api/v1/configmaps", SERVING)
    assert isinstance(where, Place)
    options = list_options({"watch": "1", **query}, where.served)
    return watching(store, where, options, Lines(where, options, (lambda: NOW) if tables else None))


async def take(lines: AsyncIterator[bytes], count: int) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            line = await anext(lines)
            assert line.endswith(b"\n") and line.count(b"\n") == 1
            event = json.loads(line)
            found.append((event["type"], event["object"]))
    return found


def told(events: list[tuple[str, Any]]) -> list[tuple[str, str, str]]:
    return [
        (kind, one["metadata"].get("name", ""), one["metadata"]["resourceVersion"]) for kind, one in events
    ]


async def test_changes_in_order_from_a_revision(store: Store) -> None:
    first = await put(store, "x")
    second, third, fourth = await put(store, "x", v="2"), await put(store, "y"), await remove(store, "x")
    async with watch(store, resourceVersion=str(first)) as lines:
        assert told(await take(lines, 3)) == [
            ("MODIFIED", "x", str(second)),
            ("ADDED", "y", str(third)),
            ("DELETED", "x", str(fourth)),
        ]
        fifth = await put(store, "z")
        assert told(await take(lines, 1)) == [("ADDED", "z", str(fifth))]


@pytest.mark.parametrize("revision", [{}, {"resourceVersion": "0"}])
async def test_without_a_revision_all_objects_come_first(store: Store, revision: dict[str, str]) -> None:
    one, two = await put(store, "x"), await put(store, "y")
    async with watch(store, **revision) as lines:
        assert told(await take(lines, 2)) == [("ADDED", "x", str(one)), ("ADDED", "y", str(two))]
        three = await remove(store, "x")
        assert told(await take(lines, 1)) == [("DELETED", "x", str(three))]


async def test_the_end_of_the_first_objects_is_told(store: Store) -> None:
    await put(store, "x")
    async with watch(store, **INITIAL) as lines:
        (_, first), (kind, mark) = await take(lines, 2)
        assert first["metadata"]["name"] == "x" and kind == "BOOKMARK"
        assert mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert (mark["kind"], mark["metadata"]["resourceVersion"]) == ("ConfigMap", str(store.revision))


async def test_objects_come_into_a_selection_and_leave_it(store: Store) -> None:
    start = await put(store, "x", a="no")
    into, within = await put(store, "x", a="yes"), await put(store, "x", a="yes", b="2")
    out = await put(store, "x", a="no")
    await put(store, "x", a="no", c="3")
    back, end = await put(store, "x", a="yes"), await remove(store, "x")
    async with watch(store, resourceVersion=str(start), labelSelector="a=yes") as lines:
        events = await take(lines, 5)
    assert told(events) == [
        ("ADDED", "x", str(into)),
        ("MODIFIED", "x", str(within)),
        ("DELETED", "x", str(out)),
        ("ADDED", "x", str(back)),
        ("DELETED", "x", str(end)),
    ]
    assert events[2][1]["metadata"]["labels"] == {"a": "yes", "b": "2"}


async def test_bookmarks_for_those_who_want_them(store: Store) -> None:
    await put(store, "x")
    before = str(store.revision)
    async with (
        watch(store, resourceVersion=before) as without,
        watch(store, resourceVersion=before, allowWatchBookmarks="true") as lines,
    ):
        first = asyncio.ensure_future(take(without, 1))
        await settle()
        assert told(await take(lines, 2)) == [("BOOKMARK", "", before)] * 2
        after = await put(store, "y")
        assert told(await first) == [("ADDED", "y", str(after))]


async def test_tables_have_their_columns_once(store: Store) -> None:
    await put(store, "x")
    await put(store, "y")
    async with watch(store, True) as lines:
        (_, first), (_, second) = await take(lines, 2)
    assert [one["name"] for one in first["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert second["columnDefinitions"] is None
    assert [one["rows"][0]["cells"] for one in (first, second)] == [["x", 0, "60m"], ["y", 0, "60m"]]


async def test_a_revision_of_the_future_is_refused(store: Store) -> None:
    with pytest.raises(RevisionTooLargeError):
        async with watch(store, resourceVersion=str(store.revision + 5)) as lines:
            await anext(lines)


async def test_a_watch_ends_with_the_store(tmp_path: Path) -> None:
    async with (
        open_store(tmp_path / "store.db") as store,
        watch(store, resourceVersion=str(store.revision)) as lines,
        asyncio.TaskGroup() as group,
    ):
        waiting = group.create_task(_all(lines))
        await asyncio.sleep(0)
        await store.stop()
    assert waiting.result() == []


async def _all(lines: AsyncIterator[bytes]) -> list[bytes]:
    return [line async for line in lines]


def test_the_end_of_a_watch_that_is_too_slow() -> None:
    event = json.loads(gone(Expired("too old resource version: 1 (2)")))
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"], event["object"]["kind"]) == (
        410,
        "Expired",
        "Status",
    )
