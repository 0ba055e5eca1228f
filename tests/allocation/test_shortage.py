from __future__ import annotations

import pytest

from dray.allocation.allocator import Call
from dray.allocation.profiles import PROFILES
from dray.allocation.search import Search
from tests.allocation.world import (
    ADMIN,
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


def steps(given: Json, profile: str = "correct") -> tuple[bool, int]:
    read, allocator, _ = typed(given, profile)
    call = Call(allocator, read.node, read.claims)
    search = Search(call.plan, call.candidates, call.ledger, call.bounds)
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
