from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from aiohttp import web

from dray.api.core import ConfigMap
from dray.api.kinds import CONFIG_MAPS, DEVICE_CLASSES, RESOURCE_CLAIMS
from dray.api.meta import ObjectMeta
from dray.client import requests
from dray.client.access import ClusterAccess
from dray.client.client import Client
from dray.client.failures import ExpiredError
from dray.client.requests import DeleteOptions, PatchType, Preconditions, Selection, WriteOptions
from dray.client.store import Entry
from dray.errors import ConflictError, InvalidError, NotFoundError, ProtocolError, UnavailableError
from tests.client.answers import config_map, event, page
from tests.client.servers import ScriptedServer, lines, reply, status, text
from tests.waiting import PATIENCE


async def test_get_typed_and_raw(server: ScriptedServer, client: Client) -> None:
    document = {**config_map("a", 5, x="y"), "futureField": {"deep": [1, 2]}}
    server.answer(reply(200, document))
    typed = await client.get(CONFIG_MAPS, "a", namespace="ns")
    assert isinstance(typed, ConfigMap)
    assert (typed.metadata.resource_version, typed.data) == ("5", {"x": "y"})
    assert await client.get_raw(CONFIG_MAPS, "a", namespace="ns") == document
    assert server.seen[0].target == "/api/v1/namespaces/ns/configmaps/a"


async def test_answers_of_the_wrong_shape(server: ScriptedServer, client: Client) -> None:
    documents: list[Any] = [[], 5, {"metadata": 5}, {"metadata": {}, "data": [1]}]
    for document in documents:
        server.answer(reply(200, document))
        with pytest.raises(ProtocolError, match="cannot be read"):
            await client.get(CONFIG_MAPS, "a", namespace="ns")
    server.answer(text(200, '{"data"', "application/json"))
    with pytest.raises(ProtocolError):
        await client.get_raw(CONFIG_MAPS, "a", namespace="ns")
    with pytest.raises(ProtocolError):
        await client.list(CONFIG_MAPS)


async def test_writes(server: ScriptedServer, client: Client) -> None:
    answer = config_map("a", 6)
    server.answer(reply(201, answer))
    made = await client.create(CONFIG_MAPS, config_map("a"), options=WriteOptions(dry_run=True))
    assert made.metadata.resource_version == "6"
    await client.create(CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(name="b")), namespace="ns")
    await client.update(CONFIG_MAPS, {**config_map("a"), "future": 1})
    await client.patch(CONFIG_MAPS, "a", {"data": {"k": None}}, namespace="ns")
    await client.patch(RESOURCE_CLAIMS, "c", [], PatchType.JSON, namespace="ns", subresource="status")
    await client.delete(CONFIG_MAPS, "a", namespace="ns", options=DeleteOptions(uid="u"))
    posted, typed, put, merged, status_patch, deleted = server.seen
    assert (posted.method, posted.target) == ("POST", "/api/v1/namespaces/ns/configmaps?dryRun=All")
    assert typed.document["metadata"] == {"name": "b"}
    assert typed.document["kind"] == "ConfigMap"
    assert (put.method, put.document["future"]) == ("PUT", 1)
    assert merged.headers["Content-Type"] == "application/merge-patch+json"
    assert merged.document == {"data": {"k": None}}
    assert status_patch.target.endswith("/resourceclaims/c/status")
    assert (deleted.method, deleted.document["preconditions"]) == ("DELETE", {"uid": "u"})


async def test_raw_sends_any_request(server: ScriptedServer, client: Client) -> None:
    server.answer(reply(200, {"kind": "Status", "status": "Success"}))
    answer = await client.raw(requests.delete(DEVICE_CLASSES, "c"))
    assert answer == {"kind": "Status", "status": "Success"}


async def test_list_reads_all_pages(server: ScriptedServer, client: Client) -> None:
    server.answer(
        page(config_map("a"), token="t1"),
        page(config_map("b"), token="t2"),
        page(config_map("c")),
    )
    listing = await client.list(CONFIG_MAPS, Selection("ns", "app=x", "metadata.name!=z"), page_size=1)
    assert [item.metadata.name for item in listing.items] == ["a", "b", "c"]
    assert listing.resource_version == "10"
    first, second, third = (seen.target.partition("?")[2] for seen in server.seen)
    selectors = "labelSelector=app%3Dx&fieldSelector=metadata.name%21%3Dz&limit=1"
    assert (first, second, third) == (selectors, f"{selectors}&continue=t1", f"{selectors}&continue=t2")


