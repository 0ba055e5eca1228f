"""A dashboard for tests, with its cluster and somebody who looks at it over real HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp

from dray.apiserver.http.server import Address
from dray.client.access import ClusterAccess
from dray.client.client import Client
from dray.client.follow import FollowConfig
from dray.client.kubeconfig import find_access
from dray.dashboard.fleet.watching import WatchOptions
from dray.dashboard.http.stream import StreamOptions
from dray.processes.apiserver import ApiServerOptions, api_server
from dray.processes.dashboard import DashboardAt, DashboardOptions, dashboard
from dray.runtime.backoff import BackoffPolicy

Json = dict[str, Any]
QUICK = StreamOptions(turn=0.02, heartbeat=0.5, patience=1.0, most=3)
IMPATIENT = WatchOptions(
    patience=0.1,
    ask_again=0.3,
    start=5.0,
    look=0.1,
    answer=2.0,
    follow=FollowConfig(backoff=BackoffPolicy(first=0.05, limit=0.2)),
)
NOBODY = ClusterAccess("http://127.0.0.1:9")


@dataclass
class Looker:
    """Who looks: `url` is the dashboard's. Requests carry the token unless told otherwise."""

    session: aiohttp.ClientSession
    at: DashboardAt

    async def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        token: str | None = None,
        headers: Json | None = None,
        body: Any = None,
    ) -> tuple[int, Any, Any]:
        """Status, headers, and the JSON, or the bytes of what is none."""
        given = self.at.token if token is None else token
        sent = {**({"Authorization": f"Bearer {given}"} if given else {}), **(headers or {})}
        if isinstance(body, dict):
            body, sent = json.dumps(body).encode(), {"Content-Type": "application/json", **sent}
        async with self.session.request(method, f"{self.at.url}{path}", headers=sent, data=body) as answer:
            data = await answer.read()
            is_json = answer.content_type == "application/json"
            return answer.status, answer.headers, json.loads(data) if is_json else data

    async def get(self, path: str) -> Any:
        status, _, found = await self.ask(path)
        assert status == 200, found
        return found

    @asynccontextmanager
    async def follow(self, query: str = "", headers: Json | None = None) -> AsyncIterator[Followed]:
        sent = {"Authorization": f"Bearer {self.at.token}", **(headers or {})}
        async with self.session.get(f"{self.at.url}/api/stream{query}", headers=sent) as answer:
            assert answer.status == 200
            yield Followed(answer)


class Followed:
    """A stream as a browser reads it."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer
        self.last_id = ""

    async def next(self, name: str, when: Callable[[Any], bool] = lambda value: True) -> Any:
        """The data of the next message of this name that is so."""
        async with asyncio.timeout(60):
            while True:
                found = await self.any()
                if found[0] == name and when(found[1]):
                    return found[1]

    async def any(self) -> tuple[str, Any]:
        """The next message, "" for a comment."""
        lines: list[str] = []
        async for raw in self.answer.content:
            line = raw.decode().rstrip("\n")
            if line:
                lines.append(line)
                continue
            fields = dict(one.split(": ", 1) for one in lines)
            self.last_id = fields.get("id", self.last_id)
            return fields.get("event", ""), json.loads(fields.get("data", "null"))
        raise EOFError


@asynccontextmanager
async def looking(options: DashboardOptions) -> AsyncIterator[Looker]:
    async with AsyncExitStack() as stack:
        at = await stack.enter_async_context(dashboard(options))
        session = await stack.enter_async_context(
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20), cookie_jar=aiohttp.DummyCookieJar())
        )  # fmt: skip
        yield Looker(session, at)


def options_for(access: ClusterAccess, **changes: Any) -> DashboardOptions:
    made = DashboardOptions(access, ("127.0.0.1", 0), stream=QUICK, watch=IMPATIENT)
    return replace(made, **changes)


@asynccontextmanager
async def alone(**changes: Any) -> AsyncIterator[Looker]:
    """Without a cluster: what may not be asked needs none."""
    changes = {"watch": replace(IMPATIENT, start=0.0)} | changes
    async with looking(options_for(NOBODY, **changes)) as looker:
        yield looker


@asynccontextmanager
async def with_cluster(directory: Path, **changes: Any) -> AsyncIterator[tuple[Client, Looker]]:
    """With an API server that holds nothing yet."""
    async with (
        api_server(ApiServerOptions(directory / "server", Address(port=0))) as found,
        Client(find_access(found.kubeconfig)) as client,
        looking(options_for(find_access(found.kubeconfig), **changes)) as looker,
    ):
        yield client, looker
