from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from dray.api.resource.slice import CounterSet
from dray.drivers.contract import Health
from dray.inventory.door_feeds import DoorFeeds
from dray.inventory.doors import DoorOf, Offered
from dray.inventory.holds import Holds
from dray.inventory.inventory import Inventory, InventoryFeed
from dray.inventory.ledger import KubeletLook
from dray.runtime.clock import FakeClock
from dray.runtime.tasks import running
from tests.inventory.conftest import claim, gpu
from tests.waiting import PATIENCE

RESOURCE = "example.com/gpu"


def through(offered: Offered) -> DoorOf:
    return lambda kind, resource: offered


async def when(feed: InventoryFeed, condition: Callable[[Inventory], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition(inventory := feed.current):
            await feed.wait_newer(inventory.generation)


def taints(inventory: Inventory) -> list[str]:
    return [f"{taint.key}={taint.value}" for device in inventory.devices for taint in device.taints]


async def test_both_doors_follow_the_machine_and_the_holders(tmp_path: Path) -> None:
    feed, clock = InventoryFeed(), FakeClock()
    feed.publish([gpu(1)], {"gpu": (CounterSet(name="slots"),)})
    with Holds(tmp_path / "holds", clock) as holds:
        doors = DoorFeeds(feed, holds, through(Offered.BOTH), "{}.x.io".format)
        async with running(doors.run(), name="doors"):
            await when(doors.dra, lambda now: bool(now.devices and now.counters))
            assert not doors.plugin.current.counters
            holds.allocated([claim("a", gpu(1))])
            await when(doors.plugin, lambda now: now.devices[0].health is Health.UNHEALTHY)
            holds.allocated([])
            await when(doors.plugin, lambda now: now.devices[0].health is Health.HEALTHY)
            await holds.take_plugin(RESOURCE, [gpu(1)])
            await when(doors.dra, lambda now: taints(now) == ["gpu.x.io/held-by-plugin="])
            feed.publish([gpu(1), gpu(2)])
            await when(doors.plugin, lambda now: len(now.devices) == 2)


async def test_a_resource_moves_while_a_pod_has_it_and_back_while_a_claim_has_it(tmp_path: Path) -> None:
    feed, clock = InventoryFeed(), FakeClock()
    feed.publish([gpu(1)])
    one = KubeletLook(1.0, {(RESOURCE, "gpu-1"): ("default/one",)})
    with Holds(tmp_path / "holds", clock) as holds:
        doors = DoorFeeds(feed, holds, through(Offered.PLUGIN), "{}.x.io".format)
        doors.refresh()
        await holds.take_plugin(RESOURCE, [gpu(1)])
        async with running(doors.run(), name="doors"):
            doors.want(through(Offered.DRA), "{}.x.io".format)
            assert not doors.plugin.current.devices
            assert taints(doors.dra.current) == ["gpu.x.io/held-by-plugin="]
            holds.looked(one, feed.current.devices)
            await when(doors.dra, lambda now: taints(now) == ["gpu.x.io/held-by-plugin=one"])
            await clock.advance(60)
            for _ in range(2):
                holds.looked(KubeletLook(clock.monotonic()), feed.current.devices)
            await when(doors.dra, lambda now: not taints(now))

            await holds.take_claim(claim("a", gpu(1)))
            doors.want(through(Offered.PLUGIN), "{}.x.io".format)
            assert not doors.dra.current.devices
            assert doors.plugin.current.devices[0].reason == "claim default/a has it"
            holds.allocated([])
            await holds.claim_door("gpu").give_back(claim("a"))
            await when(doors.plugin, lambda now: now.devices[0].health is Health.HEALTHY)
