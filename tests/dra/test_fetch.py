from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from dray.api.kinds import RESOURCE_CLAIMS
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.dra.fetch import FetchedClaims
from dray.dra.parcels import ClaimRef
from dray.errors import DeniedError, Error, InvalidError, NotFoundError, UnavailableError
from dray.runtime.clock import SystemClock
from dray.testing.check.api_server import SmallApiServer, served
from tests.waiting import wait_until

DRIVER = "tape.example.com"


class Server(SmallApiServer):
    """Counts questions and how many are open at once; may say no."""

    denies = False
    gets = 0
    at_once = 0
    most = 0
    together = 0
    """The first questions are answered when so many are open."""

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if self.denies:
            raise DeniedError('resourceclaims.resource.k8s.io "a" is forbidden')
        self.gets += request.method == "GET"
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        if self.most < self.together:
            await wait_until(lambda: self.most >= self.together)
        try:
            return await super()._answer(request)
        finally:
            self.at_once -= 1


@asynccontextmanager
async def cluster(tmp_path: Path) -> AsyncIterator[tuple[Server, Client]]:
    server = Server(SystemClock())
    async with served(server, tmp_path / "config"), Client(find_access(tmp_path / "config")) as client:
        yield server, client


async def make(client: Client, name: str, *drivers: str) -> ClaimRef:
    """A claim with one device of each driver; none: it is not allocated."""
    request = {"name": "main", "exactly": {"deviceClassName": "tapes"}}
    document = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
    await client.create(RESOURCE_CLAIMS, document, namespace="ns")
    stored = await client.get_raw(RESOURCE_CLAIMS, name, namespace="ns")
    if drivers:
        results = [{"request": "main", "driver": one, "pool": "p", "device": "d"} for one in drivers]
        stored["status"] = {"allocation": {"devices": {"results": results}}}
        await client.update(RESOURCE_CLAIMS, stored, subresource="status")
    return ClaimRef("ns", name, stored["metadata"]["uid"])


async def test_one_get_for_a_claim(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (server, client):
        ref = await make(client, "a", DRIVER, "other.example.com")
        server.gets = 0
        claim = await FetchedClaims(client, DRIVER).get(ref)
        assert (claim.metadata.uid, server.gets) == (ref.uid, 1)
        assert claim.status.allocation is not None
        assert claim.status.allocation.devices.results[0].device == "d"


async def test_what_is_refused(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (server, client):
        claims = FetchedClaims(client, DRIVER)

        async def refused(ref: ClaimRef, kind: type[Error]) -> str:
            with pytest.raises(kind) as caught:
                await claims.get(ref)
            assert "\n" not in str(caught.value)
            return str(caught.value)

        text = await refused(ClaimRef("ns", "none", "u"), NotFoundError)
        assert text.startswith("claim ns/none does not exist any more")
        text = await refused(await make(client, "raw"), InvalidError)
        assert text == "claim ns/raw is not allocated: only an allocated claim can be prepared"
        text = await refused(await make(client, "other", "b.io", "a.io"), InvalidError)
        assert text == f"claim ns/other has no device of {DRIVER}: it was allocated devices of a.io, b.io"
        ref = await make(client, "mine", DRIVER)
        text = await refused(ClaimRef("ns", "mine", "old"), NotFoundError)
        assert text == f"claim ns/mine was replaced: the pod means the one with UID old, now it is {ref.uid}"
        server.denies = True
        text = await refused(ref, DeniedError)
        assert text.endswith("the driver's account needs get on resourceclaims")


async def test_a_server_that_is_away(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, client):
        ref = await make(client, "a", DRIVER)
    async with Client(find_access(tmp_path / "config")) as client:
        with pytest.raises(UnavailableError):
            await FetchedClaims(client, DRIVER).get(ref)


async def test_many_questions_go_a_few_at_once(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (server, client):
        ref = await make(client, "a", DRIVER)
        server.most, server.together = 0, 4
        claims = FetchedClaims(client, DRIVER, at_once=4)
        await asyncio.gather(*(claims.get(ref) for _ in range(20)))
        assert server.most == 4
