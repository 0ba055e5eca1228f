from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from dray.runtime.clock import FakeClock, SystemClock, settle


async def test_fake_clock_wakes_sleepers_at_their_own_instant_in_order() -> None:
    clock = FakeClock()
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.monotonic()))

    async with asyncio.TaskGroup() as group:
        for name, seconds in [("late", 3.0), ("early", 1.0), ("mid", 2.0), ("never", 9.0)]:
            group.create_task(sleeper(name, seconds))
        await settle()
        assert clock.sleepers == 4
        await clock.advance(3.0)
        assert woken == [("early", 1.0), ("mid", 2.0), ("late", 3.0)]
        await clock.advance(6.0)
    assert woken[-1] == ("never", 9.0)


async def test_a_sleeper_that_sleeps_again_is_woken_within_the_same_advance() -> None:
    clock = FakeClock()
    ticks: list[float] = []

    async def ticker() -> None:
        for _ in range(5):
            await clock.sleep(1.0)
            ticks.append(clock.monotonic())

    async with asyncio.TaskGroup() as group:
        group.create_task(ticker())
        await settle()
        await clock.advance(5.0)
    assert ticks == [1.0, 2.0, 3.0, 4.0, 5.0]


async def test_advance_until_gives_up() -> None:
    clock = FakeClock()
    await clock.advance_until(lambda: clock.monotonic() >= 7)
    assert clock.monotonic() == 7
    with pytest.raises(TimeoutError):
        await clock.advance_until(lambda: False, limit=5)


async def test_fake_now_follows_advance_and_is_utc() -> None:
    start = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
    clock = FakeClock(start)
    await clock.advance(61.5)
    assert clock.now() == start + timedelta(seconds=61.5)
    assert clock.now().tzinfo is UTC


async def test_cancelled_sleepers_do_not_count_and_are_not_woken() -> None:
    clock = FakeClock()
    task = asyncio.ensure_future(clock.sleep(1))
    await settle()
    task.cancel()
    await settle()
    assert clock.sleepers == 0
    await clock.advance(2)
    assert task.cancelled()


async def test_system_clock_moves_on_its_own() -> None:
    clock = SystemClock()
    before, wall = clock.monotonic(), clock.now()
    await clock.sleep(0.01)
    await clock.sleep(-1)
    assert clock.monotonic() > before
    assert clock.now() > wall
    assert clock.now().tzinfo is UTC
