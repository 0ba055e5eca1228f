from __future__ import annotations

import asyncio

from dray.drivers.contract import Device, Health
from dray.inventory.inventory import InventoryFeed
from dray.runtime.clock import settle


def device(name: str, health: Health = Health.HEALTHY, resource: str = "example.com/a") -> Device:
    return Device(name, "test", resource, health)


async def test_an_equal_list_is_no_change_whatever_its_order() -> None:
    feed = InventoryFeed()
    first = feed.publish([device("b"), device("a")])
    assert [one.id for one in first.devices] == ["a", "b"]
    assert feed.publish([device("a"), device("b")]) is first
    assert feed.publish([device("a"), device("b", Health.UNHEALTHY)]).generation == first.generation + 1


async def test_every_waiter_gets_the_newest() -> None:
    feed = InventoryFeed()
    async with asyncio.TaskGroup() as group:
        waits = [group.create_task(feed.wait_newer(0)) for _ in range(3)]
        await settle()
        feed.publish([device("a")])
        feed.publish([device("a"), device("b")])
    assert [wait.result().generation for wait in waits] == [2, 2, 2]
    assert await feed.wait_newer(1) is feed.current


async def test_devices_by_resource() -> None:
    feed = InventoryFeed()
    feed.publish([device("a"), device("b", resource="example.com/b")])
    assert [one.id for one in feed.current.of("example.com/b")] == ["b"]
