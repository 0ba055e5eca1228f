from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from dray.agent.cluster import AgentCluster, ClusterSide, agent_cluster
from dray.agent.events import Reason
from dray.agent.health_events import changes, tell_health
from dray.api.kinds import EVENTS
from dray.client.client import Client
from dray.dra.parcels import ClaimRef
from dray.drivers.contract import Device, Health
from dray.errors import DeniedError, UnavailableError
from dray.inventory.inventory import InventoryFeed
from dray.runtime.clock import SystemClock
from dray.runtime.tasks import running
from tests.processes.agent_server import NODE, AgentServer, agent_server

WELL, ILL = Health.HEALTHY, Health.UNHEALTHY
CLAIM = ClaimRef("default", "c", "00000000-0000-4000-8000-000000000001")


def device(name: str, health: Health, reason: str = "") -> Device:
    return Device(name, "sim", "x.io/sim", health, reason)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[AgentServer]:
    async with agent_server(tmp_path / "server") as found:
        await found.put_node()
        yield found


@pytest.fixture
async def cluster(server: AgentServer, tmp_path: Path) -> AsyncIterator[AgentCluster]:
    side = ClusterSide(tmp_path / "agent.yaml", NODE, tmp_path / "state", server.access)
    async with agent_cluster(side, SystemClock()) as found:
        yield found


def test_only_what_changed_is_told() -> None:
    before = [device("a", WELL), device("b", ILL), device("c", WELL), device("gone", WELL)]
    after = [device("new", ILL), device("c", ILL), device("b", WELL), device("a", WELL)]
    told = [(one.id, reason) for one, reason in changes(before, after)]
    assert told == [("b", Reason.DEVICE_RECOVERED), ("c", Reason.DEVICE_UNHEALTHY)]


async def test_the_node_the_claim_and_its_pods_are_told(server: AgentServer, cluster: AgentCluster) -> None:
    def holders(one: Device) -> Iterable[tuple[ClaimRef, list[tuple[str, str]]]]:
        return [(CLAIM, [("p", "u")])] if one.id == "a" else []

    feed = InventoryFeed()
    feed.publish([device("a", WELL), device("b", ILL)])
    async with running(tell_health(feed, cluster.events, holders), name="health"):
        feed.publish([device("a", ILL, "it is unplugged"), device("b", ILL)])
        await _told(server.client, 3)
        feed.publish([device("a", WELL), device("b", WELL)])
        await _told(server.client, 7)
    ill = [(one.involved_object.kind, one.message) for one in await server.events("DeviceUnhealthy")]
    assert ill == [
        ("Node", "sim a does not work: it is unplugged"),
        ("Pod", "claim c: sim a does not work: it is unplugged"),
        ("ResourceClaim", "sim a does not work: it is unplugged"),
    ]
    well = [(one.involved_object.kind, one.message) for one in await server.events("DeviceRecovered")]
    assert [kind for kind, text in well if text == "sim b works again"] == ["Node"] and len(well) == 4


async def test_slices_that_are_refused(server: AgentServer, cluster: AgentCluster) -> None:
    cluster.events.publish_failed("sim.dray.internal", UnavailableError("away"))
    cluster.events.publish_failed("sim.dray.internal", DeniedError("no right to create"))
    await _told(server.client, 1)
    (told,) = await server.events("SlicePublishFailed")
    assert (told.message, told.type) == ("sim.dray.internal: no right to create", "Warning")


async def _told(client: Client, count: int) -> None:
    async with asyncio.timeout(60):
        while len((await client.list(EVENTS)).items) < count:
            await asyncio.sleep(0.02)
