from __future__ import annotations

import asyncio
import time

from dray.kubelet.turns import Pace, Turns


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
        await asyncio.sleep(0.01)
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
    async with asyncio.timeout(1), turns.turn("k"):
        pass


async def test_a_peer_with_much_to_say_gets_no_more_turns_than_one_with_little() -> None:
    pace, order = Pace(), list[str]()

    async def say(peer: str) -> None:
        async with pace.turn(peer):
            order.append(peer)
            time.sleep(0.002)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(10):
            group.create_task(say("loud"))
        for _ in range(2):
            group.create_task(say("calm"))
    assert order.index("calm") <= 1
    assert order[:4].count("calm") == 2
    assert time.perf_counter() - began > 11 * 0.002 * 4, "most of the time was left for others"
