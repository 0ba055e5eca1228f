"""Which events are one: counting, floods, names and bounds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dray.api.core import ObjectReference
from dray.client.event_series import MESSAGE_MAX, SIMILAR, SIMILAR_FOR, Correlator, Names, Series

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def about(container: str = "a", name: str = "p", uid: str = "u1") -> ObjectReference:
    path = f"spec.containers{{{container}}}"
    return ObjectReference(kind="Pod", namespace="ns", name=name, uid=uid, api_version="v1", field_path=path)


def fails(
    correlator: Correlator, text: str, after: timedelta = timedelta(), what: ObjectReference | None = None
) -> Series:
    return correlator.observe(what or about(), "Warning", "Failed", text, NOW + after)


def starts(correlator: Correlator, what: ObjectReference) -> Series:
    return correlator.observe(what, "Normal", "Started", "Container started", NOW)


def test_the_same_event_counts_up_and_another_is_another() -> None:
    correlator = Correlator()
    first = fails(correlator, "x")
    assert (first.count, first.first, first.last) == (1, NOW, NOW)
    again = fails(correlator, "x", timedelta(minutes=5))
    assert again is first
    assert (again.count, again.first, again.last) == (2, NOW, NOW + timedelta(minutes=5))
    others = [
        fails(correlator, "y"),
        starts(correlator, about()),
        starts(correlator, about("b")),
        fails(correlator, "x", what=about(uid="u2")),
        correlator.observe(about(), "Normal", "Failed", "x", NOW),
    ]
    assert [one.count for one in others] == [1] * 5
    assert len({first, *others}) == 6


def test_many_messages_of_one_reason_share_an_event_until_it_is_quiet() -> None:
    correlator = Correlator()
    found = [fails(correlator, f"try {number}") for number in range(SIMILAR + 3)]
    assert [one.count for one in found] == [1] * SIMILAR + [3] * 3
    assert set(found[SIMILAR:]) == {found[-1]}
    assert found[SIMILAR - 1].message == f"try {SIMILAR - 1}"
    assert found[-1].message == f"(combined from similar events): try {SIMILAR + 2}"
    assert fails(correlator, "try 3") is found[3]
    assert starts(correlator, about()).count == 1
    later = fails(correlator, "another", SIMILAR_FOR + timedelta(seconds=1))
    assert (later.message, later.count) == ("another", 1)


def test_names_differ_within_one_moment_and_fit_the_limit() -> None:
    names = Names()
    long = about(name="a" * 235 + "." + "b" * 17)
    found = [names.make(long, NOW) for _ in range(3)]
    found.append(names.make(long, NOW - timedelta(hours=1)))  # a clock that jumps back
    assert len(set(found)) == 4
    assert all(len(name) <= 253 and ".." not in name for name in found)
    assert names.make(about(), NOW).startswith("p.")


def test_messages_are_cut() -> None:
    correlator = Correlator()
    for number in range(SIMILAR + 1):
        told = fails(correlator, f"{number} " + "x" * 5000)
        assert len(told.message) == MESSAGE_MAX


def test_what_is_remembered_is_bounded() -> None:
    correlator = Correlator(limit=3)
    for number in range(5):
        fails(correlator, f"try {number}")
    assert fails(correlator, "try 4").count == 2
    assert fails(correlator, "try 0").count == 1
