"""A small API server for ConfigMaps with history, compaction and bad manners, behind real HTTP."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web

from tests.client.servers import scripted

FAULTS = ("abort", "eof", "truncate", "garbage", "error", "expired", "hang")
REFUSALS = (410, 429, 500, 503)


@dataclass
class MiniApi:
    """The objects and their history. `chaos` is the chance of a fault at every event and every request."""

    rng: random.Random
    chaos: float = 0.0
    revision: int = 1
    compacted: int = 0
    uids: int = 0
    port: int = 0
    live: dict[str, dict[str, Any]] = field(default_factory=dict)
    history: list[tuple[int, bytes]] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def versions(self) -> dict[tuple[str, str], str]:
        """What a reflector's cache should hold."""
        return {("ns", name): item["metadata"]["resourceVersion"] for name, item in self.live.items()}

    def put(self, name: str) -> None:
        kind = "MODIFIED" if name in self.live else "ADDED"
        self.revision += 1
        if kind == "ADDED":
            self.uids += 1
            self.live[name] = {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{self.uids}"}}
        meta = {**self.live[name]["metadata"], "resourceVersion": str(self.revision)}
        self.live[name] = {"metadata": meta, "data": {"revision": str(self.revision)}}
        self._record(kind, self.live[name])

    def delete(self, name: str) -> None:
        self.revision += 1
        last = self.live.pop(name)
        meta = {**last["metadata"], "resourceVersion": str(self.revision)}
        self._record("DELETED", {**last, "metadata": meta})

    def write_anything(self) -> None:
        name = f"n{self.rng.randrange(12)}"
        if name in self.live and self.rng.random() < 0.4:
            self.delete(name)
        else:
            self.put(name)

    def compact(self) -> None:
        self.compacted = self.revision
        self.history = [entry for entry in self.history if entry[0] > self.compacted]

    def _record(self, kind: str, document: dict[str, Any]) -> None:
        self.history.append((self.revision, msgspec.json.encode({"type": kind, "object": document}) + b"\n"))
        self.news.set()
        self.news = asyncio.Event()

    def _unlucky(self) -> bool:
        return self.rng.random() < self.chaos

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self._unlucky():
            return _refuse(self.rng.choice(REFUSALS))
        if "watch" in request.query:
            return await self._watch(request)
        return self._list(request)

    def _list(self, request: web.Request) -> web.StreamResponse:
        """Pages of the state of now; a token of another revision has expired."""
        limit = int(request.query.get("limit", "0")) or len(self.live) + 1
        start, _, revision = request.query.get("continue", f"0@{self.revision}").partition("@")
        if int(revision) != self.revision:
            return _refuse(410)
        names = sorted(self.live)[int(start) :]
        token = f"{int(start) + limit}@{revision}" if len(names) > limit else ""
        meta = {"resourceVersion": revision, "continue": token}
        body = msgspec.json.encode({"metadata": meta, "items": [self.live[name] for name in names[:limit]]})
        return web.Response(body=body, content_type="application/json")

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        position = int(request.query["resourceVersion"])
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        while True:
            if position < self.compacted:
                await response.write(_error(410, "too old resource version"))
                return response
            news = self.news
            for revision, line in [entry for entry in self.history if entry[0] > position]:
                if self._unlucky() and await self._misbehave(request, response, line):
                    return response
                await response.write(line)
                position = revision
            if self.rng.random() < 0.3:
                await response.write(_bookmark(position))
            await news.wait()

    async def _misbehave(self, request: web.Request, response: web.StreamResponse, line: bytes) -> bool:
        match self.rng.choice(FAULTS):
            case "abort":
                assert request.transport is not None
                request.transport.abort()
            case "truncate":
                await response.write(line[: self.rng.randrange(1, len(line))])
            case "garbage":
                await response.write(b'{"type":"ADDED","object"\n')
            case "error":
                await response.write(_error(500, "etcd event received with PrevKv=nil"))
            case "expired":
                await response.write(_error(410, "too old resource version"))
            case "hang":
                await asyncio.sleep(60)
        return True


def _bookmark(revision: int) -> bytes:
    document = {"kind": "ConfigMap", "metadata": {"resourceVersion": str(revision)}}
    return msgspec.json.encode({"type": "BOOKMARK", "object": document}) + b"\n"


def _status(code: int, message: str) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message}


def _error(code: int, message: str) -> bytes:
    return msgspec.json.encode({"type": "ERROR", "object": _status(code, message)}) + b"\n"


def _refuse(code: int) -> web.Response:
    body = msgspec.json.encode(_status(code, "refused"))
    return web.Response(status=code, body=body, content_type="application/json")


@asynccontextmanager
async def serving(api: MiniApi) -> AsyncIterator[MiniApi]:
    """Serve on the port of the last time; leaving cuts every connection, as a killed server does."""
    async with scripted(port=api.port) as server:
        server.answer(api.handle)
        api.port = server.port
        yield api
