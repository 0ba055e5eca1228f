"""A page in the administrator's browser, of a site whose name leads to this machine: it gets nothing from any port of ours."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from dray.runtime.metrics import Metrics, serve_metrics
from dray.runtime.pages import Page, Readers
from tests.dashboard.looking import alone

PAGES = {path: lambda: Page(200, "text/plain", b"secret\n") for path in ("/plugins", "/devices")}
EVIL = ("evil.example", "evil.example:9614", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "a b")


@asynccontextmanager
async def serving(readers: Readers) -> AsyncIterator[aiohttp.ClientSession]:
    async with (
        serve_metrics(Metrics(), pages=PAGES, checks={"/readyz": str}, readers=readers) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
    ):
        yield session


@pytest.mark.parametrize("host", EVIL)
async def test_a_name_of_others_gets_no_page(host: str) -> None:
    async with serving(Readers()) as session:
        for path in ("/metrics", "/plugins", "/devices", "/healthz", "/none"):
            async with session.get(path, headers={"Host": host}) as answer:
                assert (answer.status, "secret" in await answer.text()) == (403, False), path


async def test_addresses_and_names_of_ours_do() -> None:
    async with serving(Readers(("metrics.example",))) as session:
        for host in (
            "localhost",
            "LOCALHOST:1",
            "10.0.0.5:9614",
            "[::1]:9614",
            "metrics.example",
            "127.0.0.1",
        ):
            async with session.get("/plugins", headers={"Host": host}) as answer:
                assert answer.status == 200, host


async def test_the_dashboard_answers_no_other_origin() -> None:
    async with alone() as looker:
        for headers in (
            {"Host": "evil.example"},
            {"Origin": "http://evil.example"},
            {"Sec-Fetch-Site": "cross-site"},
        ):
            status, _, _ = await looker.ask("/api/fleet", token=looker.at.token, headers=headers)
            assert status == 403, headers
