"""What is told, against the embedded API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dray.api.core import Event, Pod
from dray.api.kinds import EVENTS, PODS
from dray.client.event_recorder import Pace
from dray.client.rate_limit import RateLimit
from dray.runtime.clock import FakeClock, SystemClock
from dray.runtime.tasks import running
from dray.scheduler import events
from dray.scheduler.events import Teller, Word, refused, scheduled
from tests.scheduler.live import NS, Live, behind, live
from tests.scheduler.objects import make_pod
from tests.scheduler.unreliable import Fault, once
from tests.waiting import until

FAST = RateLimit(10_000.0, 1000)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Live]:
    async with live(tmp_path) as found:
        yield found


async def all_events(server: Live) -> tuple[Event, ...]:
    return (await server.client.list(EVENTS)).items


async def test_an_event_and_a_condition(server: Live) -> None:
    pod = await server.pod("p")
    teller = Teller(server.client, "dray", SystemClock(), lambda one: one, FAST)
    async with running(teller.run(), name="teller"):
        teller.tell(refused(pod, "0/1 nodes are available: 1 Too many pods."))
        await server.wait_message("p", "Unschedulable: 0/1 nodes are available: 1 Too many pods.")
        await until(_is_told(server, 1))
    (event,) = await all_events(server)
    assert (event.type, event.reason, event.count) == ("Warning", "FailedScheduling", 1)
    assert (event.reporting_component, event.involved_object.uid) == ("dray", pod.metadata.uid)
    assert (await server.get_pod("p")).status.nominated_node_name == ""


def _is_told(server: Live, count: int):  # type: ignore[no-untyped-def]
    async def check() -> bool:
        return len(await all_events(server)) == count

    return check


async def test_a_pod_that_no_longer_waits_is_left_alone(server: Live) -> None:
    pod = await server.pod("p")
    teller = Teller(server.client, "dray", SystemClock(), lambda one: None, FAST)
    teller.tell(refused(pod, "late"))
    await teller.flush(5)
    assert await server.message("p") == ""


async def test_a_word_that_comes_after_the_binding_changes_nothing(server: Live) -> None:
    """The scheduler does not know yet that the pod was bound; the version that the word is based on does."""
    await server.node("n", 0)
    pod = await server.pod("p")
    await server.bind("p", "n")
    teller = Teller(server.client, "dray", SystemClock(), lambda one: one, FAST)
    teller.tell(refused(pod, "late"))
    await teller.flush(5)
    assert await server.message("p") == ""


async def test_the_same_again_is_counted(server: Live) -> None:
    pod = await server.pod("p")
    teller = Teller(server.client, "dray", FakeClock(), lambda one: None, FAST)
    for count in range(1, 4):
        teller.tell(refused(pod, "no"))
        await teller.flush(5)
        assert [event.count for event in await all_events(server)] == [count]
    assert (teller.waiting, teller.dropped) == (0, 0)


async def test_pods_that_were_bound_do_not_keep_another_from_hearing_why(server: Live) -> None:
    bound, pod = make_pod("bound"), await server.pod("p")
    teller = Teller(server.client, "dray", SystemClock(), lambda one: one, RateLimit(0.1, 1))
    for number in range(100):
        teller.tell(scheduled(bound, f"n{number}"))
    teller.tell(refused(pod, "no"))
    async with running(teller.run(), name="teller"):
        await server.wait_message("p", "Unschedulable: no")


async def test_the_newest_word_wins_and_the_line_is_bounded(
    server: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "FOR_A_CLUSTER", Pace(FAST, waiting=3))
    pods = [await server.pod(f"p{number}") for number in range(5)]
    teller = Teller(server.client, "dray", SystemClock(), lambda one: one)
    for pod in pods:
        for text in ("first", "second"):
            teller.tell(refused(pod, text))
    assert (teller.waiting, teller.dropped) == (3, 2)
    await teller.flush(5)
    told = [await server.message(f"p{number}") for number in range(5)]
    assert told == ["", "", *["Unschedulable: second"] * 3]
    assert [event.message for event in await all_events(server)] == ["second"] * 3


async def test_the_rate_is_limited() -> None:
    """Without a server: what is not due is not even tried."""
    from dray.client.access import ClusterAccess
    from dray.client.client import Client

    clock = FakeClock()
    async with Client(ClusterAccess("http://127.0.0.1:1")) as client:
        asked: list[Pod] = []
        teller = Teller(client, "dray", clock, asked.append, RateLimit(1.0, 1))
        async with running(teller.run(), name="teller"):
            for number in range(4):
                teller.tell(Word(make_pod(f"p{number}"), "Normal", "R", "m", nominated="n"))
            await clock.advance(0.5)
            await until(_are(asked, 1))
            await clock.advance(0.2)
            assert len(asked) == 1
            await clock.advance(1.0)
            await until(_are(asked, 2))


def _are(asked: list[Pod], count: int):  # type: ignore[no-untyped-def]
    async def check() -> bool:
        return len(asked) == count

    return check


async def test_a_node_is_nominated(server: Live) -> None:
    pod = await server.pod("p")

    def current(one: Pod) -> Pod:
        return one

    teller = Teller(server.client, "dray", SystemClock(), current, FAST)
    teller.tell(refused(pod, "no", nominated="n"))
    await teller.flush(5)
    assert (await server.client.get(PODS, "p", namespace=NS)).status.nominated_node_name == "n"


async def test_a_long_message_is_cut(server: Live) -> None:
    teller = Teller(server.client, "dray", SystemClock(), lambda one: None, FAST)
    teller.tell(Word(make_pod("p" * 253), "Normal", "Scheduled", "x" * 5000))
    await teller.flush(5)
    (event,) = await all_events(server)
    assert len(event.message) == 1024 and len(event.metadata.name) <= 253


async def test_why_a_pod_waits_is_told_once_the_server_is_back(server: Live) -> None:
    """Nothing else brings the pod back to the scheduler for minutes."""
    await server.node("n")
    async with behind(server) as line:
        line.judge = once("PATCH", "/pods/p/status", Fault.LOST, times=2)
        await server.pod("p", cpu="99")
        await server.wait_message("p", "Insufficient cpu")
        assert line.count("PATCH", "/pods/p/status") == 3
