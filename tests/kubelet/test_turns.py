from __future__ import annotations

import asyncio
import time

import pytest

from dray.kubelet.turns import Pace, Turns
from dray.runtime.clock import settle
from tests.waiting import PATIENCE, RestingLoop


async def test_one_at_a_time_for_each_key_in_order() -> None:
    turns, done, gate = Turns(), list[str](), asyncio.Event()

    async def come(key: str, name: str) -> None:
        async with turns.turn(key):
            done.append(f"{name} in")
            await gate.wait()
            done.append(f"{name} out")

    async with asyncio.TaskGroup() as group:
        for name in ("a1", "a2", "b1", "a3"):
            group.create_task(come(name[0], name))
        await settle()
        assert done == ["a1 in", "b1 in"]
        gate.set()
    assert [one for one in done if one.startswith("a")] == [
        f"a{number} {way}" for number in (1, 2, 3) for way in ("in", "out")
    ]


async def test_who_gives_up_leaves_the_line() -> None:
    turns = Turns()
    async with turns.turn("k"):
        waiting = asyncio.ensure_future(turns.turn("k").__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
    async with asyncio.timeout(PATIENCE), turns.turn("k"):
        pass


def test_a_peer_with_much_to_say_gets_no_more_turns_than_one_with_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pace, order, loop, worked = Pace(), list[str](), RestingLoop(), list[float]()
    monkeypatch.setattr(time, "perf_counter", lambda: sum(worked))

    async def say(peer: str) -> None:
        async with pace.turn(peer):
            order.append(peer)
            worked.append(0.002)

    async def all_say() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(10):
                group.create_task(say("loud"))
            for _ in range(2):
                group.create_task(say("calm"))

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(all_say())
    assert order.index("calm") <= 1
    assert order[:4].count("calm") == 2
    assert loop.rested == pytest.approx(11 * 0.002 * 4), "most of the time was left for others"
