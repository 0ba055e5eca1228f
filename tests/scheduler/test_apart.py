"""Decisions that take longer than the loop can spare."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from dray.allocation.budget import Budget
from dray.api.core import Pod
from dray.api.meta import ObjectMeta
from dray.runtime.clock import FakeClock, SystemClock
from dray.runtime.forked import Limits
from dray.runtime.metrics import Metrics
from dray.scheduler.apart import Apart, ApartOptions
from dray.scheduler.decision import Decision, Failed, Overrun
from tests.deadly import make_deadly, pod_key
from tests.scheduler.live import CONFIG, Live, live, scheduling
from tests.waiting import until, wait_until

ALL_APART = replace(CONFIG, apart=ApartOptions(inline=0.0, limits=Limits(seconds=60.0)))
"""No decision about devices is over in the loop."""


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Live]:
    async with live(tmp_path) as found:
        yield found


def pod(name: str, namespace: str = "default") -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace, uid=f"uid-{name}"))


def never(budget: Budget) -> Decision:
    while True:
        pass


async def test_pods_get_the_devices_that_the_loop_would_give_them(server: Live) -> None:
    await server.node("n", 2)
    async with scheduling(server, ALL_APART):
        await server.both("a")
        assert (await server.wait_bound("a"))["a"] == "n"
        await server.both("b")
        await server.wait_bound("b")
        assert await server.held() == {"a": ["n/g0"], "b": ["n/g1"]}


async def test_many_at_once_never_get_a_device_twice(server: Live) -> None:
    for number in range(4):
        await server.node(f"n{number}", 2)
    names = [f"p{number}" for number in range(8)]
    for name in names:
        await server.both(name)
    async with scheduling(server, ALL_APART):
        await server.wait_bound(*names)
    assert len(set(await server.devices())) == 8


async def test_a_refusal_is_explained_by_the_copy(server: Live) -> None:
    await server.node("n", 1)
    async with scheduling(server, ALL_APART):
        await server.both("a")
        await server.wait_bound("a")
        await server.both("b")
        told = await server.wait_message("b", "0 left")
        assert "claim default/b, request r wants 1 of 1: 1 in use, 0 left" in told
        await server.end("a")
        await server.wait_bound("b")


async def test_what_is_never_decided_says_so_and_holds_up_nobody(server: Live) -> None:
    """Its own time is as good as none: the others' is not."""
    await server.node("n", 2)
    metrics = Metrics()
    config = replace(CONFIG, apart=ApartOptions(inline=0.0, limits=Limits(seconds=1e-6)))
    async with scheduling(server, config, metrics=metrics):
        await server.both("hard")
        told = await server.wait_message("hard", "stopped after 1e-06 s")
        assert told.startswith("SchedulerError: the search for devices was stopped")
        await server.pod("plain")
        assert (await server.wait_bound("plain"))["plain"] == "n"

        async def has_event() -> bool:
            return any("the search for devices was stopped" in one for one in await server.events("hard"))

        await until(has_event)
    assert (await server.where())["hard"] == ""
    assert "dray_scheduler_decisions_stopped_total 1\n" in metrics.render().decode()


async def test_a_pod_that_ended_the_scheduler_three_times_is_set_aside(server: Live, tmp_path: Path) -> None:
    await server.node("n", 2)
    make_deadly(tmp_path / "state", pod_key(await server.both("deadly")))
    metrics = Metrics()
    async with scheduling(server, replace(CONFIG, state_dir=tmp_path / "state"), metrics=metrics):
        await server.both("plain")
        assert (await server.wait_bound("plain"))["plain"] == "n"
        told = await server.wait_message("deadly", "set aside until")
        assert "Dray ended 3 times while it handled this object" in told
        assert 'dray_objects_set_aside{part="scheduler"} 1' in metrics.render().decode()
    assert (await server.where())["deadly"] == ""


async def test_one_that_never_ends_is_stopped_while_the_loop_goes_on(tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    def endless(budget: Budget) -> Decision:
        begun.touch()
        return never(budget)

    patient = Apart(ApartOptions(limits=Limits(seconds=1000.0)), SystemClock())
    deciding = asyncio.ensure_future(patient.decide(pod("a"), endless))
    await wait_until(begun.exists)
    assert not deciding.done()
    deciding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await deciding
    apart = Apart(ApartOptions(limits=Limits(seconds=0.2)), SystemClock())
    stopped = Failed(pod("a"), "the search for a node was stopped after 0.2 s")
    assert await apart.decide(pod("a"), never) == stopped


def test_what_cannot_be_checked_in_time_rests() -> None:
    apart = Apart(ApartOptions(), FakeClock())
    apart.overran(pod("a"))
    assert apart.is_due(pod("a"))
    failed = apart.unchecked(pod("a"), "n")
    assert failed.reason == "the check of what was chosen on node n was stopped after 0.1 s"
    assert not apart.is_due(pod("a"))


async def test_a_decision_that_ran_out_of_its_own_time_there_is_stopped_too() -> None:
    apart = Apart(ApartOptions(limits=Limits(seconds=7.0)), SystemClock())
    found = await apart.decide(pod("a"), lambda budget: Overrun(pod("a")))
    assert found == Failed(pod("a"), "the search for a node was stopped after 7 s")


def test_a_namespace_that_overran_is_given_less_for_a_while() -> None:
    clock = FakeClock()
    apart = Apart(ApartOptions(inline=0.1), clock)
    assert apart.budget(pod("a")).seconds == 0.1
    apart.overran(pod("a"))
    assert apart.is_needed(pod("a")) and not apart.is_needed(pod("b"))
    assert apart.budget(pod("b")).seconds == pytest.approx(0.005)
    assert apart.budget(pod("b", "other")).seconds == 0.1
    asyncio.run(clock.advance(60))
    assert apart.budget(pod("b")).seconds == 0.1


async def test_namespaces_take_turns_and_who_was_stopped_rests_longer_each_time() -> None:
    clock = FakeClock()
    apart = Apart(ApartOptions(limits=Limits(seconds=5.0)), clock)
    many, few = [pod("a1", "many"), pod("a2", "many")], pod("b", "few")
    for one in (*many, few):
        apart.overran(one)
    assert all(apart.is_due(one) for one in (*many, few))
    await clock.advance(1)

    async def stop(one: Pod) -> None:
        await apart.decide(one, lambda budget: Overrun(one))

    await stop(many[0])
    assert [apart.is_due(one) for one in (*many, few)] == [False, False, True], "it is the turn of the other"
    await clock.advance(1)
    await stop(few)
    assert [apart.is_due(one) for one in (*many, few)] == [False, True, False], "two of them rest"
    apart.forget("uid-a2")
    await clock.advance(9)
    assert apart.is_due(many[0])
    for rest in (20.0, 40.0, 80.0, 160.0, 300.0, 300.0):
        apart.forget("uid-b")
        await stop(many[0])
        await clock.advance(rest - 1)
        assert not apart.is_due(many[0])
        await clock.advance(1)
        assert apart.is_due(many[0])
    apart.forget("uid-a1")
    assert apart.waiting == 0
