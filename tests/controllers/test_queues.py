from __future__ import annotations

import asyncio

import pytest

from dray.controllers.queues import MeteredQueue, QueueMetrics
from dray.errors import ConflictError, InvariantError
from dray.runtime.clock import FakeClock, SystemClock
from dray.runtime.metrics import Metrics
from dray.runtime.tasks import running
from tests.waiting import wait_until


def samples(metrics: Metrics) -> dict[str, float]:
    lines = [line for line in metrics.render().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


async def test_what_a_queue_does_is_shown() -> None:
    metrics = Metrics()
    clock = FakeClock()
    queue: MeteredQueue[str] = MeteredQueue("q", clock, QueueMetrics(metrics))
    tried: list[str] = []
    gate = asyncio.Event()

    async def handle(key: str) -> None:
        tried.append(key)
        if key == "bad" and tried.count("bad") == 1:
            raise ConflictError("once")
        if key == "slow":
            await gate.wait()

    for key in ("good", "good", "bad", "slow"):
        queue.add(key)
    assert samples(metrics)['workqueue_depth{name="q"}'] == 3
    async with running(queue.run(handle, workers=2), name="queue"):
        await clock.advance_until(lambda: tried.count("bad") == 2 and "slow" in tried)
        queue.add("slow")  # while it is being worked on
        before = samples(metrics)
        await clock.advance(30)
        shown = samples(metrics)
        for one in ("workqueue_longest_running_processor_seconds", "workqueue_unfinished_work_seconds"):
            assert shown[f'{one}{{name="q"}}'] == before[f'{one}{{name="q"}}'] + 30
        gate.set()
        await wait_until(lambda: queue.is_idle)
    shown = samples(metrics)
    assert shown['workqueue_adds_total{name="q"}'] == len(tried) == 5
    assert shown['workqueue_retries_total{name="q"}'] == 1
    assert shown['workqueue_queue_duration_seconds_count{name="q"}'] == 5
    assert shown['workqueue_work_duration_seconds_count{name="q"}'] == 5
    assert shown['workqueue_unfinished_work_seconds{name="q"}'] == 0


async def test_one_queue_of_each_name() -> None:
    metrics = QueueMetrics(Metrics())
    MeteredQueue[str]("q", SystemClock(), metrics)
    with pytest.raises(InvariantError, match="two queues with the name q"):
        MeteredQueue[str]("q", SystemClock(), metrics)
