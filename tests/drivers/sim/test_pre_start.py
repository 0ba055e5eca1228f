from __future__ import annotations

import asyncio

import pytest

from dray.drivers.contract import Device, Health
from dray.drivers.sim.config import SimConfig, SimDevices, SimPreStart
from dray.drivers.sim.pre_start import Record, pre_start
from dray.errors import HardwareError
from dray.runtime.clock import FakeClock, settle
from tests.waiting import PATIENCE


class Bench:
    """Entries by name, each with its script, and what happened so far."""

    def __init__(self, **scripts: SimPreStart | None) -> None:
        self.clock = FakeClock()
        self.record = Record(0.0)
        self.config = SimConfig(
            devices=tuple(
                SimDevices(name=name, count=4, pre_start=script) for name, script in scripts.items()
            )
        )

    async def start(self, *ids: str) -> None:
        devices = [Device(name, "sim", "x.io/sim", Health.HEALTHY) for name in ids]
        await pre_start(self.config, devices, self.record, self.clock)


async def test_a_reset_takes_its_time_and_is_counted() -> None:
    bench = Bench(gpu=SimPreStart(action="reset", seconds=0.5))
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        task = group.create_task(bench.start("gpu-0", "gpu-3", "gpu-0"))
        await bench.clock.advance(0.4)
        assert not task.done()
        assert not bench.record.resets
        await bench.clock.advance(0.1)
        assert task.done(), "both at once, not one after the other"
    assert bench.record.resets == {"gpu-0": 1, "gpu-3": 1}
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        group.create_task(bench.start("gpu-0"))
        await bench.clock.advance(0.5)
    assert bench.record.resets == {"gpu-0": 2, "gpu-3": 1}


async def test_a_failure_names_the_device_and_ends_after_some_times() -> None:
    bench = Bench(gpu=SimPreStart(action="fail", times=2))
    for _ in range(2):
        with pytest.raises(HardwareError, match="simulated failure to reset gpu-1: ") as caught:
            await bench.start("gpu-1")
        assert caught.value.device == "gpu-1"
    await bench.start("gpu-1")
    with pytest.raises(HardwareError, match="gpu-2"):  # each device has its own times
        await bench.start("gpu-1", "gpu-2")
    assert not bench.record.resets


async def test_a_failure_may_take_time_too() -> None:
    bench = Bench(gpu=SimPreStart(action="fail", seconds=3))
    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            task = group.create_task(bench.start("gpu-0"))
            await bench.clock.advance(2.9)
            assert not task.done()
            await bench.clock.advance(0.1)
    assert caught.group_contains(HardwareError, depth=1)


async def test_a_hang_ends_when_it_is_cancelled_and_counts_once() -> None:
    bench = Bench(gpu=SimPreStart(action="hang", times=1))
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        task = group.create_task(bench.start("gpu-0"))
        await bench.clock.advance(1e6)
        assert not task.done()
        task.cancel()
        await settle()
        assert task.cancelled()
    async with asyncio.timeout(PATIENCE):
        await bench.start("gpu-0")


async def test_a_hang_under_a_real_deadline() -> None:
    bench = Bench(gpu=SimPreStart(action="hang"))
    for _ in range(2):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await bench.start("gpu-0")


async def test_a_cancelled_reset_is_none() -> None:
    bench = Bench(gpu=SimPreStart(action="reset", seconds=60))
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        task = group.create_task(bench.start("gpu-0"))
        await bench.clock.advance(59)
        task.cancel()
    assert not bench.record.resets
    assert bench.clock.sleepers == 0


async def test_the_slowest_device_counts() -> None:
    quick, slow = SimPreStart(action="reset", seconds=1), SimPreStart(action="reset", seconds=4)
    bench = Bench(gpu=quick, nic=slow)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        task = group.create_task(bench.start("gpu-0", "nic-0"))
        await bench.clock.advance(3)
        assert not task.done()
        await bench.clock.advance(1)
    assert bench.record.resets == {"gpu-0": 1, "nic-0": 1}


async def test_only_the_named_device() -> None:
    bench = Bench(gpu=SimPreStart(action="fail", device="gpu-3"), nic=None)
    await bench.start("gpu-0", "gpu-1", "nic-0")
    with pytest.raises(HardwareError, match="gpu-3"):
        await bench.start("gpu-0", "gpu-3")


async def test_resets_of_the_others_are_done_though_one_fails() -> None:
    bench = Bench(gpu=SimPreStart(action="reset"), nic=SimPreStart(action="fail"))
    with pytest.raises(HardwareError, match="nic-0, nic-1: "):
        await bench.start("gpu-0", "nic-0", "nic-1")
    assert bench.record.resets == {"gpu-0": 1}


async def test_a_changed_script_counts_anew_and_an_equal_one_goes_on() -> None:
    first, second = (
        Bench(gpu=SimPreStart(action="fail", times=1)),
        Bench(gpu=SimPreStart(action="fail", times=1)),
    )
    third = Bench(gpu=SimPreStart(action="fail", seconds=0, times=2))
    second.record = third.record = first.record
    with pytest.raises(HardwareError):
        await first.start("gpu-0")
    await second.start("gpu-0")
    for _ in range(2):
        with pytest.raises(HardwareError):
            await third.start("gpu-0")
    await third.start("gpu-0")
