from __future__ import annotations

from dray.dra.slices.due import Due
from dray.runtime.clock import FakeClock
from dray.runtime.tasks import running


async def test_the_earliest_moment_counts() -> None:
    clock = FakeClock()
    due = Due(clock)
    turns: list[float] = []

    async def take() -> None:
        while True:
            await due.wait()
            turns.append(clock.monotonic())

    async with running(take(), name="turns"):
        await clock.advance(5)
        assert turns == []
        due.within(10)
        await clock.advance(1)
        due.within(3)
        due.within(8)
        await clock.advance(20)
        assert turns == [9]
        due.now()
        due.within(2)
        await clock.advance(5)
        assert turns == [9, 26]


async def test_asked_for_during_a_turn() -> None:
    due = Due(FakeClock())
    due.now()
    await due.wait()
    due.now()
    await due.wait()
