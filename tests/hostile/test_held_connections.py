"""Somebody who connects to a server of ours with TLS, and says nothing, or never shows who he is."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from dray.apiserver.access.identity import admin
from dray.apiserver.http.server import HANDSHAKES
from dray.controllers.guard.callers import Callers
from dray.kubelet.server.serve import serve_logs
from dray.runtime.certificates import serving_certificate
from dray.runtime.http_arrivals import MOST_HANDSHAKES
from tests.apiserver.http.test_server import running
from tests.client.certificates import Authority
from tests.hostile.test_stranger import guarded
from tests.waiting import wait_until

HELD = 400
Asking = Callable[[aiohttp.ClientSession], AbstractAsyncContextManager[aiohttp.ClientResponse]]


@asynccontextmanager
async def guard(directory: Path) -> AsyncIterator[tuple[int, Asking]]:
    async with guarded(directory, Callers("hush")) as here:
        context = ssl.create_default_context(cafile=str(here.authority))
        port = int(here.url.rpartition(":")[2])
        yield port, lambda session: session.get(f"{here.url}/readyz", ssl=context)


@asynccontextmanager
async def api_server(directory: Path) -> AsyncIterator[tuple[int, Asking]]:
    async with running(directory) as here:
        context = ssl.create_default_context(cafile=str(here.ca))
        headers = {"Authorization": f"Bearer {here.tokens.issue(admin())}"}
        port = int(here.url.rpartition(":")[2])
        yield port, lambda session: session.get(f"{here.url}/api/v1/pods", ssl=context, headers=headers)


@asynccontextmanager
async def kubelet_logs(directory: Path) -> AsyncIterator[tuple[int, Asking]]:
    authority = Authority()
    serving = serving_certificate(directory / "pki", ["127.0.0.1"], datetime.now(UTC))
    context = ssl.create_default_context(cafile=str(serving.ca))
    context.load_cert_chain(*authority.issue("kube-apiserver").write(directory, "caller"))
    pem = authority.pem.decode()
    async with serve_logs(None, Everybody(), ("127.0.0.1", 0), serving, pem) as port:  # type: ignore[arg-type]
        yield port, lambda session: session.get(f"https://127.0.0.1:{port}/", ssl=context)


class Everybody:
    """Any caller may read logs, if there were any."""

    async def check(self, caller: Any) -> None:
        return None


@pytest.mark.parametrize(
    ("server", "most"),
    [(guard, MOST_HANDSHAKES), (api_server, HANDSHAKES), (kubelet_logs, MOST_HANDSHAKES)],
)
async def test_who_never_begins_tls_holds_few_connections_and_not_for_long(
    server: Callable[[Path], AbstractAsyncContextManager[tuple[int, Asking]]], most: int, tmp_path: Path
) -> None:
    async with server(tmp_path) as (port, ask), aiohttp.ClientSession() as session:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(HELD)]
        ends = [asyncio.ensure_future(reader.read()) for reader, _ in held]
        await wait_until(lambda: sum(one.done() for one in ends) >= HELD - most)
        async with ask(session) as answer:
            assert answer.status in (200, 404)
        await asyncio.wait(ends)
        for _, writer in held:
            writer.transport.abort()
        await asyncio.gather(*ends, return_exceptions=True)


async def test_who_never_shows_a_key_to_the_api_server_holds_few_connections(tmp_path: Path) -> None:
    """After TLS too, and whatever is asked without a key. Who has shown one stays."""
    async with api_server(tmp_path) as (port, ask), running_session() as session:
        async with ask(session) as answer:
            assert answer.status == 200
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        held = [await asyncio.open_connection("127.0.0.1", port, ssl=context) for _ in range(300)]
        for _, writer in held:
            writer.write(b"GET /version HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        ends = [asyncio.ensure_future(_until_the_end(reader)) for reader, _ in held]
        await wait_until(lambda: sum(one.done() for one in ends) == 300 - 256)
        async with ask(session) as answer:
            assert answer.status == 200
        for _, writer in held:
            writer.transport.abort()
        await asyncio.gather(*ends)


@asynccontextmanager
async def running_session() -> AsyncIterator[aiohttp.ClientSession]:
    """One connection, kept."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as session:
        yield session


async def _until_the_end(reader: asyncio.StreamReader) -> None:
    try:
        await reader.read()
    except OSError:
        return
