"""A server that is away, refuses, forgets fields or is of another version; and somebody who does not give up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from dray.api.kinds import NODES, RESOURCE_SLICES
from dray.dra.parcels import NodeRef
from dray.dra.slices.known_slices import NO_API
from dray.dra.slices.layout import PoolContents
from dray.dra.slices.publish import PublishConfig, SlicePublisher
from dray.dra.slices.reconcile import PoolOwner
from dray.errors import DeniedError, InvalidError
from dray.runtime.backoff import BackoffPolicy
from dray.runtime.clock import FakeClock, settle
from dray.testing.check.api_server import Place
from tests.controllers.server import Cluster, cluster
from tests.dra.pools import DRIVER, NODE, OWNER, counter_set, pool, pool_device
from tests.dra.test_known_slices import known_by
from tests.dra.test_publish import QUICK, Seen, looked_again, publishing, stored
from tests.dra.tiny import PausesNoted
from tests.waiting import wait_until

Json = dict[str, Any]
SLOW = PublishConfig(calm=BackoffPolicy(first=3600.0, limit=3600.0))
"""What the watch tells is looked at after the test."""


class Server(Cluster):
    """`forget` is done to every slice that is stored; `says` is its version."""

    forget: Callable[[Json], None] | None = None
    refuses: Exception | None = None
    refuses_reads: Exception | None = None
    says: str = "36"
    hides_nodes: bool = False
    is_silent: bool = False
    kept_back: int = 0
    """How many watches would have had something to say while it was silent."""
    writes: int = 0

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/version":
            return web.json_response({"major": "1", "minor": self.says})
        if self.hides_nodes and "/nodes" in request.path:
            raise DeniedError("user may not get nodes")
        if request.method == "GET" and self.refuses_reads is not None:
            raise self.refuses_reads
        if request.method in ("POST", "PUT"):
            self.writes += 1
            if self.refuses is not None:
                raise self.refuses
        return await super()._answer(request)

    async def create(self, place: Place, document: Json) -> Json:
        self._drop(document)
        return await super().create(place, document)

    async def update(self, place: Place, document: Json) -> Json:
        self._drop(document)
        return await super().update(place, document)

    async def _wait_newer(self, version: int) -> None:
        await super()._wait_newer(version)
        self.kept_back += self.is_silent
        while self.is_silent and not self.is_leaving:
            await asyncio.sleep(0.01)

    async def touch(self) -> None:
        """Change a slice in a way that nobody minds."""
        name = self.every(RESOURCE_SLICES)[0]["metadata"]["name"]
        old = self.find(RESOURCE_SLICES, name)["metadata"]
        await self.change(RESOURCE_SLICES, name, metadata={"labels": {"version": old["resourceVersion"]}})

    def _drop(self, document: Json) -> None:
        if self.forget is not None:
            self.forget(document.get("spec", {}))


async def owner_at(server: Server) -> PoolOwner:
    """With a node that is really there."""
    node = await server.add(NODES, {"metadata": {"name": NODE.name}})
    return PoolOwner(DRIVER, NodeRef(NODE.name, node["metadata"]["uid"]))


def without_taints(spec: Json) -> None:
    for device in spec.get("devices", ()):
        device.pop("taints", None)


async def test_dropped_fields_are_told_once_and_not_sent_for_ever(tmp_path: Path) -> None:
    async with cluster(tmp_path, Server) as (server, client):
        assert isinstance(server, Server)

        def forget(spec: Json) -> None:
            for device in spec.get("devices", ()):
                device.pop("allowMultipleAllocations", None)

        server.forget = forget
        devices = [msgspec.structs.replace(one, allow_multiple_allocations=True) for one in pool(130).devices]
        owner = await owner_at(server)
        async with publishing(client, PoolContents(tuple(devices)), owner) as (publisher, seen):
            await looked_again(seen, server.touch)
            assert server.writes == 2
            assert seen.gates == [["DRAConsumableCapacity"]]
            # Something else changes: it is written, and only that slice.
            devices[-1] = pool_device("d0129", mark="new")
            publisher.want(PoolContents(tuple(devices)))
            await publisher.wait_published()
            await looked_again(seen, server.touch)
            assert server.writes == 3
            assert len(seen.gates) == 1
            # After the next registration the server may be another one.
            server.forget = None
            publisher.wake()
            await wait_until(lambda: server.writes >= 5)
            await looked_again(seen, server.touch)
            assert server.writes == 5
        found = [device for one in await stored(client) for device in one.spec.devices or ()]
        assert found == devices


async def test_a_device_whose_taint_is_dropped_is_taken_back(tmp_path: Path) -> None:
    async with cluster(tmp_path, Server) as (server, client):
        assert isinstance(server, Server)
        server.forget = without_taints
        healthy = pool(3).devices
        contents = PoolContents((*healthy, pool_device("e", taint="gone")))
        async with publishing(client, contents, await owner_at(server), SLOW) as (publisher, seen):
            assert server.writes == 2
            # Known by now, so the next one is not even shown.
            shown = set[str]()
            publisher.want(PoolContents((*healthy, pool_device("f", taint="gone"), pool_device("g"))))
            await publisher.wait_published()
            for change in server.history[-1:]:
                shown |= {device["name"] for device in change.document["spec"]["devices"]}
            assert shown == {*(one.name for one in healthy), "g"}
            assert seen.gates == [["DRADeviceTaints"]]
            server.forget = None
            publisher.wake()
            await wait_until(lambda: "f" in str(server.every(RESOURCE_SLICES)[0]["spec"]["devices"]))
            await publisher.wait_published()
        (one,) = await stored(client)
        assert [device.name for device in one.spec.devices or () if device.taints] == ["f"]


async def test_a_refusal_is_told_with_its_field_and_not_hammered(tmp_path: Path) -> None:
    async with cluster(tmp_path, Server) as (server, client):
        assert isinstance(server, Server)
        server.refuses = InvalidError("no", field="spec.devices[3].name")
        seen, clock = Seen(), PausesNoted()
        async with SlicePublisher(client, OWNER, QUICK, clock=clock, observer=seen) as publisher:
            publisher.want(pool(200))
            await wait_until(lambda: len(seen.failures) >= 2 and clock.pauses[-1] > QUICK.retry.limit * 2)
            assert clock.pauses[-1] == pytest.approx(QUICK.invalid_retry, abs=1)
            assert len(seen.failures) == 2
            server.refuses = None
            publisher.want(pool(200, "new"))
            await asyncio.wait_for(publisher.wait_published(), 60)


async def test_a_question_that_is_refused_is_asked_again(tmp_path: Path) -> None:
    """A certificate that is not trusted yet is an InvalidError too, and has nothing to do with what is wanted."""
    async with cluster(tmp_path, Server) as (server, client):
        assert isinstance(server, Server)
        server.refuses_reads = InvalidError("not trusted")
        seen = Seen()
        async with SlicePublisher(client, OWNER, QUICK, observer=seen) as publisher:
            publisher.want(pool(3))
            await wait_until(lambda: len(seen.failures) > 3)
            server.refuses_reads = None
            await asyncio.wait_for(publisher.wait_published(), 60)


async def test_a_refusal_in_the_middle_does_not_drive_the_generation_up(tmp_path: Path) -> None:
    """What was written before it comes back through the watch, and is no reason to try again."""
    async with cluster(tmp_path, Server) as (server, client):
        assert isinstance(server, Server)
        clock = PausesNoted()
        async with (
            publishing(client, pool(100), OWNER, clock=clock) as (publisher, seen),
            known_by(client) as (_, noticed),
        ):

            def refuse(method: str, place: Place, is_done: bool) -> None:
                if method == "POST" and not is_done:
                    raise InvalidError("no")

            server.fails = refuse
            publisher.want(pool(200))
            await wait_until(lambda: len(seen.failures) >= 2 and clock.pauses[-1] > QUICK.retry.limit * 2)
            known = len(noticed)
            await server.touch()
            await wait_until(lambda: len(noticed) > known)  # and with it all that was before
            await settle()
            assert clock.pauses[-1] == pytest.approx(QUICK.invalid_retry, abs=1)
            assert len(seen.failures) <= 3
            (one,) = await stored(client)
            assert one.spec.pool.generation <= 4
            server.fails = None
            publisher.want(pool(201))
            await asyncio.wait_for(publisher.wait_published(), 60)
            assert len(await stored(client)) == 2


async def test_the_watch_is_silent_when_the_kubelet_registers_the_driver(tmp_path: Path) -> None:
    async with cluster(tmp_path, Server) as (server, client):
        assert isinstance(server, Server)
        async with publishing(client, pool(3), await owner_at(server)) as (publisher, seen):
            await looked_again(seen, server.touch)
            server.is_silent = True
            for one in server.every(RESOURCE_SLICES):
                await server.remove(RESOURCE_SLICES, one["metadata"]["name"])
            await wait_until(lambda: server.kept_back)
            await settle()
            assert server.every(RESOURCE_SLICES) == []
            publisher.wake()
            await wait_until(lambda: server.every(RESOURCE_SLICES))
            server.is_silent = False


async def test_the_server_is_away_for_a_while(tmp_path: Path) -> None:
    async with cluster(tmp_path, Server) as (server, client):
        assert isinstance(server, Server)
        server.is_away = True
        seen = Seen()
        async with SlicePublisher(client, OWNER, QUICK, observer=seen) as publisher:
            publisher.want(pool(3))
            await wait_until(lambda: len(seen.failures) > 2)
            server.is_away = False
            await asyncio.wait_for(publisher.wait_published(), 60)
            server.is_away = True
            publisher.want(pool(4))
            await wait_until(lambda: len(seen.failures) > 5)
            server.is_away = False
            await asyncio.wait_for(publisher.wait_published(), 60)
        (one,) = await stored(client)
        assert len(one.spec.devices or ()) == 4


async def test_a_server_without_dra_is_named(tmp_path: Path) -> None:
    async with cluster(tmp_path, Server) as (server, client):
        server.lacks = RESOURCE_SLICES
        seen = Seen()
        async with SlicePublisher(client, OWNER, QUICK, observer=seen) as publisher:
            publisher.want(pool(3))
            await wait_until(lambda: seen.failures)
            assert str(seen.failures[0]) == NO_API
            server.lacks = None
            await asyncio.wait_for(publisher.wait_published(), 60)


async def test_the_layout_follows_the_server(tmp_path: Path) -> None:
    """It was 1.34 when it was asked, and takes only what 1.35 takes."""
    contents = PoolContents((pool_device("p", counters=["g"]),), (counter_set("g"),))
    async with cluster(tmp_path, Server) as (server, client):
        assert isinstance(server, Server)
        server.says = "34"
        seen = Seen()
        async with SlicePublisher(client, OWNER, QUICK, observer=seen) as publisher:
            publisher.want(contents)
            await wait_until(lambda: seen.failures)
            assert "only one of `sharedCounters` or `devices`" in str(seen.failures[0])
            server.says = "35"
            await asyncio.wait_for(publisher.wait_published(), 60)
        assert len(await stored(client)) == 2


async def test_no_right_to_write(tmp_path: Path) -> None:
    async with cluster(tmp_path, Server) as (server, client):
        assert isinstance(server, Server)
        server.refuses = DeniedError("user may not create resourceslices")
        seen = Seen()
        async with SlicePublisher(client, OWNER, QUICK, observer=seen) as publisher:
            publisher.want(pool(3))
            await wait_until(lambda: len(seen.failures) > 1)
            server.refuses = None
            await asyncio.wait_for(publisher.wait_published(), 60)


async def test_a_node_that_we_may_not_read_is_taken_on_trust(tmp_path: Path) -> None:
    async with cluster(tmp_path, Server) as (server, client):
        assert isinstance(server, Server)
        server.hides_nodes = True
        async with publishing(client, pool(1), OWNER) as (publisher, seen):
            name = server.every(RESOURCE_SLICES)[0]["metadata"]["name"]
            await server.remove(RESOURCE_SLICES, name)
            publisher.wake()
            await wait_until(lambda: server.every(RESOURCE_SLICES))
            assert seen.failures == []
            assert server.every(RESOURCE_SLICES)[0]["metadata"]["ownerReferences"][0]["uid"] == NODE.uid


async def test_who_changes_slices_again_and_again_is_met_with_patience(tmp_path: Path) -> None:
    config = PublishConfig(calm=BackoffPolicy(first=0.01, limit=30.0, jitter=0.0), quiet=3600.0)
    clock = FakeClock()
    async with cluster(tmp_path, Server) as (server, client):
        assert isinstance(server, Server)
        async with publishing(client, pool(3), OWNER, config, clock):
            before = server.writes
            for turn in range(6):
                await wait_until(lambda: clock.sleepers)  # our own write came back
                await clock.advance(30)
                await wait_until(lambda: not clock.sleepers)
                document = server.every(RESOURCE_SLICES)[0]
                await server.put(RESOURCE_SLICES, document | {"spec": document["spec"] | {"devices": []}})
                await wait_until(lambda: clock.sleepers)
                wait = 0.01 * 2**turn
                await clock.advance(wait * 0.9)
                assert (clock.sleepers, server.writes) == (1, before + turn)
                await clock.advance(wait * 0.2)
                await wait_until(lambda: server.writes == before + turn + 1)  # noqa: B023
