from __future__ import annotations

from dray.kubelet.pods.restarts import Restarts
from dray.kubelet.runtimes.contract import State
from dray.runtime.clock import FakeClock
from tests.kubelet.pods.pods import START, run


async def test_pauses_double_up_to_five_minutes() -> None:
    clock = FakeClock(START)
    await clock.advance(5)
    restarts = Restarts(clock)
    ended = run("a", State.EXITED, 1)
    assert restarts.pause("u1", None) == 0
    assert restarts.pause("u1", run("a", State.CREATED)) == 0
    seen = []
    for _ in range(8):
        seen.append(restarts.pause("u1", ended))
        restarts.restarted("u1", "a")
    assert seen == [0, 10, 20, 40, 80, 160, 300, 300]
    assert restarts.pause("u2", ended) == 0
    await clock.advance(290)
    assert restarts.pause("u1", ended) == 10
    restarts.forget("u1")
    assert restarts.pause("u1", ended) == 0


async def test_one_that_ran_for_ten_minutes_begins_anew() -> None:
    clock = FakeClock(START)
    await clock.advance(601)
    restarts = Restarts(clock)
    restarts.restarted("u1", "a")
    assert restarts.pause("u1", run("a", State.EXITED, 1, seconds=599)) == 8
    assert restarts.pause("u1", run("a", State.EXITED, 1, seconds=600)) == 0
