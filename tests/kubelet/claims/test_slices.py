"""Slices of lost drivers, with time held still."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.errors import DeniedError, UnavailableError
from dray.kubelet.claims.slices import SliceWiper
from dray.runtime.clock import FakeClock
from dray.runtime.tasks import running
from tests.kubelet.claims.world import NODE, Api, Driver, World, register
from tests.waiting import wait_until


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def test_all_slices_go_at_start_however_long_it_takes(clock: FakeClock) -> None:
    api = Api(failures=[DeniedError("who are you?"), UnavailableError("away"), UnavailableError("away")])
    async with running(SliceWiper(api, NODE, clock).run(), name="slices"):
        await clock.advance(0.9)
        assert api.deleted == []
        await clock.advance(10)
    assert (api.deleted, api.failures) == ([(NODE, "")], [])


async def test_a_lost_driver_has_thirty_seconds(clock: FakeClock) -> None:
    api = Api()
    wiper = SliceWiper(api, NODE, clock)
    async with running(wiper.run(), name="slices"):
        await clock.advance(0)
        api.deleted.clear()
        wiper.changed("a.io", False)
        await clock.advance(20)
        wiper.changed("a.io", False)  # does not start the time again
        await clock.advance(9.9)
        assert api.deleted == []
        await clock.advance(0.2)
        assert api.deleted == [(NODE, "a.io")]
        await clock.advance(100)
        assert len(api.deleted) == 1


async def test_a_driver_that_comes_back_keeps_its_slices(clock: FakeClock) -> None:
    api = Api()
    wiper = SliceWiper(api, NODE, clock)
    async with running(wiper.run(), name="slices"):
        await clock.advance(0)
        api.deleted.clear()
        wiper.changed("a.io", False)
        wiper.changed("b.io", False)
        await clock.advance(29)
        wiper.changed("a.io", True)
        await clock.advance(60)
        assert api.deleted == [(NODE, "b.io")]
        api.failures = [UnavailableError("away")] * 100
        wiper.changed("a.io", False)
        await clock.advance(31)
        wiper.changed("a.io", True)  # also while it is tried again and again
        api.failures = []
        await clock.advance(600)
        assert api.deleted == [(NODE, "b.io")]


async def test_through_the_manager(tmp_path: Path, clock: FakeClock) -> None:
    world = World(tmp_path / "state", clock=clock)
    driver = Driver("a.io", tmp_path / "a.sock")
    async with world.running() as manager:
        await clock.advance(0)
        assert world.api.deleted == [(NODE, "")]
        async with driver.serving():
            await register(manager, driver)
            await wait_until(lambda: manager.drivers.is_usable("a.io"))
            await clock.advance(60)
            assert len(world.api.deleted) == 1
        await clock.advance_until(lambda: not manager.drivers.is_usable("a.io"), limit=30)
        await clock.advance(31)
        assert world.api.deleted == [(NODE, ""), (NODE, "a.io")]
