from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.errors import InvariantError
from dray.runtime.backoff import BackoffPolicy
from dray.runtime.clock import FakeClock, settle
from dray.runtime.quarantine import PLACE, Quarantine
from dray.runtime.tasks import running
from dray.runtime.workqueue import Watch, WorkQueue
from tests.deadly import make_deadly


async def test_a_key_waits_once_and_keys_come_in_order() -> None:
    queue: WorkQueue[str] = WorkQueue("q", FakeClock())
    seen: list[str] = []

    async def handler(key: str) -> None:
        seen.append(key)

    for key in "abacab":
        queue.add(key)
    assert len(queue) == 3
    async with running(queue.run(handler), name="q"):
        await settle()
    assert seen == ["a", "b", "c"]


async def test_a_key_added_while_busy_is_worked_on_again_but_never_twice_at_once() -> None:
    queue: WorkQueue[str] = WorkQueue("q", FakeClock())
    gate = asyncio.Event()
    busy: Counter[str] = Counter()
    runs: Counter[str] = Counter()

    async def handler(key: str) -> None:
        busy[key] += 1
        assert busy[key] == 1
        await gate.wait()
        runs[key] += 1
        busy[key] -= 1

    async with running(queue.run(handler, workers=4), name="q"):
        queue.add("a")
        await settle()
        queue.add("a")
        queue.add("a")
        queue.add("b")
        await settle()
        gate.set()
        await settle()
    assert runs == {"a": 2, "b": 1}
    assert queue.is_idle


async def test_a_failing_key_comes_back_with_growing_delay_and_success_resets_it() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue("q", clock, BackoffPolicy(first=1, factor=2, limit=100, jitter=0))
    tries: list[float] = []

    async def handler(key: str) -> None:
        tries.append(clock.monotonic())
        if len(tries) in (1, 2, 3, 5):
            raise ValueError("not yet")

    async with running(queue.run(handler), name="q"):
        queue.add("a")
        await clock.advance(20)
        assert tries == [0, 1, 3, 7]
        queue.add("a")
        await clock.advance(20)
    assert tries == [0, 1, 3, 7, 20, 21]


async def test_the_earliest_delay_of_a_key_counts() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue("q", clock)
    seen: list[float] = []

    async def handler(key: str) -> None:
        seen.append(clock.monotonic())

    async with running(queue.run(handler), name="q"):
        queue.add_after("a", 10)
        queue.add_after("a", 5)
        queue.add_after("a", 7)
        await clock.advance(30)
    assert seen == [5]


async def test_our_own_bug_ends_the_queue() -> None:
    queue: WorkQueue[str] = WorkQueue("q", FakeClock())

    async def handler(key: str) -> None:
        raise InvariantError("broken")

    queue.add("a")
    with pytest.raises(InvariantError, match="broken"):
        await queue.run(handler)


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from([0.0, 0.5, 2.0])), max_size=40), st.integers(1, 4)
)
def test_every_added_key_is_worked_on_after_its_last_add(
    events: list[tuple[int, float]], workers: int
) -> None:
    async def play() -> None:
        clock = FakeClock()
        queue: WorkQueue[int] = WorkQueue("q", clock)
        last_add: dict[int, float] = {}
        last_run: dict[int, float] = {}

        async def handler(key: int) -> None:
            last_run[key] = clock.monotonic()
            await clock.sleep(0.25)

        async with running(queue.run(handler, workers=workers), name="q"):
            for key, pause in events:
                queue.add(key)
                last_add[key] = clock.monotonic()
                await clock.advance(pause)
            await clock.advance(60)
            assert queue.is_idle
        assert last_run.keys() == last_add.keys()
        assert all(last_run[key] >= last_add[key] for key in last_add)

    asyncio.run(play())


async def test_as_many_at_once_as_there_are_workers_and_no_idle_ones() -> None:
    queue: WorkQueue[int] = WorkQueue("q", FakeClock())
    gate, now, most = asyncio.Event(), 0, 0

    async def handler(key: int) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await gate.wait()
        now -= 1

    before = len(asyncio.all_tasks())
    async with running(queue.run(handler, workers=1000), name="q"):
        await settle()
        assert len(asyncio.all_tasks()) - before < 10
        for key in range(1500):
            queue.add(key)
        await settle()
        assert (now, len(queue)) == (1000, 500)
        gate.set()
        await settle()
    assert (most, queue.is_idle) == (1000, True)


async def test_a_queue_that_was_stopped_may_run_again() -> None:
    queue: WorkQueue[str] = WorkQueue("q", FakeClock())
    seen: list[str] = []

    async def hang(key: str) -> None:
        await asyncio.Event().wait()

    async def handler(key: str) -> None:
        seen.append(key)

    queue.add("a")
    async with running(queue.run(hang), name="q"):
        await settle()
    queue.add("a")
    async with running(queue.run(handler), name="q"):
        await settle()
    assert seen == ["a"]


async def test_a_key_whose_object_ended_the_process_is_left_alone_and_said_to_be(tmp_path: Path) -> None:
    clock = FakeClock(datetime.now(UTC))
    make_deadly(tmp_path, "pods/a", clock)
    seen: list[str] = []
    told: list[tuple[str, str]] = []

    async def handler(key: str) -> None:
        seen.append(key)

    with Quarantine(tmp_path / PLACE, clock) as quarantine:
        names = {"a": "pods/a", "b": "pods/b", "gone": ""}
        watch = Watch(quarantine, names.__getitem__, lambda key, why: told.append((key, why)))
        queue = WorkQueue("q", clock, watch=watch)
        for key in names:
            queue.add(key)
        async with running(queue.run(handler), name="q"):
            await settle()
            assert seen == ["b", "gone"]
            assert [key for key, why in told if "set aside until" in why] == ["a"]
            await clock.advance(301)
            await settle()
            assert [key for key, _ in told] == ["a", "a"], "it is said again from time to time"
            names["a"] = "pods/a leaves"
            queue.add("a")
            await settle()
            assert seen == ["b", "gone", "a"], "another matter"


async def test_a_handler_is_noted_while_it_works_and_not_while_it_waits(tmp_path: Path) -> None:
    noted: list[list[str]] = []
    with Quarantine(tmp_path, FakeClock()) as quarantine:

        async def handler(key: str) -> None:
            noted.append(quarantine.handled())
            await asyncio.sleep(0)
            noted.append(quarantine.handled())

        watch: Watch[str] = Watch(quarantine, lambda key: f"pods/{key}", lambda key, why: None)
        queue = WorkQueue("q", FakeClock(), watch=watch)
        queue.add("a")
        async with running(queue.run(handler), name="q"):
            while len(noted) < 2:
                assert quarantine.handled() == []
                await asyncio.sleep(0)
            assert quarantine.handled() == []
    assert noted == [["pods/a"], ["pods/a"]]