async def test_list_page(server: ScriptedServer, client: Client) -> None:
    meta = {"resourceVersion": "10", "continue": "more", "remainingItemCount": 4}
    document = {"metadata": meta, "items": [config_map("a")]}
    server.answer(reply(200, document))
    listing = await client.list_page(CONFIG_MAPS, limit=1, resource_version="0")
    assert (listing.continue_token, listing.remaining) == ("more", 4)


async def test_expired_continue_token_starts_over_at_once(server: ScriptedServer, client: Client) -> None:
    server.answer(
        page(config_map("a"), token="t1"),
        status(410, "Expired", "The provided continue parameter is too old"),
        page(config_map("b"), config_map("c"), version=99),
    )
    listing = await client.list(CONFIG_MAPS, page_size=1)
    assert [item.metadata.name for item in listing.items] == ["b", "c"]
    assert listing.resource_version == "99"
    assert "limit" not in server.seen[-1].target


async def test_pages_of_different_moments_are_not_mixed(server: ScriptedServer, client: Client) -> None:
    server.answer(
        page(config_map("a"), token="t1"),
        page(config_map("b"), version=11),
        page(config_map("c"), version=12),
    )
    listing = await client.list(CONFIG_MAPS, page_size=1)
    assert [item.metadata.name for item in listing.items] == ["c"]


async def test_endless_pages_are_a_protocol_error(server: ScriptedServer, client: Client) -> None:
    server.answer(page(config_map("a"), token="same"))
    with pytest.raises(ProtocolError, match="same continue token"):
        await client.list(CONFIG_MAPS)


async def test_list_sets_unreadable_objects_apart(server: ScriptedServer, client: Client) -> None:
    server.answer(page(config_map("a"), {**config_map("b"), "data": 5}))
    listing = await client.list(CONFIG_MAPS)
    assert [item.metadata.name for item in listing.items] == ["a"]
    assert [item.key for item in listing.unreadable] == [("ns", "b")]


async def test_watch_yields_events_and_ends(server: ScriptedServer, client: Client) -> None:
    big = config_map("big", 12, blob="x" * 3_000_000)
    server.answer(
        lines(
            event("ADDED", config_map("a", 11)),
            event("MODIFIED", big),
            event("BOOKMARK", {"metadata": {"resourceVersion": "20"}}),
            event("DELETED", config_map("a", 21)),
        )
    )
    async with client.watch(CONFIG_MAPS, Selection("ns"), resource_version="10", timeout_seconds=77) as watch:
        events = [one async for one in watch]
    assert [(one.type, one.version) for one in events] == [
        ("ADDED", "11"),
        ("MODIFIED", "12"),
        ("BOOKMARK", "20"),
        ("DELETED", "21"),
    ]
    assert isinstance(events[1].item, Entry)
    query = server.seen[0].target.partition("?")[2].split("&")
    assert sorted(query) == [
        "allowWatchBookmarks=true",
        "resourceVersion=10",
        "timeoutSeconds=77",
        "watch=true",
    ]
    assert server.seen[0].headers["Accept-Encoding"] == "identity"


async def drain(client: Client, **options: Any) -> list[str]:
    async with client.watch(CONFIG_MAPS, resource_version="1", **options) as watch:
        return [one.version async for one in watch]


async def test_watch_failures(server: ScriptedServer, client: Client) -> None:
    server.answer(status(410, "Expired", "too old"))
    with pytest.raises(ExpiredError):
        await drain(client)
    server.answer(lines(event("ERROR", {"kind": "Status", "code": 410, "message": "too old"})))
    with pytest.raises(ExpiredError, match="410 too old"):
        await drain(client)
    server.answer(lines(event("ADDED", config_map("a", 2)), end="abort"))
    with pytest.raises(UnavailableError, match="connection broke"):
        await drain(client)
    server.answer(lines(msgspec.json.encode(event("ADDED", config_map("a", 2)))[:-9]))
    with pytest.raises(UnavailableError, match="cut off"):
        await drain(client)
    server.answer(lines(b"garbage\n"))
    with pytest.raises(ProtocolError):
        await drain(client)
    for end in (b"", b"x" * 5_000, b"x" * 300_000):  # complete, or endless
        server.answer(lines(end or event("ADDED", config_map("a", 2, blob="x" * 5_000)), end="hang"))
        with pytest.raises(ProtocolError, match="larger than 4000"):
            await drain(client, event_limit=4_000)
    server.answer(lines(end="hang"))
    with pytest.raises(UnavailableError, match="in time"):
        await drain(client, idle_timeout=0.1)


