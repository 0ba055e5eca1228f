"""The rules of client-go's correlator: its own table of numbers, and bounds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from dray.errors import InvalidError
from dray.kubelet.pods.correlate import BURST, REFILL, SIMILAR, SIMILAR_FOR, Correlator, Sighting
from dray.kubelet.pods.events import PodEvent, created, failed
from tests.kubelet.pods.pods import pod

NOW = datetime(2030, 1, 1, tzinfo=UTC)
POD = pod("a", "b")


def fails(text: str) -> PodEvent:
    return failed(POD, "a", InvalidError(text))


def seen(correlator: Correlator, event: PodEvent, after: timedelta = timedelta()) -> Sighting:
    found = correlator.observe(event, NOW + after)
    assert found is not None
    return found


def test_the_same_event_counts_up_and_another_is_another() -> None:
    correlator = Correlator()
    first = seen(correlator, fails("x"))
    again = seen(correlator, fails("x"), timedelta(minutes=5))
    assert (first.count, first.is_new, again.count, again.is_new) == (1, True, 2, False)
    assert (again.name, again.first, again.last) == (first.name, NOW, NOW + timedelta(minutes=5))
    others = [fails("y"), created(POD, "a"), created(POD, "b")]
    found = [seen(correlator, event) for event in others]
    assert [one.count for one in found] == [1, 1, 1]
    assert len({first.name, *(one.name for one in found)}) == 4


def test_many_messages_of_one_reason_share_an_event_until_it_is_quiet() -> None:
    correlator = Correlator()
    found = [seen(correlator, fails(f"try {number}")) for number in range(SIMILAR + 2)]
    assert [one.count for one in found] == [1] * SIMILAR + [2, 3]
    assert found[SIMILAR - 2].event.message == f"Error: try {SIMILAR - 2}"
    assert {one.name for one in found[SIMILAR - 1 :]} == {found[-1].name}
    assert found[-1].event.message == f"(combined from similar events): Error: try {SIMILAR + 1}"
    assert seen(correlator, created(POD, "a")).is_new
    later = seen(correlator, fails("another"), SIMILAR_FOR + timedelta(seconds=1))
    assert later.event.message == "Error: another"


def test_a_pod_gets_so_many_events_and_then_one_now_and_then() -> None:
    correlator = Correlator()
    told = [correlator.observe(fails("x"), NOW) for _ in range(BURST + 5)]
    assert [one is not None for one in told] == [True] * BURST + [False] * 5
    # Another kind, and another pod, have allowances of their own.
    other = pod("a", nodeName="n")
    other = msgspec.structs.replace(other, metadata=msgspec.structs.replace(other.metadata, uid="u2"))
    assert seen(correlator, created(POD, "a")).is_new
    assert seen(correlator, failed(other, "a", InvalidError("x"))).is_new
    assert seen(correlator, fails("x"), REFILL).count == BURST + 6
    assert correlator.observe(fails("x"), NOW + REFILL) is None


def test_names_differ_within_one_moment_and_fit_the_limit() -> None:
    correlator = Correlator()
    long = pod("a", "b")
    named = msgspec.structs.replace(long.metadata, name="a" * 235 + "." + "b" * 17)
    long = msgspec.structs.replace(long, metadata=named)
    names = [seen(correlator, created(long, container)).name for container in ("a", "b")]
    assert names[0] != names[1]
    assert all(len(name) <= 253 and ".." not in name for name in names)
    assert seen(correlator, fails("x")).name.startswith("p.")


def test_what_is_remembered_is_bounded() -> None:
    correlator = Correlator(limit=3)
    for number in range(5):
        seen(correlator, fails(f"try {number}"))
    assert seen(correlator, fails("try 4")).count == 2
    assert seen(correlator, fails("try 0")).count == 1


def test_a_clock_that_jumps_back_takes_nothing_away() -> None:
    correlator = Correlator()
    first = seen(correlator, fails("x"))
    second = seen(correlator, fails("y"), timedelta(hours=-1))
    assert first.name != second.name
