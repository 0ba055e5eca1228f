from __future__ import annotations

import pytest

from dray.allocation.allocator import Call
from dray.allocation.profiles import PROFILES
from dray.allocation.search import STEP_LIMIT, Search
from tests.allocation.world import (
    ADMIN,
    CAPACITY,
    LIST,
    PARTITIONS,
    Json,
    case,
    claim,
    counters,
    device,
    devices,
    fault,
    first,
    picks,
    piece,
    request,
    typed,
    uses,
    wish,
)

X = 'device.attributes["driver-a"].type == "X"'


def unlike(number: int, letter: str = "X") -> list[Json]:
    """Devices that differ in what a constraint reads, so that none stands for another."""
    return [
        device(f"{letter}{n}", attributes={"root": {"int": n}, "type": {"string": letter}})
        for n in range(number)
    ]


def steps(given: Json, profile: str = "correct", limit: int = STEP_LIMIT) -> tuple[bool, int]:
    read, allocator, _ = typed(given, profile)
    call = Call(allocator, read.node, read.claims)
    search = Search(call.plan, call.candidates, call.ledger, call.bounds, limit)
    return search.run(), search.steps


DISTINCT = [{"distinctAttribute": "driver-a/root", "requests": ["none"]}]


@pytest.mark.parametrize("profile", list(PROFILES))
def test_what_can_be_counted_is_not_tried(profile: str) -> None:
    """Sixteen of thirty, then one that nothing matches, then one whose selector fails: it is never reached."""
    slices = [piece(*unlike(30), device("bad"))]
    last = claim(request(1, X, name="late"), name="c1")
    none = request(1, deviceClassName="class-b", name="b")
    fits, number = steps(case(slices, claim(request(16), none), last), profile)
    assert not fits and number < 60


def test_a_later_request_makes_an_earlier_one_give_way_at_once() -> None:
    slices = [piece(*unlike(2, "Y"), *unlike(28))]
    y = 'device.attributes["driver-a"].type == "Y"'
    given = case(slices, claim(request(16, name="a"), request(2, y, name="b"), constraints=DISTINCT))
    fits, number = steps(given)
    assert fits and number < 200
    got = picks(given)
    assert got is not None and got[-2:] == ["b=Y0", "b=Y1"] and got[0] == "a=X0"


def test_requests_that_together_want_too_much() -> None:
    slices = [piece(*unlike(31))]
    pair = [claim(request(16), name=f"c{n}", constraints=DISTINCT) for n in range(2)]
    fits, number = steps(case(slices, *pair))
    assert not fits and number < 60
    admin = claim(request(16, adminAccess=True), name="admin")
    assert steps(case(slices, pair[0], admin, features=(ADMIN,)))[0]


def test_alternatives_that_make_the_claim_too_big_are_passed_over() -> None:
    asked = claim(
        first(wish(31), wish(30), wish(1), name="a"),
        first(wish(31), wish(2), name="b"),
        request(9, deviceClassName="class-b", name="c"),
        constraints=DISTINCT,
    )
    slices = [
        piece(*unlike(60)),
        piece(*devices(*(f"b{n}" for n in range(9))), driver="driver-b", pool="p2", name="s2"),
    ]
    given = case(slices, asked, features=(LIST,))
    fits, number = steps(given)
    assert fits and number < 200
    got = picks(given)
    assert got is not None and [one.split("=")[0] for one in got] == ["a/sub-2"] + ["b/sub-1"] * 2 + ["c"] * 9


def test_an_alternative_that_makes_the_claim_too_big_is_left_without_trying_other_devices_for_it() -> None:
    """Its selector fails on the last device, which is an error as soon as the search gets there."""
    roots = [device(f"b{n}", attributes={"root": {"int": min(n, 10)}}) for n in range(12)]
    slices = [
        piece(*unlike(40), device("bad")),
        piece(*roots, driver="driver-b", pool="p2", name="s2"),
    ]
    late = claim(
        *(request(deviceClassName="class-b", name=name) for name in "ab"),
        constraints=[{"matchAttribute": "driver-b/root"}],
        name="late",
    )
    asked = claim(first(wish(20, X), wish(1), name="c"), request(10, name="d"), request(3, name="e"))
    got = picks(case(slices, late, asked, features=(LIST,)), "correct")
    assert got is not None and got[:2] == ["a=b10", "b=b11"]
    assert [one.split("=")[0] for one in got[2:]] == ["c/sub-1"] + ["d"] * 10 + ["e"] * 3


def test_counters_that_do_not_suffice() -> None:
    parts = [
        device(f"d{n}", attributes={"root": {"int": n}}, consumesCounters=uses(str(1 + n % 3)))
        for n in range(30)
    ]
    slices = [piece(*parts, of=2), counters(set_1={"mem": "12"})]
    given = case(slices, claim(request(12), constraints=DISTINCT), features=(PARTITIONS,))
    fits, number = steps(given)
    assert not fits and number < 60
    enough = case(slices, claim(request(11), constraints=DISTINCT), features=(PARTITIONS,))
    fits, number = steps(enough)
    assert fits and number < 200


