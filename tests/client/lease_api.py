"""A small API server for one Lease, behind real HTTP, that can be away, slow, or lose its answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
from aiohttp import web

from dray.client.client import Client
from dray.client.http import Request
from dray.errors import UnavailableError
from tests.client.servers import scripted, status

Mode = Literal["up", "refuse", "hang", "lose"]


@dataclass
class LeaseApi:
    """`lose`: writes are stored, but the connection breaks before the answer. `hang`: no answer until the mode changes."""

    mode: Mode = "up"
    lease: dict[str, Any] | None = None
    revision: int = 10
    url: str = ""
    holders: list[str] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def become(self, mode: Mode) -> None:
        self.mode = mode
        self.changed.set()
        self.changed = asyncio.Event()

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        found: dict[str, Any] = self.lease["spec"]
        return found

    def store(self, lease: dict[str, Any]) -> None:
        self.revision += 1
        meta = {**lease["metadata"], "resourceVersion": str(self.revision), "uid": "u"}
        self.lease = {**lease, "metadata": meta}
        holder = lease["spec"].get("holderIdentity", "")
        if not self.holders or self.holders[-1] != holder:
            self.holders.append(holder)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        mode = self.mode
        if mode == "hang":
            await self.changed.wait()
            return await self._cut(request)
        if mode == "refuse":
            return await status(503, "ServiceUnavailable", "away")(request)
        answer = await self._answer(request)
        return await self._cut(request) if mode == "lose" and request.method != "GET" else answer

    async def _cut(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response(status=500)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            if self.lease is None:
                return await status(404, "NotFound", "no lease")(request)
            return web.json_response(self.lease)
        document = msgspec.json.decode(await request.read())
        known = self.lease["metadata"]["resourceVersion"] if self.lease is not None else None
        if request.method == "POST" and known is not None:
            return await status(409, "AlreadyExists", "there is one")(request)
        if request.method == "PUT" and known is None:
            return await status(404, "NotFound", "no lease")(request)
        if request.method == "PUT" and document["metadata"]["resourceVersion"] != known:
            return await status(409, "Conflict", "modified")(request)
        self.store(document)
        return web.json_response(self.lease, status=201 if request.method == "POST" else 200)


@asynccontextmanager
async def serving_lease() -> AsyncIterator[LeaseApi]:
    api = LeaseApi()
    async with scripted() as server:
        server.answer(api.handle)
        api.url = server.url
        yield api
        api.become("up")


class Candidate(Client):
    """A client that knows whether it waits for an answer, and that can be cut off from the server."""

    busy = 0
    is_cut = False

    async def raw(self, request: Request) -> dict[str, Any]:
        if self.is_cut:
            raise UnavailableError("cut off")
        self.busy += 1
        try:
            return await super().raw(request)
        finally:
            self.busy -= 1
