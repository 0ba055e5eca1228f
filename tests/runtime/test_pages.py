from __future__ import annotations

import asyncio
from contextlib import suppress

import aiohttp
import pytest

from dray.errors import UnavailableError
from dray.runtime.pages import Page, serve_pages
from tests.waiting import PATIENCE

PAGES = {
    "/": lambda: Page(200, "text/plain", b"hello\n"),
    "/large": lambda: Page(200, "text/plain", b"x" * 3_000_000),
}


async def raw(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        return await reader.read()
    finally:
        writer.close()


async def test_pages_are_served_to_a_real_client() -> None:
    async with (
        serve_pages(PAGES, host="127.0.0.1") as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
    ):
        for _ in range(3):
            async with session.get("/?x=1") as answer:
                assert (answer.status, await answer.read()) == (200, b"hello\n")
        async with session.head("/") as answer:
            assert (answer.headers["Content-Length"], await answer.read()) == ("6", b"")
        async with session.get("/none") as answer:
            assert answer.status == 404
        async with session.post("/") as answer:
            assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
        async with session.get("/large") as answer:
            assert len(await answer.read()) == 3_000_000


@pytest.mark.parametrize(
    "request_text", [b"\r\n\r\n", b"GET\r\n\r\n", b"GET / FTP/1.1\r\n\r\n", b"\xff\xfe \0 HTTP/1.1\r\n\r\n"]
)
async def test_nonsense_is_a_bad_request(request_text: bytes) -> None:
    async with serve_pages(PAGES, host="127.0.0.1") as port:
        first = (await raw(port, request_text)).split(b"\r\n")[0]
        assert first.split(b" ")[1] in (b"400", b"405")


async def test_too_much_or_too_little_ends_the_connection_and_nothing_else() -> None:
    async with serve_pages(PAGES, host="127.0.0.1") as port:
        assert await raw(port, b"GET / HTTP/1.1\r\nX: " + b"y" * 100_000) == b""
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        assert (await raw(port, b"GET / HTTP/1.0\r\n\r\n")).endswith(b"hello\n")


async def test_those_who_hold_connections_are_turned_away() -> None:
    async with serve_pages(PAGES, host="127.0.0.1") as port:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
        answers = []
        for reader, writer in held:
            with suppress(ConnectionError):
                writer.write(b"GET / HTTP/1.0\r\n\r\n")
                answers.append(await reader.read())
            writer.close()
        assert sum(answer.endswith(b"hello\n") for answer in answers) == 32
        async with asyncio.timeout(PATIENCE):
            while not (await raw(port, b"GET / HTTP/1.0\r\n\r\n")).endswith(b"hello\n"):
                await asyncio.sleep(0.01)


async def test_a_port_has_one_owner() -> None:
    async with serve_pages(PAGES, host="127.0.0.1") as port:
        with pytest.raises(UnavailableError, match="choose another"):
            async with serve_pages(PAGES, host="127.0.0.1", port=port):
                pass
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
