from __future__ import annotations

import asyncio

from dray.kubelet.newest import Newest
from dray.kubelet.turns import Pace
from dray.runtime.tasks import running


async def test_only_the_newest_is_taken_in_and_the_last_one_always() -> None:
    taken: list[int] = []
    newest = Newest[int](taken.append)
    async with running(newest.run(Pace(), "peer"), name="newest"):
        for number in range(100):
            newest.put(number)
            await asyncio.sleep(0.0005)
        newest.put(100)
    newest.flush()
    newest.flush()
    assert taken[-1] == 100
    assert taken == sorted(set(taken))
    assert len(taken) < 40
