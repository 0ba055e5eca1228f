"""A real HTTP server for controllers: the small API server, with finalizers, and whoever else writes to it."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from dray.api.kinds import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource
from dray.api.limits import CLAIM_FINALIZER
from dray.api.meta import format_time
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.errors import NotFoundError, UnavailableError
from dray.runtime.clock import SystemClock
from dray.testing.check.api_server import Place, SmallApiServer, parse_path, served
from tests.controllers.objects import NS, Json, template_document


class Cluster(SmallApiServer):
    """`fails` may raise for a request before (`is_done` False) or after it was carried out."""

    fails: Callable[[str, Place, bool], None] | None = None
    is_away: bool = False
    is_leaving: bool = False
    lacks: Resource[Any] | None = None
    stuck: Resource[Any] | None = None
    waiting: int = 0
    """Writes to what is stuck."""
    turned_away: int = 0
    """Requests while it was away."""

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if self.is_away:
            self.turned_away += 1
            raise UnavailableError("not now")
        if self.lacks is not None and parse_path(request.path).resource is self.lacks:
            raise NotFoundError("the server could not find the requested resource")
        is_write = request.method not in ("GET", "HEAD")
        if is_write and parse_path(request.path).resource is self.stuck:
            self.waiting += 1
            while parse_path(request.path).resource is self.stuck:
                await asyncio.sleep(0.01)
        if self.fails is not None and is_write:
            place = parse_path(request.path)
            self.fails(request.method, place, False)
            answer = await super()._answer(request)
            self.fails(request.method, place, True)
            return answer
        return await super()._answer(request)

    async def _wait_newer(self, version: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self.version > version or self.is_leaving)
        if self.is_leaving:
            raise ConnectionResetError

    async def leave(self) -> None:
        """End all watches, so that nobody waits for them."""
        self.is_leaving = True
        async with self._changed:
            self._changed.notify_all()

    async def _delete(self, request: web.Request, place: Place) -> Json:
        """With finalizers an object is only marked, as in any Kubernetes."""
        document = self._get(place)
        if not document["metadata"].get("finalizers"):
            return await super()._delete(request, place)
        await self.mark(place.resource, place.name)
        return {"apiVersion": "v1", "kind": "Status", "status": "Success"}

    async def update(self, place: Place, document: Json) -> Json:
        found = await super().update(place, document)
        metadata = found["metadata"]
        is_last = metadata.get("deletionTimestamp") and not metadata.get("finalizers")
        if is_last and place.resource is not PODS:
            await self.remove(place.resource, place.name)
        return found

    def find(self, resource: Resource[Any], name: str) -> Json:
        """Empty where there is none."""
        return self.objects.get((resource.plural, NS if resource.namespaced else "", name), {})

    def every(self, resource: Resource[Any]) -> list[Json]:
        return [one for (plural, _, _), one in sorted(self.objects.items()) if plural == resource.plural]

    async def add(self, resource: Resource[Any], document: Json, status: Json | None = None) -> Json:
        """With a status, which a server drops on create."""
        place = Place(resource, NS if resource.namespaced else "", "", "")
        found = await self.create(place, copy.deepcopy(document))
        return await self.put(resource, found | {"status": status}) if status is not None else found

    async def put(self, resource: Resource[Any], document: Json) -> Json:
        """As it is, past all checks."""
        meta, new = document["metadata"], copy.deepcopy(document)
        return await self._store(
            "MODIFIED", resource, (resource.plural, meta.get("namespace", ""), meta["name"]), new
        )

    async def change(self, resource: Resource[Any], name: str, **parts: Json) -> Json:
        """Merge into `metadata`, `spec` or `status`."""
        document = copy.deepcopy(self.find(resource, name))
        for part, values in parts.items():
            document[part] = document.get(part, {}) | values
        return await self.put(resource, document)

    async def mark(self, resource: Resource[Any], name: str) -> None:
        await self.change(resource, name, metadata={"deletionTimestamp": format_time(self.clock.now())})

    async def remove(self, resource: Resource[Any], name: str) -> None:
        """At once, whatever anybody thinks of it."""
        document = copy.deepcopy(self.find(resource, name))
        if document:
            key = (resource.plural, document["metadata"].get("namespace", ""), name)
            await self._store("DELETED", resource, key, document)

    async def add_pod(self, document: Json) -> Json:
        status = document.get("status")
        return await self.add(PODS, document, status)

    async def allocate(self, name: str, users: list[Json]) -> None:
        """What a scheduler does, in one go."""
        old = self.find(RESOURCE_CLAIMS, name)["metadata"]
        await self.change(RESOURCE_CLAIMS, name, metadata=old | {"finalizers": [CLAIM_FINALIZER]})
        result = {"request": "r", "driver": "d.example", "pool": "n", "device": "g0"}
        status: Json = {"allocation": {"devices": {"results": [result]}}}
        if self.find(RESOURCE_CLAIMS, name).get("metadata", {}).get("uid") == old["uid"]:
            await self.change(
                RESOURCE_CLAIMS, name, status=status | ({"reservedFor": users} if users else {})
            )

    async def add_template(self, name: str = "t") -> Json:
        return await self.add(RESOURCE_CLAIM_TEMPLATES, template_document(name))


async def ask_a_few(client: Client) -> None:
    """Questions and answers: who had something to write at once has written it."""
    for _ in range(5):
        await client.list(PODS)


@asynccontextmanager
async def cluster(tmp_path: Path, kind: type[Cluster] = Cluster) -> AsyncIterator[tuple[Cluster, Client]]:
    api = kind(SystemClock())
    kubeconfig = tmp_path / "kubeconfig"
    async with served(api, kubeconfig), Client(find_access(kubeconfig, environ={})) as client:
        try:
            yield api, client
        finally:
            await api.leave()
