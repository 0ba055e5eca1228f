"""A whole server over plain HTTP, upkeep included, and a client that shows answers as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from dray.apiserver.access.identity import Identity, admin
from dray.apiserver.access.tokens import Tokens
from dray.apiserver.custom.live import Live
from dray.apiserver.http.handler import Handler
from dray.apiserver.http.measures import Measures
from dray.apiserver.http.server import Address, serve
from dray.apiserver.http.writes import INDEXES
from dray.apiserver.store.sqlite import open_store
from dray.apiserver.upkeep import Upkeep
from dray.apiserver.writing import indexes
from dray.apiserver.writing.removing.emptying import create_namespaces
from dray.apiserver.writing.request import Rules
from dray.runtime.clock import SystemClock
from dray.runtime.metrics import Metrics
from dray.runtime.tasks import running

Document = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"


class Asking:
    """Asks as one identity; `ask` gives the code and the body."""

    def __init__(self, session: aiohttp.ClientSession, url: str, tokens: Tokens) -> None:
        self._session = session
        self._url = url
        self._tokens = tokens
        self._token = tokens.issue(admin())

    def become(self, identity: Identity) -> None:
        self._token = self._tokens.issue(identity)

    async def text(self, path: str) -> str:
        async with self._session.get(f"{self._url}{path}", headers=self._headers({})) as answer:
            return await answer.text()

    async def ask(
        self, method: str, path: str, body: object = None, kind: str = "application/json", **headers: str
    ) -> tuple[int, Document]:
        given = {"data": body} if isinstance(body, bytes | str) else {"json": body} if body else {}
        told = self._headers({"Content-Type": kind, **headers} if body else headers)
        async with self._session.request(method, f"{self._url}{path}", headers=told, **given) as answer:
            found: Document = await answer.json()
            return answer.status, found

    async def done(
        self, method: str, path: str, body: object = None, kind: str = "application/json"
    ) -> Document:
        code, found = await self.ask(method, path, body, kind)
        assert code < 300, found
        return found

    async def until_gone(self, path: str) -> None:
        async with asyncio.timeout(60):
            while (await self.ask("GET", path))[0] != 404:
                await asyncio.sleep(0.01)

    def _headers(self, more: dict[str, str]) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}", "User-Agent": "tester/1.0 (linux)", **more}


@asynccontextmanager
async def asking(directory: Path, rules: Rules | None = None) -> AsyncIterator[Asking]:
    rules = rules or Rules()
    clock, tokens = SystemClock(), Tokens(directory / "tokens.json")
    async with open_store(directory / "store.db", indexes=(*INDEXES, *indexes())) as store:
        await store.write(lambda transaction: create_namespaces(transaction, rules, clock.now()))
        live, measures = Live(store, rules), Measures(Metrics(), clock)
        measures.of_store(store, lambda: [str(one.resource) for one in live.rules.serving.all])
        handler = Handler(store, rules, tokens, clock, live, measures)
        async with (
            running(Upkeep(store, rules, clock, live).run(), name="upkeep"),
            serve(handler, Address(), None) as port,
            aiohttp.ClientSession() as session,
        ):
            yield Asking(session, f"http://127.0.0.1:{port}", tokens)
