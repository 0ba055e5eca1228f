from __future__ import annotations

import sys
import traceback

import pytest

from dray.allocation.allocator import Call
from dray.allocation.profiles import PROFILES
from dray.allocation.search import Search
from tests.allocation.world import (
    ADMIN,
    CAPACITY,
    LIST,
    LISTS,
    TAINTS,
    Json,
    case,
    claim,
    device,
    devices,
    every,
    fault,
    first,
    picks,
    piece,
    request,
    typed,
    wish,
)
from tests.cel.counting import calls

X = 'device.attributes["driver-a"].type == "X"'


THREE = [piece(*devices("a", "b", "c", attributes={"root": {"int": 1}}))]
MATCH = [{"matchAttribute": "driver-a/root"}]


def groups(number: int, size: int) -> list[Json]:
    """Devices in groups of `size` with one value each; each has an attribute of its own that nobody reads."""
    return [
        piece(
            *(
                device(f"d{n}", attributes={"root": {"int": n // size}, "uuid": {"string": f"u{n}"}})
                for n in range(number)
            )
        )
    ]


@pytest.mark.parametrize("profile", list(PROFILES))
@pytest.mark.parametrize("features", [(), (LISTS,)])
def test_a_match_in_groups_that_are_too_small_is_seen_at_once(
    profile: str, features: tuple[str, ...]
) -> None:
    asked = claim(request(19), constraints=[{"matchAttribute": "driver-a/root"}])
    read, allocator, _ = typed(case(groups(64, 18), asked, features=features), profile)
    call = Call(allocator, read.node, read.claims)
    search = Search(call.plan, call.candidates, call.ledger, call.bounds)
    fits: list[bool] = []
    assert calls(lambda: fits.append(search.run())) < 10 * 64 * 64
    assert fits == [False] and search.steps < 100


def test_equal_requests_for_equal_devices_are_not_permuted() -> None:
    asked = [request(1, name=f"r{n}") for n in range(13)]
    read, allocator, _ = typed(case([piece(*devices(*(f"d{n}" for n in range(12))))], claim(*asked)))
    call = Call(allocator, read.node, read.claims)
    search = Search(call.plan, call.candidates, call.ledger, call.bounds)
    assert not search.run() and search.steps < 200


def test_many_claims_do_not_meet_the_recursion_limit() -> None:
    """Each of them is looked at, down to the last: none goes deeper into the stack than the one before."""
    slices = [piece(device("d", allowMultipleAllocations=True))]
    asked = [claim(request(1), name=f"c{number}") for number in range(150)]
    read, allocator, _ = typed(case(slices, *asked, features=(CAPACITY,)))
    call = Call(allocator, read.node, read.claims)
    before, depth = sys.getrecursionlimit(), len(traceback.extract_stack())
    sys.setrecursionlimit(depth + 100)
    try:
        assert call.bounds.is_allowed(0)
    finally:
        sys.setrecursionlimit(before)


def test_pairs_that_cannot_be_made_are_not_tried_in_every_order() -> None:
    """Claims that each want two devices of one root, where every root has one: memory of dead ends."""
    asked = [
        claim(
            request(1, name="a"),
            request(1, name="b"),
            name=f"c{n}",
            constraints=[{"matchAttribute": "driver-a/root"}],
        )
        for n in range(4)
    ]
    slices = groups(9, 3)
    read, allocator, _ = typed(case(slices, *asked))
    call = Call(allocator, read.node, read.claims)
    search = Search(call.plan, call.candidates, call.ledger, call.bounds)
    assert not search.run() and search.steps < 2_000


def test_a_selector_that_fails_is_met_all_the_same() -> None:
    """Ten devices of a kind, then one on which the selector fails: there is no fit, but an error before that."""
    slices = [
        piece(*devices(*(f"d{n}" for n in range(10)), attributes={"type": {"string": "X"}}), device("bad")),
    ]
    asked = claim(request(11, X))
    assert "no such key" in fault(case(slices, asked))
    held = case(slices, asked, allocatedDevices=["driver-a/pool-1/bad"])
    assert picks(held) is None


def test_the_first_of_equals_is_taken() -> None:
    asked = claim(request(18), constraints=[{"matchAttribute": "driver-a/root"}])
    slices = groups(10, 10)
    slices[0]["spec"]["devices"] += [device(f"e{n}", attributes={"root": {"int": 7}}) for n in range(20)]
    got = picks(case(slices, asked))
    assert got == [f"req-0=e{n}" for n in range(18)]


def hopeless(given: Json, profile: str = "correct") -> bool:
    read, allocator, _ = typed(given, profile)
    return Call(allocator, read.node, read.claims).bounds.is_hopeless


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (case(THREE, claim(request(3))), False),
        (case(THREE, claim(request(4))), True),
        (case(THREE, claim(request()), claim(request(4), name="other")), True),
        (case(THREE, claim(request(2), request(2, name="b"))), True),
        (case(THREE, claim(first(wish(4), wish(3))), features=(LIST,)), False),
        (case(THREE, claim(first(wish(4), wish(5))), features=(LIST,)), True),
        (case(THREE, claim(request(3)), allocatedDevices=["driver-a/pool-1/a"]), True),
        (
            case(
                THREE,
                claim(request(3, adminAccess=True)),
                allocatedDevices=["driver-a/pool-1/a"],
                features=(ADMIN,),
            ),
            False,
        ),
        (case([piece(*devices("a"))], claim(request(), constraints=MATCH)), True),
        (case(THREE, claim(request(3), constraints=MATCH)), False),
        (
            case(
                [piece(*(device(f"d{n}", attributes={"root": {"int": n % 2}}) for n in range(5)))],
                claim(request(4), constraints=MATCH),
            ),
            True,
        ),
        (case([piece(device("a", consumesCounters=[]))], claim(request())), False),
        (
            case(
                [piece(device("a", taints=[{"key": "k", "effect": "NoSchedule"}]))],
                claim(request()),
                features=(TAINTS,),
            ),
            True,
        ),
        (
            case(
                [piece(device("a", capacity={"m": {"value": "1"}}))],
                claim(request(capacity={"requests": {"m": "2"}})),
                features=(CAPACITY,),
            ),
            True,
        ),
        (case(THREE, claim(every(deviceClassName="class-b"))), True),
        (case(THREE, claim(every()), allocatedDevices=["driver-a/pool-1/a"]), True),
    ],
)
def test_what_cannot_be_served_at_all(given: Json, expected: bool) -> None:
    assert hopeless(given) is expected


def test_an_error_that_may_come_up_is_never_passed_over() -> None:
    slices = [piece(device("a", attributes={"type": {"string": "X"}}), device("bad"))]
    assert not hopeless(case(slices, claim(request(1, X), request(4, name="b"))))
    negative = claim(request(capacity={"requests": {"m": "-1"}}), request(9, name="b"))
    given = case([piece(device("a", capacity={"m": {"value": "1"}}))], negative, features=(CAPACITY,))
    assert not hopeless(given)


@pytest.mark.parametrize("profile", list(PROFILES))
def test_all_with_a_constraint_may_be_an_error(profile: str) -> None:
    given = case(THREE, claim(every(), request(9, name="b"), constraints=MATCH))
    assert hopeless(given, profile) is (profile == "correct")


def test_negative_amounts_may_make_room_in_1_36() -> None:
    full = {"allocatedCapacity": {"driver-a/pool-1/a": {"m": "4"}}}
    shared = device("a", allowMultipleAllocations=True, capacity={"m": {"value": "4"}})
    asked = [claim(request(capacity={"requests": {"m": amount}}), name=amount) for amount in ("-2", "1")]
    assert not hopeless(case([piece(shared)], *asked, features=(CAPACITY,), **full), "k8s-1.36")
    assert hopeless(case([piece(shared)], asked[1], features=(CAPACITY,), **full), "correct")


@pytest.mark.parametrize("profile", list(PROFILES))
@pytest.mark.parametrize(("count", "may_fit"), [(2, True), (3, False), (4, False)])
def test_only_devices_that_could_be_had_beside_the_pick_are_counted(
    profile: str, count: int, may_fit: bool
) -> None:
    taint = [{"key": "k", "effect": "NoSchedule"}]
    made = [
        device("picked", attributes={"root": {"int": 1}}),
        device("of-another-root", attributes={"root": {"int": 2}}),
        device("tainted", attributes={"root": {"int": 1}}, taints=taint),
        device("neither", attributes={"root": {"int": 2}}, taints=taint),
        device("good", attributes={"root": {"int": 1}}),
    ]
    asked = claim(request(count), constraints=MATCH)
    read, allocator, _ = typed(case([piece(*made)], asked, features=(TAINTS,)), profile)
    call = Call(allocator, read.node, read.claims)
    one = call.plan[0].requests[0][0]
    assert call.ledger.commit(one, call.candidates.devices[0])
    assert call.bounds.may_fit(one, 1, 1) is may_fit