def test_an_error_before_the_shortage_comes_up() -> None:
    slices = [piece(*unlike(12), device("bad"))]
    asked = claim(request(6, X), request(1, deviceClassName="class-b", name="b"), constraints=DISTINCT)
    assert "no such key: type" in fault(case(slices, asked))
    options = claim(
        first(wish(6), wish(6, X), name="a"),
        request(1, deviceClassName="class-b", name="b"),
        constraints=DISTINCT,
    )
    assert "no such key: type" in fault(case(slices, options, features=(LIST,)))


def test_requests_that_no_group_has_room_for_are_given_up_at_the_first_device_of_the_group() -> None:
    """Eight and nine devices with the same value, which sixteen devices have each time."""
    made = [device(f"d{n}", attributes={"root": {"int": n}, "group": {"int": n // 16}}) for n in range(48)]
    match = {"matchAttribute": "driver-a/group"}
    asked = claim(request(8), request(9, name="b"), constraints=[match, *DISTINCT])
    assert not steps(case([piece(*made)], asked), limit=200)[0]
    fits = claim(request(8), request(8, name="b"), constraints=[match, *DISTINCT])
    assert steps(case([piece(*made)], fits), limit=200)[0]


def test_admin_access_to_more_devices_than_the_counters_have_room_for() -> None:
    parts = [device(f"d{n}", attributes={"root": {"int": n}}, consumesCounters=uses("1")) for n in range(30)]
    slices = [piece(*parts, of=2), counters(set_1={"mem": "12"})]

    def fits(number: int) -> bool:
        admin = request(number, adminAccess=True, name="admin")
        asked = claim(request(2), admin, constraints=DISTINCT)
        return steps(case(slices, asked, features=(PARTITIONS, ADMIN)), limit=200)[0]

    assert fits(10) and not fits(13)


@pytest.mark.parametrize(
    "last",
    [request(3, deviceClassName="class-b", name="c"), first(wish(3, deviceClassName="class-b"), name="c")],
)
def test_as_many_shares_as_there_are_devices(last: Json) -> None:
    """The first request finds out late which device goes with the second, so what is left to serve is counted."""
    pairs = [*unlike(12), device("Y", attributes={"root": {"int": 11}, "type": {"string": "Y"}})]
    shared = [device(f"s{n}", allowMultipleAllocations=True) for n in range(3)]
    slices = [piece(*pairs), piece(*shared, driver="driver-b", pool="p2", name="s2")]
    y = 'device.attributes["driver-a"].type == "Y"'
    match = {"matchAttribute": "driver-a/root", "requests": ["a", "b"]}
    asked = claim(request(1, X, name="a"), request(1, y, name="b"), last, constraints=[match])
    got = picks(case(slices, asked, features=(CAPACITY, LIST)), "correct")
    assert got is not None
    assert [one.split("=")[1] for one in got] == ["X11", "Y", "s0", "s1", "s2"]


def test_an_alternative_that_no_device_serves_does_not_make_the_claim_smaller() -> None:
    """By number one of each would do, but only the twenties have devices: two of those are more than a result may hold."""
    none = wish(1, deviceClassName="class-b")
    asked = claim(*(first(none, wish(20), name=name) for name in "ab"), constraints=DISTINCT, name="claim-1")
    fits, number = steps(case([piece(*unlike(60))], claim(request(4)), asked, features=(LIST,)))
    assert not fits and number < 60
    smaller = claim(*(first(none, wish(16), name=name) for name in "ab"), constraints=DISTINCT)
    assert steps(case([piece(*unlike(60))], smaller, features=(LIST,)))[0]


@pytest.mark.parametrize(("lacking", "fits"), [(0, True), (1, False)])
def test_a_card_with_too_many_ways_to_use_it_is_counted_at_least(lacking: int, fits: bool) -> None:
    """Of each kind eleven of twelve; all needs differ, so that the ways are thousands, and the least of all is one too much."""
    kinds = {"X": 1, "Y": 3}
    made = [
        device(f"{kind}{n}", attributes={"type": {"string": kind}}, consumesCounters=uses(str(unit << n)))
        for kind, unit in kinds.items()
        for n in range(12)
    ]
    least = sum(unit << n for unit in kinds.values() for n in range(11))
    requests = [
        request(11, f'device.attributes["driver-a"].type == "{kind}"', name=kind.lower()) for kind in kinds
    ]
    slices = [piece(*made, of=2), counters(set_1={"mem": str(least - lacking)})]
    found, number = steps(case(slices, claim(*requests), features=(PARTITIONS,)))
    assert found is fits and number < 60


@pytest.mark.parametrize(("room", "fits"), [(7, True), (6, False)])
def test_constraints_with_many_values_are_not_tried_with_each_others(room: int, fits: bool) -> None:
    """Two that may choose one of thirty values each: that is nine hundred choices, and what is left over is one answer."""
    made = [
        device(f"d{n}", attributes={"p": {"int": n // 2}, "q": {"int": n // 2}}, consumesCounters=uses("1"))
        for n in range(60)
    ]
    pairs = claim(
        request(2, name="a"),
        request(2, name="b"),
        constraints=[
            {"matchAttribute": "driver-a/p", "requests": ["a"]},
            {"matchAttribute": "driver-a/q", "requests": ["b"]},
        ],
    )
    slices = [piece(*made, of=2), counters(set_1={"mem": str(room)})]
    asked = (pairs, claim(request(3, name="c"), name="claim-1"))
    found, number = steps(case(slices, *asked, features=(PARTITIONS,)))
    assert found is fits and number < 60