async def test_leaving_a_watch_early_closes_the_connection(server: ScriptedServer, client: Client) -> None:
    ended = asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            for version in range(2, 10**9):
                await response.write(msgspec.json.encode(event("ADDED", config_map("a", version))) + b"\n")
                await asyncio.sleep(0.005)
        finally:
            ended.set()
        return response

    server.answer(endless)
    async with client.watch(CONFIG_MAPS, resource_version="1") as watch:
        await anext(watch)
    async with asyncio.timeout(PATIENCE):
        await ended.wait()


async def test_server_version_and_readiness(server: ScriptedServer, client: Client) -> None:
    server.answer(
        reply(200, {"major": "1", "minor": "36", "gitVersion": "v1.36.4", "platform": "linux/amd64"})
    )
    version = await client.server_version()
    assert (version.major, version.minor, version.git_version) == ("1", "36", "v1.36.4")
    server.answer(text(200, "ok"))
    await client.check_ready()
    server.answer(text(500, "[-]etcd failed\nreadyz check failed"))
    with pytest.raises(UnavailableError, match="etcd failed readyz check failed"):
        await client.check_ready()


async def test_many_at_once(server: ScriptedServer, client: Client) -> None:
    async def named(request: web.Request) -> web.StreamResponse:
        name = request.path.rpartition("/")[2]
        if name.endswith("7"):
            raise web.HTTPNotFound
        return web.Response(body=msgspec.json.encode(config_map(name)), content_type="application/json")

    server.answer(named)

    async def one(number: int) -> str:
        try:
            found = await client.get(CONFIG_MAPS, f"n{number}", namespace="ns")
        except NotFoundError:
            return "gone"
        return found.metadata.name

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(number)) for number in range(50)]
    assert [task.result() for task in tasks] == [
        "gone" if number % 10 == 7 else f"n{number}" for number in range(50)
    ]


@pytest.fixture
async def lonely() -> AsyncIterator[Client]:
    async with Client(ClusterAccess("http://127.0.0.1:1")) as client:
        yield client


async def test_without_a_server(lonely: Client) -> None:
    with pytest.raises(UnavailableError, match="is the API server running"):
        await lonely.get(CONFIG_MAPS, "a", namespace="ns")
    with pytest.raises(UnavailableError):
        await drain(lonely)


async def test_another_uid_is_a_conflict_whatever_the_server_calls_it(
    server: ScriptedServer, client: Client
) -> None:
    """A real API server answers 422: the uid is an immutable field to it."""
    cause = {"reason": "FieldValueInvalid", "message": "field is immutable", "field": "metadata.uid"}
    refusal = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": "Invalid",
        "code": 422,
        "message": 'ConfigMap "a" is invalid: metadata.uid: Invalid value: field is immutable',
        "details": {"name": "a", "kind": "ConfigMap", "causes": [cause]},
    }
    server.answer(reply(422, refusal))
    change: dict[str, Any] = {"data": {}}
    with pytest.raises(ConflictError, match="another object of that name"):
        await client.patch(CONFIG_MAPS, "a", change, namespace="ns", preconditions=Preconditions(uid="u"))
    for conditions in (None, Preconditions(resource_version="1")):
        with pytest.raises(InvalidError, match="immutable"):
            await client.patch(CONFIG_MAPS, "a", change, namespace="ns", preconditions=conditions)


async def test_apply(server: ScriptedServer, client: Client) -> None:
    server.answer(reply(201, config_map("a", 5, k="v")))
    document = {"metadata": {"name": "a", "namespace": "ns"}, "data": {"k": "v"}}
    assert (await client.apply(CONFIG_MAPS, document, manager="m", force=True)).data == {"k": "v"}
    seen = server.seen[0]
    assert (seen.method, seen.headers["Content-Type"]) == ("PATCH", "application/apply-patch+yaml")
    assert seen.target.endswith("/configmaps/a?fieldManager=m&force=true")
