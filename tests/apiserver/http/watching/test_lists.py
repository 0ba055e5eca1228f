from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from dray.apiserver.http.options import list_options
from dray.apiserver.http.paths import Place, parse_path
from dray.apiserver.http.watching.lists import answer_list, as_list, as_table, find
from dray.apiserver.served import standard
from dray.apiserver.store.contract import Expired, Key, RevisionTooLargeError, Store
from dray.apiserver.store.sqlite import StoreConfig, open_store

SERVING = standard()
NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(tmp_path / "store.db") as opened:
        yield opened


async def put(store: Store, namespace: str, name: str, **labels: str) -> int:
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": labels,
        "creationTimestamp": "2026-11-15T11:00:00Z",
    }
    document = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"unknown": "kept"}}
    key = Key("configmaps", namespace, name)
    return (await store.write(lambda transaction: transaction.put(key, f"u-{name}", document))).revision


def place(path: str = "/api/v1/configmaps") -> Place:
    found = parse_path(path, SERVING)
    assert isinstance(found, Place)
    return found


def listed(store: Store, path: str = "/api/v1/configmaps", **query: str) -> dict[str, Any]:
    where = place(path)
    answer: dict[str, Any] = json.loads(as_list(where, find(store, where, list_options(query, where.served))))
    return answer


def names(answer: dict[str, Any]) -> list[str]:
    return [f"{one['metadata']['namespace']}/{one['metadata']['name']}" for one in answer["items"]]


async def test_a_list_has_the_objects_as_they_are(store: Store) -> None:
    assert listed(store)["items"] == []
    revision = await put(store, "b", "x")
    await put(store, "a", "y")
    answer = listed(store)
    assert (answer["kind"], answer["apiVersion"]) == ("ConfigMapList", "v1")
    assert answer["metadata"] == {"resourceVersion": str(store.revision)}
    assert names(answer) == ["a/y", "b/x"]
    assert names(listed(store, "/api/v1/namespaces/b/configmaps")) == ["b/x"]
    kept = answer["items"][1]
    assert kept["data"] == {"unknown": "kept"} and kept["metadata"]["resourceVersion"] == str(revision)


@pytest.mark.parametrize("query", [{}, {"labelSelector": "even=yes"}])
async def test_pages_are_of_one_moment(store: Store, query: dict[str, str]) -> None:
    for number in range(10):
        await put(store, "a", f"n{number}", even="yes" if number % 2 == 0 else "no")
    wanted = names(listed(store, **query))
    first = listed(store, limit="3", **query)
    await put(store, "a", "n1x", even="yes")
    await store.write(lambda transaction: transaction.delete(Key("configmaps", "a", "n8")))
    pages, token = names(first), first["metadata"].get("continue", "")
    while token:
        page = listed(store, limit="3", **{"continue": token}, **query)
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        assert 0 < len(page["items"]) <= 3
        pages += names(page)
        token = page["metadata"].get("continue", "")
    assert pages == wanted
    if not query:
        assert first["metadata"]["remainingItemCount"] == 7


async def test_a_page_that_is_just_full_is_the_last(store: Store) -> None:
    for number in range(4):
        await put(store, "a", f"n{number}", x="y")
    assert "continue" not in listed(store, limit="4", labelSelector="x=y")["metadata"]
    assert "continue" not in listed(store, limit="4")["metadata"]


async def test_fields_select(store: Store) -> None:
    await put(store, "a", "x")
    await put(store, "b", "x")
    assert names(listed(store, fieldSelector="metadata.name=x,metadata.namespace!=a")) == ["b/x"]


async def test_revisions_of_the_past_and_the_future(store: Store) -> None:
    before = await put(store, "a", "x")
    await put(store, "a", "y")
    assert names(listed(store, resourceVersion=str(before), resourceVersionMatch="Exact")) == ["a/x"]
    assert names(listed(store, resourceVersion=str(before))) == ["a/x", "a/y"]
    assert names(listed(store, resourceVersion="0")) == ["a/x", "a/y"]
    with pytest.raises(RevisionTooLargeError, match="Too large resource version"):
        listed(store, resourceVersion=str(store.revision + 1))


async def test_a_token_outlives_a_restart(tmp_path: Path) -> None:
    async with open_store(tmp_path / "store.db") as store:
        for number in range(4):
            await put(store, "a", f"n{number}")
        token = listed(store, limit="2")["metadata"]["continue"]
        await put(store, "a", "n9")
    async with open_store(tmp_path / "store.db") as store:
        assert names(listed(store, **{"continue": token})) == ["a/n2", "a/n3"]


async def test_a_token_that_is_too_old(tmp_path: Path) -> None:
    async with open_store(tmp_path / "store.db", config=StoreConfig(history_changes=3)) as store:
        for number in range(4):
            await put(store, "a", f"n{number}")
        token = listed(store, limit="2")["metadata"]["continue"]
        for number in range(9):
            await put(store, "a", f"m{number}")
        with pytest.raises(Expired, match="continue parameter is too old"):
            listed(store, **{"continue": token})


async def test_tables(store: Store) -> None:
    await put(store, "a", "x")
    where = place()
    answer = json.loads(as_table(where, find(store, where, list_options({}, where.served)), "", NOW))
    assert answer["kind"] == "Table" and answer["rows"][0]["cells"] == ["x", 1, "60m"]
    assert answer["metadata"]["resourceVersion"] == str(store.revision)


@asynccontextmanager
async def answering(store: Store) -> AsyncIterator[str]:
    """The list of ConfigMaps over HTTP."""

    async def handle(request: web.Request) -> web.StreamResponse:
        where = place()
        return await answer_list(
            request, where, find(store, where, list_options(request.query, where.served))
        )

    application = web.Application()
    application.router.add_get("/", handle)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=2, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


async def fill(store: Store, count: int) -> None:
    for number in range(count):
        await put(store, "a", f"n{number:04}", text="x" * 4000)


@pytest.mark.parametrize("count", [0, 1, 60, 150, 151])
async def test_short_and_long_lists_on_the_wire(store: Store, count: int) -> None:
    await fill(store, count)
    async with answering(store) as url, aiohttp.ClientSession() as session:
        for query in ("", "?limit=100"):
            async with session.get(url + query) as answer:
                body = await answer.read()
                assert answer.headers["Content-Length"] == str(len(body))
                assert answer.headers["Content-Type"] == "application/json"
            where = place()
            options = list_options({"limit": "100"} if query else {}, where.served)
            assert body == as_list(where, find(store, where, options))


async def test_who_leaves_in_the_middle_of_a_list_disturbs_nobody(store: Store) -> None:
    await fill(store, 800)
    async with answering(store) as url, aiohttp.ClientSession() as session:
        for _ in range(3):
            port = int(url.rpartition(":")[2].rstrip("/"))
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readexactly(1000)
            writer.transport.abort()
        async with asyncio.timeout(60), session.get(url) as answer:
            assert len((await answer.json())["items"]) == 800
