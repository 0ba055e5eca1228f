"""Watches on real connections: many that share, some that come late, read slowly or leave."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from dray.apiserver.http.options import list_options
from dray.apiserver.http.paths import Place, parse_path
from dray.apiserver.http.watching.fanout import Watches
from dray.apiserver.http.watching.watches import Lines
from dray.apiserver.served import standard
from dray.apiserver.store.contract import Expired, Key
from dray.apiserver.store.sqlite import SqliteStore, StoreConfig, open_store
from dray.runtime.certificates import Serving, serving_certificate
from tests.campaign import seeds
from tests.waiting import wait_until

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
SERVING = standard()
PATH = "/api/v1/configmaps"


@dataclass
class Server:
    """Nothing but watches, over HTTP."""

    store: SqliteStore
    watches: Watches
    port: int = 0
    tls: ssl.SSLContext | None = None
    transports: list[asyncio.Transport] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        place = parse_path(request.path, SERVING)
        assert isinstance(place, Place) and request.transport is not None
        self.transports.append(request.transport)
        options = list_options(request.query, place.served)
        lines = Lines(place, options, (lambda: NOW) if "tables" in request.headers else None)
        try:
            return await self.watches.answer(request, place, options, lines, options.timeout or 60)
        except Expired:
            return web.Response(status=410)

    def url(self, **query: str) -> str:
        words = "&".join(f"{name}={value}" for name, value in query.items())
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}{PATH}?watch=1&{words}"


@asynccontextmanager
async def serving(
    tmp_path: Path, certificates: Serving | None = None, **config: Any
) -> AsyncIterator[Server]:
    async with open_store(tmp_path / "store.db", config=StoreConfig(**config)) as store:
        server = Server(store, Watches(store))
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", server.handle)
        runner = web.AppRunner(application, shutdown_timeout=2, access_log=None, handler_cancellation=True)
        await runner.setup()
        inside = None
        if certificates is not None:
            inside = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            inside.load_cert_chain(certificates.certificate, certificates.key)
            server.tls = ssl.create_default_context(cafile=str(certificates.ca))
        try:
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=inside).start()
            server.port = runner.addresses[0][1]
            yield server
        finally:
            await runner.cleanup()


@pytest.fixture(params=["plain", "tls"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    certificates = None
    if request.param == "tls":
        certificates = serving_certificate(tmp_path / "pki", ("127.0.0.1",), datetime.now(UTC))
    async with serving(tmp_path, certificates, bookmark_seconds=3600.0) as found:
        yield found


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as found:
        yield found


async def put(store: SqliteStore, name: str, text: str = "", **labels: str) -> int:
    metadata = {"name": name, "namespace": "a", "labels": labels, "creationTimestamp": "2026-11-15T11:00:00Z"}
    document = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"text": text}}
    key = Key("configmaps", "a", name)
    return (await store.write(lambda transaction: transaction.put(key, f"u-{name}", document))).revision


async def read(
    session: aiohttp.ClientSession,
    server: Server,
    last: int,
    on_line: Callable[[], float] = lambda: 0,
    found: list[int] | None = None,
    **query: str,
) -> list[int]:
    """The revisions a watcher gets, up to one, also in `found`; `on_line` says how long it dawdles after each."""
    found = [] if found is None else found
    async with asyncio.timeout(60), session.get(server.url(**query), ssl=server.tls or False) as answer:
        assert answer.status == 200
        async for line in answer.content:
            event = json.loads(line)
            found.append(int(event["object"]["metadata"]["resourceVersion"]))
            if found[-1] >= last:
                break
            if pause := on_line():
                await asyncio.sleep(pause)
    return found


async def test_watchers_of_one_shape_share_and_leave_nothing(
    server: Server, session: aiohttp.ClientSession
) -> None:
    first = await put(server.store, "x", v="1")
    async with asyncio.TaskGroup() as group:
        same = [group.create_task(read(session, server, 6, resourceVersion=str(first))) for _ in range(20)]
        chosen = [
            group.create_task(read(session, server, 6, resourceVersion=str(first), labelSelector="v=1"))
            for _ in range(3)
        ]
        await wait_until(lambda: len(server.watches) == 2)
        await wait_until(lambda: server.store.watchers == 2)
        for number in range(4):
            await put(server.store, f"y{number}", v=str(number % 2))
    assert [one.result() for one in same] == [[3, 4, 5, 6]] * 20
    assert [one.result() for one in chosen] == [[4, 6]] * 3
    await wait_until(lambda: len(server.watches) == 0)
    await wait_until(lambda: server.store.watchers == 0)


@pytest.mark.parametrize("seed", seeds(2, 60))
async def test_everyone_sees_everything_once_and_in_order(
    server: Server, session: aiohttp.ClientSession, seed: int
) -> None:
    """Watchers come at any time, from any revision, read at any pace and leave at any time."""
    chance = random.Random(seed)
    writes = 120
    last = writes + 1

    async def writer() -> None:
        for number in range(writes):
            await put(server.store, f"x{number % 7}", "x" * chance.choice((0, 10, 3000)))
            if chance.random() < 0.3:
                await asyncio.sleep(chance.random() * 0.01)

    async def watcher() -> None:
        await asyncio.sleep(chance.random() * 0.3)
        since = chance.randrange(1, server.store.revision + 1)
        end = chance.choice((last, chance.randrange(since, last + 1)))
        if end == since:
            return
        pause = chance.choice((0, 0, 0, 0.005))
        found = await read(session, server, end, lambda: chance.random() * pause, resourceVersion=str(since))
        assert found == list(range(since + 1, end + 1))

    async with asyncio.TaskGroup() as group:
        group.create_task(writer())
        for _ in range(40):
            group.create_task(watcher())
    await wait_until(lambda: len(server.watches) == 0)


async def connect_slowly(server: Server, since: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client that has little room and reads nothing yet."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    plain.setblocking(False)
    await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", server.port))
    name = "127.0.0.1" if server.tls else None
    reader, writer = await asyncio.open_connection(
        sock=plain, ssl=server.tls, server_hostname=name, limit=1 << 14
    )
    path = f"{PATH}?watch=1&resourceVersion={since}"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    return reader, writer


async def revisions(reader: asyncio.StreamReader) -> AsyncIterator[int]:
    """Of a chunked answer, whose chunks hold whole lines."""
    while size := int(await reader.readline(), 16):
        for line in (await reader.readexactly(size + 2)).splitlines():
            if line:
                yield int(json.loads(line)["object"].get("metadata", {}).get("resourceVersion", 0))


async def test_a_slow_one_holds_up_nobody_and_misses_nothing(
    server: Server, session: aiohttp.ClientSession
) -> None:
    first = await put(server.store, "x")
    reader, writer = await connect_slowly(server, first)
    await wait_until(lambda: len(server.watches) == 1)
    slow = server.transports[0]
    last = first + 160
    async with asyncio.TaskGroup() as group:
        others = [
            group.create_task(read(session, server, last, resourceVersion=str(first))) for _ in range(3)
        ]
        for number in range(160):
            await put(server.store, f"y{number % 3}", "x" * 50_000)
            assert slow.get_write_buffer_size() < 600_000, "what waits for it is bounded"
    assert [one.result() for one in others] == [list(range(first + 1, last + 1))] * 3
    found: list[int] = []
    async with asyncio.timeout(60):
        async for revision in revisions(reader):
            found.append(revision)
            if revision == last:
                break
    assert found == list(range(first + 1, last + 1))
    assert await put(server.store, "z") == last + 1
    async with asyncio.timeout(60):
        assert await anext(revisions(reader)) == last + 1, "it goes on"
    writer.close()
    await wait_until(lambda: len(server.watches) == 0)


async def test_one_that_is_too_slow_is_told(tmp_path: Path, session: aiohttp.ClientSession) -> None:
    async with serving(tmp_path, history_changes=40) as server:
        first = await put(server.store, "x")
        reader, writer = await connect_slowly(server, first)
        await wait_until(lambda: len(server.watches) == 1)
        async with asyncio.TaskGroup() as group:
            seen: list[int] = []
            reading = read(session, server, first + 150, found=seen, resourceVersion=str(first))
            other = group.create_task(reading)
            await wait_until(lambda: len(server.transports) == 2)
            for number in range(150):
                await put(server.store, f"y{number % 3}", "x" * 100_000)
                await wait_until(lambda: len(seen) > number - 20)  # noqa: B023 - the other is no faster than the machine
        assert other.result() == list(range(first + 1, first + 151))
        async with asyncio.timeout(60):
            found = [revision async for revision in revisions(reader)]
        assert found[-1] == 0, "an ERROR, which has no revision, and the end"
        assert found[:-1] == list(range(first + 1, first + len(found)))
        assert len(found) < 150
        writer.close()


async def test_the_end_of_its_time_and_of_the_store(tmp_path: Path, session: aiohttp.ClientSession) -> None:
    async with serving(tmp_path) as server:
        async with asyncio.timeout(60), session.get(server.url(timeoutSeconds="1")) as answer:
            assert await answer.read() == b""
        assert len(server.watches) == 0
        async with asyncio.timeout(60), session.get(server.url()) as answer:
            await wait_until(lambda: len(server.watches) == 1)
            await server.store.stop()
            assert await answer.read() == b""
        assert len(server.watches) == 0


async def test_bookmarks_reach_those_who_want_them(tmp_path: Path, session: aiohttp.ClientSession) -> None:
    async with serving(tmp_path, bookmark_seconds=0.2) as server:
        first = await put(server.store, "x")

        async def first_line(**query: str) -> Any:
            async with session.get(server.url(resourceVersion=str(first), **query)) as answer:
                return json.loads(await answer.content.readline())

        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            with_them = group.create_task(first_line(allowWatchBookmarks="1"))
            without = group.create_task(first_line())
            told = await with_them
            assert (told["type"], told["object"]["metadata"]) == ("BOOKMARK", {"resourceVersion": str(first)})
            assert not without.done()
            await put(server.store, "y")
            assert (await without)["type"] == "ADDED"


async def test_old_clients_get_plain_lines(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        first = await put(server.store, "x")
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        path = f"{PATH}?watch=1&resourceVersion={first}&timeoutSeconds=1"
        writer.write(f"GET {path} HTTP/1.0\r\nHost: x\r\n\r\n".encode())
        async with asyncio.timeout(60):
            await reader.readuntil(b"\r\n\r\n")
            await put(server.store, "y")
            body = await reader.read()
        assert [json.loads(line)["type"] for line in body.splitlines()] == ["ADDED"]
        writer.close()


async def test_tables_are_made_for_each(tmp_path: Path, session: aiohttp.ClientSession) -> None:
    async with serving(tmp_path) as server:
        await put(server.store, "x")
        async with asyncio.timeout(60), session.get(server.url(), headers={"tables": "1"}) as answer:
            first = json.loads(await answer.content.readline())["object"]
            await put(server.store, "y")
            second = json.loads(await answer.content.readline())["object"]
        assert (first["kind"], bool(first["columnDefinitions"])) == ("Table", True)
        assert second["columnDefinitions"] is None
        assert len(server.watches) == 0


async def test_a_watch_from_before_the_history_does_not_begin(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    async with serving(tmp_path, history_changes=2) as server:
        for number in range(5):
            await put(server.store, f"x{number}")
        async with session.get(server.url(resourceVersion="1")) as answer:
            assert answer.status == 410


async def test_a_channel_that_the_history_left_behind_lets_everyone_go(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    """One transaction that is longer than the history: nobody can be told all of it."""
    async with serving(tmp_path, history_changes=5) as server:
        first = await put(server.store, "x")

        def many(transaction: Any) -> None:
            for number in range(20):
                transaction.put(
                    Key("configmaps", "a", f"n{number}"), "u", {"metadata": {"name": f"n{number}"}}
                )

        begun: list[int] = []

        async def types() -> list[str]:
            async with session.get(server.url(resourceVersion=str(first))) as answer:
                begun.append(answer.status)
                return [json.loads(line)["type"] async for line in answer.content]

        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            watchers = [group.create_task(types()) for _ in range(3)]
            await wait_until(lambda: len(server.watches) == 1 and begun == [200] * 3)
            await server.store.write(many)
        assert [one.result() for one in watchers] == [["ERROR"]] * 3
        assert await put(server.store, "y") == first + 21
        latest = await read(session, server, first + 21, resourceVersion=str(first + 20))
        assert latest == [first + 21]
