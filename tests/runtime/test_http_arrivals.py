"""Connections that show nothing: in the TLS handshake, and after it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from dray.runtime.certificates import server_context, serving_certificate
from dray.runtime.http_arrivals import HANDSHAKE_SECONDS, MOST_HANDSHAKES, Strangers
from dray.runtime.http_server import PlainServer, listening
from tests.waiting import wait_until

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
ASK = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@asynccontextmanager
async def served(directory: Path, most: int = 1000) -> AsyncIterator[tuple[int, ssl.SSLContext]]:
    """A server that knows everybody who asks it anything; gives its port, and what its clients trust."""
    serving = serving_certificate(directory / "pki", ["127.0.0.1"], datetime.now(UTC))
    strangers = Strangers(most)

    async def answer(request: Any) -> web.StreamResponse:
        strangers.know(request)
        return web.Response(text="hello")

    server = PlainServer(answer, lambda error: web.Response(text=str(error)), "test", idle_seconds=60.0)
    runner = web.ServerRunner(server)
    context = server_context(serving)
    async with (
        listening(runner, "127.0.0.1", 0, advice="-", context=context) as port,
        strangers.bounded(runner),
    ):
        yield port, ssl.create_default_context(cafile=str(serving.ca))


async def connected(port: int, context: ssl.SSLContext | None = None) -> Connection:
    return await asyncio.open_connection("127.0.0.1", port, ssl=context)


async def is_answered(connection: Connection) -> bool:
    reader, writer = connection
    writer.write(ASK)
    head = await reader.readuntil(b"hello")
    return head.startswith(b"HTTP/1.1 200 OK")


def alive(connections: list[Connection]) -> int:
    return sum(not reader.at_eof() and reader.exception() is None for reader, _ in connections)


async def read_all(connections: list[Connection]) -> None:
    """Until the server has ended them all."""
    await asyncio.gather(*(reader.read() for reader, _ in connections), return_exceptions=True)


def drop(*connections: Connection) -> None:
    for _, writer in connections:
        writer.transport.abort()


async def test_who_never_shakes_hands_is_counted_and_ended_and_keeps_nobody_out(tmp_path: Path) -> None:
    async with served(tmp_path) as (port, context):
        early = await connected(port, context)
        assert await is_answered(early)
        held = [await connected(port) for _ in range(300)]
        watching = [asyncio.ensure_future(reader.read()) for reader, _ in held]
        await wait_until(lambda: alive(held) <= MOST_HANDSHAKES)
        # The newest have their turn, also one that comes now.
        assert await is_answered(early)
        late = await connected(port, context)
        assert await is_answered(late)
        # The rest ends by itself: who says nothing has a few seconds.
        assert HANDSHAKE_SECONDS <= 10
        await asyncio.wait(watching)
        assert alive(held) == 0
        assert await is_answered(early) and await is_answered(late)
        drop(*held, early, late)
        await asyncio.gather(*watching, return_exceptions=True)


async def test_nonsense_instead_of_a_handshake_ends_the_connection(tmp_path: Path) -> None:
    async with served(tmp_path) as (port, context):
        for said in (ASK, b"\x16\x03\x01\x40\x00" + bytes(2000), b"\x00"):
            connection = await connected(port)
            connection[1].write(said)
            connection[1].write_eof()
            await read_all([connection])
            drop(connection)
        good = await connected(port, context)
        assert await is_answered(good)
        drop(good)


async def test_what_comes_right_behind_the_handshake_is_not_lost(tmp_path: Path) -> None:
    """A client whose last flight of the handshake and whose request are one packet."""
    async with served(tmp_path) as (port, context):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        reader, writer = await connected(port)
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                writer.write(outgoing.read())
                incoming.write(await reader.read(2**16))
        client.write(ASK)
        writer.write(outgoing.read())
        answer = b""
        while b"hello" not in answer:
            incoming.write(await reader.read(2**16))
            try:
                answer += client.read(2**16)
            except ssl.SSLWantReadError:
                continue
        assert answer.startswith(b"HTTP/1.1 200 OK")
        writer.transport.abort()


async def test_of_too_many_that_ask_nothing_the_oldest_end(tmp_path: Path) -> None:
    async with served(tmp_path, most=4) as (port, context):
        known = await connected(port, context)
        assert await is_answered(known)
        held = [await connected(port, context) for _ in range(10)]
        watching = [asyncio.ensure_future(reader.read()) for reader, _ in held]
        await wait_until(lambda: alive(held) == 4)
        assert [reader.at_eof() for reader, _ in held] == [True] * 6 + [False] * 4
        assert await is_answered(known)
        drop(known, *held)
        await asyncio.gather(*watching, return_exceptions=True)


async def test_connections_that_come_in_one_turn_of_the_loop_do_not_stay(tmp_path: Path) -> None:
    """The oldest are ended before their handshake has begun."""
    async with served(tmp_path) as (port, context):
        held = [socket.create_connection(("127.0.0.1", port)) for _ in range(90)]
        for _ in range(3):
            good = await connected(port, context)
            assert await is_answered(good)
            drop(good)
        before = {one.get_name() for one in asyncio.all_tasks()}
        assert "TLS handshake" in before
        for one in held:
            one.close()
        await wait_until(lambda: not any(one.get_name() == "TLS handshake" for one in asyncio.all_tasks()))


async def test_a_server_stops_whatever_handshakes_are_open(tmp_path: Path) -> None:
    async with served(tmp_path) as (port, _):
        held = [await connected(port) for _ in range(20)]
    await read_all(held)
    drop(*held)
