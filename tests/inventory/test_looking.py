from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dray.drivers.contract import Device, Discovery, Driver, Health, Prepared
from dray.errors import HardwareError
from dray.hardware.host_root import HostRoot, Place
from dray.inventory.inventory import Inventory, InventoryFeed
from dray.inventory.looking import Lookout, Pace
from dray.inventory.remembered import RememberedDevices
from dray.runtime.clock import Clock, FakeClock, SystemClock
from dray.runtime.tasks import running
from tests.drivers.machine import DRIVERS, build
from tests.waiting import PATIENCE, Sleeps, wait_until


@dataclass
class Lamps:
    """A device for each file in /dev/lamps; `broken` fails, `again_in` asks for another look."""

    kind: str = "lamp"
    broken: str = ""
    again_in: float | None = None
    looks: int = 0
    known: list[tuple[str, ...]] = field(default_factory=list)

    def discover(self, root: Place, known: Sequence[Device] = ()) -> Discovery:
        self.looks += 1
        self.known.append(tuple(device.id for device in known))
        if self.broken:
            raise HardwareError(self.broken)
        names = root.names("/dev/lamps") if root.exists("/dev/lamps") else []
        paths = [f"/dev/lamps/{name}" for name in names]
        devices = [
            Device(path[-1], self.kind, "x.io/lamp", Health.HEALTHY, paths=(path,), watch=(path,))
            for path in paths
        ]
        return Discovery(tuple(devices), (), ("/dev/lamps",), ("/dev/lamps",), self.again_in)

    def prepare(self, resource: str, devices: Sequence[Device]) -> Prepared:
        raise NotImplementedError


@dataclass
class Stack:
    root: Path
    feed: InventoryFeed
    lookout: Lookout

    async def wait(self, condition: Callable[[Inventory], bool], limit: float = PATIENCE) -> Inventory:
        async with asyncio.timeout(limit):
            while not condition(inventory := self.feed.current):
                await self.feed.wait_newer(inventory.generation)
        return inventory

    async def wait_health(self, **wanted: str) -> None:
        await self.wait(lambda inventory: {d.id: d.health.value for d in inventory.devices} == wanted)


@asynccontextmanager
async def looking(
    root: Path, *drivers: Driver, pace: Pace | None = None, clock: Clock | None = None
) -> AsyncIterator[Stack]:
    feed = InventoryFeed()
    lookout = Lookout(HostRoot(root), feed, clock or SystemClock(), pace=pace)
    lookout.set_drivers(drivers)
    async with running(lookout.run(), name="lookout"):
        await lookout.wait_looked()
        yield Stack(root, feed, lookout)


@pytest.fixture
def lamps(tmp_path: Path) -> Path:
    path = tmp_path / "dev" / "lamps"
    path.mkdir(parents=True)
    (path / "a").touch()
    (path / "b").touch()
    return path


async def test_what_comes_and_goes_is_seen(tmp_path: Path, lamps: Path) -> None:
    async with looking(tmp_path, Lamps()) as stack:
        await stack.wait_health(a="Healthy", b="Healthy")
        (lamps / "a").unlink()
        await stack.wait_health(b="Healthy")
        (lamps / "c").touch()
        await stack.wait_health(b="Healthy", c="Healthy")
        lamps.rename(lamps.with_name("away"))
        await stack.wait_health()
        lamps.with_name("away").rename(lamps)
        await stack.wait_health(b="Healthy", c="Healthy")


async def test_what_vanished_is_told_before_the_full_look(tmp_path: Path, lamps: Path) -> None:
    seen: list[dict[str, str]] = []

    async def follow(stack: Stack) -> None:
        inventory = stack.feed.current
        while True:
            inventory = await stack.feed.wait_newer(inventory.generation)
            seen.append({device.id: device.reason for device in inventory.devices})

    clock = FakeClock()
    async with (
        looking(tmp_path, Lamps(), clock=clock) as stack,
        running(follow(stack), name="reader"),
    ):
        await vanish(stack, clock, lamps / "a")
    assert seen[0] == {"a": "/dev/lamps/a does not exist", "b": ""}


async def vanish(stack: Stack, clock: FakeClock, lamp: Path) -> None:
    """Remove it while no look is under way, and let the full look begin only when somebody was told."""
    await wait_until(lambda: clock.sleepers)
    told = stack.feed.current.generation
    lamp.unlink()
    await stack.wait(lambda inventory: inventory.generation > told)
    await clock.advance(1.0)
    await stack.wait_health(b="Healthy")


