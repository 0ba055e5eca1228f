from __future__ import annotations

import asyncio

import pytest

from dray.client.access import ClusterAccess
from dray.client.client import Client
from dray.client.http import HttpOptions, Request
from dray.client.rate_limit import RateLimit, RateLimiter
from dray.errors import InvalidError
from dray.runtime.clock import FakeClock, settle
from tests.client.servers import ScriptedServer
from tests.waiting import wait_until


async def passes(limiter: RateLimiter, clock: FakeClock, log: list[tuple[int, float]], number: int) -> None:
    await limiter.wait()
    log.append((number, round(clock.monotonic(), 6)))


async def test_burst_then_evenly_and_in_order() -> None:
    clock, log = FakeClock(), list[tuple[int, float]]()
    limiter = RateLimiter(RateLimit(qps=2, burst=3), clock)
    async with asyncio.TaskGroup() as group:
        for number in range(6):
            group.create_task(passes(limiter, clock, log, number))
        await clock.advance(10)
    assert log == [(0, 0), (1, 0), (2, 0), (3, 0.5), (4, 1.0), (5, 1.5)]


async def test_a_pause_fills_the_bucket_to_the_burst_and_no_further() -> None:
    clock, log = FakeClock(), list[tuple[int, float]]()
    limiter = RateLimiter(RateLimit(qps=1, burst=2), clock)
    await limiter.wait()
    await clock.advance(1000)
    async with asyncio.TaskGroup() as group:
        for number in range(4):
            group.create_task(passes(limiter, clock, log, number))
        await clock.advance(10)
    assert [at for _, at in log] == [1000, 1000, 1001, 1002]


async def test_cancelled_caller_gives_its_turn_back() -> None:
    clock = FakeClock()
    limiter = RateLimiter(RateLimit(qps=1), clock)
    await limiter.wait()
    waiting = asyncio.create_task(limiter.wait())
    await settle()
    waiting.cancel()
    await settle()
    last = asyncio.create_task(limiter.wait())
    await clock.advance(1)
    assert last.done()


@pytest.mark.parametrize(("qps", "burst"), [(0, 1), (-1, 1), (float("nan"), 1), (float("inf"), 1), (1, 0)])
def test_limits_that_make_no_sense(qps: float, burst: int) -> None:
    with pytest.raises(InvalidError, match=r"qps|burst"):
        RateLimit(qps, burst)


async def test_client_asks_no_faster(server: ScriptedServer) -> None:
    clock = FakeClock()
    options = HttpOptions(rate_limit=RateLimit(qps=1, burst=2))
    async with (
        Client(ClusterAccess(server.url), options, clock=clock) as client,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(5):
            group.create_task(client.raw(Request("GET", "/x")))
        await wait_until(lambda: len(server.seen) + clock.sleepers == 5)
        assert len(server.seen) == 2
        await clock.advance(1)
        await wait_until(lambda: len(server.seen) + clock.sleepers == 5)
        assert len(server.seen) == 3
        await clock.advance(2)
    assert len(server.seen) == 5


async def test_off_by_default(server: ScriptedServer) -> None:
    async with Client(ClusterAccess(server.url), clock=FakeClock()) as client:
        await asyncio.gather(*(client.raw(Request("GET", "/x")) for _ in range(50)))
    assert len(server.seen) == 50
