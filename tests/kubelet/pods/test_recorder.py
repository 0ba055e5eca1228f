"""Events on their way to an API server that answers, refuses, forgets or is away: over real HTTP."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import msgspec
import pytest

from dray.api.core import Pod
from dray.client.access import ClusterAccess
from dray.client.client import Client
from dray.errors import InvalidError
from dray.kubelet.pods import events
from dray.kubelet.pods.recorder import PACE, ApiEvents, EventLog
from dray.runtime.clock import FakeClock
from dray.runtime.tasks import running
from tests.client.servers import ScriptedServer, reply, scripted, status
from tests.kubelet.pods.pods import pod
from tests.waiting import PATIENCE, wait_until


def served(uid: str = "u1") -> Pod:
    """A pod that has an object at the server."""
    local = pod("a")
    metadata = msgspec.structs.replace(local.metadata, resource_version="7", uid=uid)
    return msgspec.structs.replace(local, metadata=metadata)


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with scripted() as server:
        yield server


@pytest.fixture
async def client(server: ScriptedServer) -> AsyncIterator[Client]:
    async with Client(ClusterAccess(server.url)) as client:
        yield client


@pytest.fixture
def told(client: Client, clock: FakeClock) -> ApiEvents:
    return ApiEvents(client, "node-1", clock)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def wait_seen(server: ScriptedServer, count: int) -> None:
    await wait_until(lambda: len(server.seen) >= count)


async def test_an_event_is_made_once_and_then_counted(
    server: ScriptedServer, told: ApiEvents, clock: FakeClock
) -> None:
    async with running(told.run(), name="events"):
        told.record(events.killing(served(), "a"))
        await wait_seen(server, 1)
        await clock.advance(5)
        told.record(events.killing(served(), "a"))
        await wait_seen(server, 2)
    made, counted = server.seen
    assert (made.method, made.target) == ("POST", "/api/v1/namespaces/ns/events")
    name = made.document["metadata"]["name"]
    assert made.document == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "ns"},
        "involvedObject": {
            "kind": "Pod",
            "namespace": "ns",
            "name": "p",
            "uid": "u1",
            "apiVersion": "v1",
            "resourceVersion": "7",
            "fieldPath": "spec.containers{a}",
        },
        "reason": "Killing",
        "message": "Stopping container a",
        "source": {"component": "kubelet", "host": "node-1"},
        "firstTimestamp": "2030-01-01T00:00:00Z",
        "lastTimestamp": "2030-01-01T00:00:00Z",
        "count": 1,
        "type": "Normal",
        "reportingComponent": "kubelet",
        "reportingInstance": "node-1",
    }
    assert (counted.method, counted.target) == ("PATCH", f"/api/v1/namespaces/ns/events/{name}")
    assert (counted.document["count"], counted.document["lastTimestamp"]) == (2, "2030-01-01T00:00:05Z")


async def test_a_server_that_is_away_gets_them_later_in_order(
    server: ScriptedServer, told: ApiEvents, clock: FakeClock
) -> None:
    away = status(503, "ServiceUnavailable", "starting")
    server.answer(away, reply())
    async with running(told.run(), name="events"):
        for event in (events.created(served(), "a"), events.started(served(), "a")):
            told.record(event)
        await wait_seen(server, 1)
        async with asyncio.timeout(PATIENCE):
            while len(server.seen) < 3:
                await clock.advance(1)
                await asyncio.sleep(0.005)
    assert [one.document["reason"] for one in server.seen] == ["Created", "Created", "Started"]


async def test_what_is_refused_is_left_out_and_told_once(
    server: ScriptedServer, told: ApiEvents, caplog: pytest.LogCaptureFixture
) -> None:
    refused = status(403, "Forbidden", "the namespace is being terminated")
    server.answer(refused, refused, reply())
    async with running(told.run(), name="events"):
        for event in (events.created, events.started, events.killing):
            told.record(event(served(), "a"))
        await wait_seen(server, 3)
    assert [one.document["reason"] for one in server.seen] == ["Created", "Started", "Killing"]
    assert sum("do not reach" in line.message for line in caplog.records) == 1


async def test_while_nobody_takes_them_the_newest_wait(
    server: ScriptedServer, told: ApiEvents, clock: FakeClock
) -> None:
    for number in range(PACE.waiting + 5):
        told.record(events.created(served(f"u{number}"), "a"))
    async with running(told.run(), name="events"), asyncio.timeout(PATIENCE):
        while len(server.seen) < PACE.waiting:
            await clock.advance(1)
            await asyncio.sleep(0.005)
    uids = [one.document["involvedObject"]["uid"] for one in server.seen]
    assert uids == [f"u{number}" for number in range(5, PACE.waiting + 5)]


async def test_a_pod_without_an_object_has_its_events_in_the_log_alone(
    server: ScriptedServer, told: ApiEvents, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with running(told.run(), name="events"):
        for recorder in (told, EventLog(clock)):
            for _ in range(3):
                recorder.record(events.failed(pod("a"), "a", InvalidError("it broke")))
                recorder.record(events.started(pod("a"), "a"))
        told.record(events.killing(served(), "a"))
        await wait_seen(server, 1)
    assert len(server.seen) == 1, "only the last one, of a pod that has an object"
    lines = [(line.levelname, line.message) for line in caplog.records if "dray.kubelet.events" in line.name]
    assert lines[:4] == [("WARNING", "Error: it broke"), ("INFO", "Container started")] * 2
    assert lines[4:] == [("INFO", "Stopping container a")]