async def test_a_driver_that_fails_keeps_its_devices_and_disturbs_no_other(
    tmp_path: Path, lamps: Path
) -> None:
    good, bad = Lamps(), Lamps(kind="bad")
    async with looking(tmp_path, bad, good) as stack:
        bad.broken = "the bus is stuck"
        (lamps / "c").touch()
        await stack.wait(
            lambda inventory: [d.id for d in inventory.devices if d.kind == "lamp"] == ["a", "b", "c"]
        )
        assert [d.id for d in stack.feed.current.devices if d.kind == "bad"] == ["a", "b"]


async def test_known_devices_are_those_of_the_last_look(tmp_path: Path, lamps: Path) -> None:
    driver = Lamps()
    async with looking(tmp_path, driver) as stack:
        (lamps / "a").unlink()
        await stack.wait_health(b="Healthy")
        (lamps / "c").touch()
        await stack.wait_health(b="Healthy", c="Healthy")
    assert driver.known[0] == ()
    assert ("b",) in driver.known


async def test_a_driver_may_ask_for_the_next_look(tmp_path: Path) -> None:
    driver = Lamps(again_in=0.02)
    async with looking(tmp_path, driver) as stack:
        await wait_until(lambda: driver.looks >= 5)
        assert stack.lookout.looks >= 5


async def test_new_drivers_look_at_once(tmp_path: Path, lamps: Path) -> None:
    async with looking(tmp_path, Lamps()) as stack:
        stack.lookout.set_drivers([])
        await stack.lookout.wait_looked()
        assert stack.feed.current.devices == ()
        stack.lookout.set_drivers([Lamps()])
        await stack.lookout.wait_looked()
        assert len(stack.feed.current.devices) == 2


def test_nothing_happens_when_nothing_happens(tmp_path: Path, lamps: Path) -> None:
    driver, clock, sleeps = Lamps(), FakeClock(), Sleeps()

    async def scenario() -> None:
        pace = Pace(rest=300, settle=1, blind=300)
        async with looking(tmp_path, driver, pace=pace, clock=clock) as stack:
            for _ in range(5):  # the last look after the events of the beginning is among these
                await wait_until(lambda: clock.sleepers)
                await clock.advance(1)
            await wait_until(lambda: clock.sleepers)
            looks = driver.looks
            await sleeps.wait_asleep()
            await clock.advance(290)
            await sleeps.wait_asleep()
            assert stack.lookout.looks == driver.looks == looks
            await clock.advance(10)
            await wait_until(lambda: driver.looks > looks)

    sleeps.run(scenario)


async def test_one_line_for_each_thing_that_happens(
    tmp_path: Path, lamps: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "dray.inventory")
    clock = FakeClock()
    async with looking(tmp_path, Lamps(), clock=clock) as stack:
        await vanish(stack, clock, lamps / "a")
    lines = [
        (record.message, record.__dict__["fields"].get("id"))
        for record in caplog.records
        if record.name == "dray.inventory"
    ]
    wanted = [("device found", "a"), ("device found", "b"), ("device unhealthy", "a"), ("device gone", "a")]
    assert [line for line in lines if line[0].startswith("device")] == wanted


async def test_devices_are_known_again_after_a_restart(tmp_path: Path, lamps: Path) -> None:
    file = tmp_path / "state" / "devices"
    for known in ((), ("a", "b")):
        feed, driver = InventoryFeed(), Lamps()
        with RememberedDevices(file) as remembered:
            lookout = Lookout(HostRoot(tmp_path), feed, FakeClock(), remembered=remembered)
            lookout.set_drivers([driver])
            async with running(lookout.run(), name="lookout"):
                await lookout.wait_looked()
                assert driver.known[0] == known
                await wait_until(lambda: len(remembered.devices) == 2)


@pytest.mark.parametrize("kind", sorted(DRIVERS))
async def test_every_kind_is_followed_by_its_nodes(kind: str, tmp_path: Path) -> None:
    """Whatever a kind watches is enough for the agent to notice, without the kernel's notices and without polling."""
    machine = build(tmp_path / "host")
    before = machine.look(kind)
    watched = [(device, path) for device in before.values() if device.resource for path in device.watch]
    async with looking(machine.host.root, DRIVERS[kind]) as stack:
        for device, path in watched:
            place = machine.host.root / path.lstrip("/")
            os.rename(place, place.with_name("hidden"))
            await stack.wait(unhealthy(device.id))
            os.rename(place.with_name("hidden"), place)
            await stack.wait(healthy(device.id))


def healthy(name: str) -> Callable[[Inventory], bool]:
    return lambda inventory: any(
        device.id == name and device.health is Health.HEALTHY for device in inventory.devices
    )


def unhealthy(name: str) -> Callable[[Inventory], bool]:
    is_healthy = healthy(name)
    return lambda inventory: not is_healthy(inventory)
