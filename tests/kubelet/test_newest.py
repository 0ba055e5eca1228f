from __future__ import annotations

import asyncio

from dray.kubelet.newest import Newest
from dray.kubelet.turns import Pace
from dray.runtime.tasks import running
from tests.waiting import RestingLoop


def test_only_the_newest_is_taken_in_and_the_last_one_always() -> None:
    taken, loop = list[int](), RestingLoop()

    async def scenario() -> None:
        newest = Newest[int](taken.append)
        async with running(newest.run(Pace(), "peer"), name="newest"):
            for number in range(101):
                newest.put(-1)
                newest.put(number)
                await asyncio.sleep(0)
            newest.put(101)
        newest.flush()
        newest.flush()

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(scenario())
    assert taken[-1] == 101
    assert taken == sorted(set(taken))
    assert -1 not in taken
    assert 100 * loop.rested >= len(taken) - 1, "a hundredth of a second after each, but for the last one"


async def test_a_reader_waits_until_its_large_message_is_taken_in() -> None:
    taken = list[int]()
    newest = Newest[int](taken.append)
    await newest.wait_taken()
    async with running(newest.run(Pace(), "peer"), name="newest"):
        newest.put(7)
        await newest.wait_taken()
        assert taken == [7]
