from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dray.dra.health import LIST_BYTES, MESSAGE_BYTES, HealthStreams, health_list
from dray.drivers.contract import Device, Health
from dray.inventory.inventory import Inventory, InventoryFeed
from dray.runtime.clock import Clock, FakeClock, SystemClock, settle
from dray.wire import health
from dray.wire.connect import connect
from dray.wire.gen.dra_health_v1_pb2 import NodeWatchResourcesRequest, NodeWatchResourcesResponse
from dray.wire.serve import serve
from tests.waiting import wait_until

OK, BAD = Health.HEALTHY, Health.UNHEALTHY


def tape(number: int, state: Health = OK, reason: str = "", kind: str = "tape") -> Device:
    return Device(f"{kind}{number}", kind, "", state, reason)


def tapes(inventory: Inventory) -> Iterable[Device]:
    return (device for device in inventory.devices if device.kind == "tape")


def seen(message: NodeWatchResourcesResponse) -> list[tuple[str, int, str]]:
    return [(one.device.device_name, one.health, one.message) for one in message.devices]


@pytest.fixture
def feed() -> InventoryFeed:
    feed = InventoryFeed()
    feed.publish([tape(2), tape(1), tape(1, kind="disk")])
    return feed


@asynccontextmanager
async def watching(
    feed: InventoryFeed, path: Path, clock: Clock, version: str = health.V1, repeat: float = 10.0
) -> AsyncIterator[AsyncIterator[NodeWatchResourcesResponse]]:
    streams = HealthStreams(feed, tapes, "node-1", clock, repeat)
    async with (
        serve(path, [health.HealthService(streams)]),
        connect(path) as channel,
        health.health_client(channel, version).node_watch_resources(NodeWatchResourcesRequest()) as answers,
        asyncio.timeout(60),
    ):
        yield answers


@pytest.mark.parametrize("version", health.VERSIONS)
async def test_all_devices_now_and_after_each_change(
    feed: InventoryFeed, tmp_path: Path, version: str
) -> None:
    before = int(time.time())
    async with watching(feed, tmp_path / "s", SystemClock(), version) as answers:
        first = await anext(answers)
        assert seen(first) == [("tape1", 1, ""), ("tape2", 1, "")]
        assert {one.device.pool_name for one in first.devices} == {"node-1"}
        assert {one.health_check_timeout_seconds for one in first.devices} == {30}
        assert before <= first.devices[0].last_updated_time <= time.time()
        feed.publish([tape(1), tape(2, BAD, "XID 79"), tape(1, kind="disk")])
        assert seen(await anext(answers)) == [("tape1", 1, ""), ("tape2", 2, "XID 79")]
        feed.publish([tape(1)])
        assert seen(await anext(answers)) == [("tape1", 1, "")]
        feed.publish([])
        assert seen(await anext(answers)) == []


async def test_told_again_before_it_is_stale(feed: InventoryFeed, tmp_path: Path) -> None:
    clock = FakeClock()
    async with watching(feed, tmp_path / "s", clock) as answers:
        first = await anext(answers)
        await wait_until(lambda: clock.sleepers)
        await clock.advance(10)
        second = await anext(answers)
        assert seen(first) == seen(second)
        assert second.devices[0].last_updated_time == first.devices[0].last_updated_time + 10


async def test_what_others_do_is_not_told(feed: InventoryFeed, tmp_path: Path) -> None:
    clock = FakeClock()
    async with watching(feed, tmp_path / "s", clock) as answers:
        await anext(answers)
        while not clock.sleepers:  # it waits for news
            await asyncio.sleep(0.005)
        feed.publish([tape(1), tape(2), tape(1, BAD, kind="disk")])
        await settle()
        feed.publish([tape(1, BAD), tape(2), tape(1, BAD, kind="disk")])
        assert seen(await anext(answers)) == [("tape1", 2, ""), ("tape2", 1, "")]


async def test_several_watch_and_one_that_goes_harms_nobody(feed: InventoryFeed, tmp_path: Path) -> None:
    path = tmp_path / "s"
    streams = HealthStreams(feed, tapes, "node-1", SystemClock())
    async with serve(path, [health.HealthService(streams)]), connect(path) as channel, connect(path) as other:
        request = NodeWatchResourcesRequest()
        async with health.health_client(channel, health.V1).node_watch_resources(request) as stays:
            async with health.health_client(other, health.V1ALPHA1).node_watch_resources(request) as goes:
                assert seen(await anext(goes)) == seen(await anext(stays))
            feed.publish([tape(1, BAD)])
            assert seen(await anext(stays)) == [("tape1", 2, "")]


def test_words_are_cut_at_whole_characters() -> None:
    (entry,) = health_list([tape(1, BAD, "é" * 600 + "x")], "p", 0).devices
    assert len(entry.message.encode()) <= MESSAGE_BYTES
    assert entry.message == "é" * 512


def test_a_list_that_is_too_long_goes_without_words() -> None:
    devices = [tape(number, BAD, "x" * 2000) for number in range(4000)]
    message = health_list(devices, "p", 0)
    assert message.ByteSize() < LIST_BYTES
    assert len(message.devices) == 4000
    assert {one.message for one in message.devices} == {""}


def test_two_devices_of_one_name_are_told_once() -> None:
    assert len(health_list([tape(1), tape(1)], "p", 0).devices) == 1
