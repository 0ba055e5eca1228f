from __future__ import annotations

import pytest

from dray.allocation.allocator import Call
from dray.allocation.faults import AllocationError, NodeAllocationError
from dray.allocation.ledger import Ledger, bits
from dray.allocation.profiles import PROFILES
from dray.allocation.search import Search
from tests.allocation.odd_cases import odd_case
from tests.allocation.random_cases import random_case
from tests.allocation.world import (
    ADMIN,
    CAPACITY,
    PARTITIONS,
    case,
    claim,
    counters,
    device,
    picks,
    piece,
    request,
    typed,
    uses,
)
from tests.campaign import seeds


def everything(ledger: Ledger) -> list[object]:
    return [
        ledger.picks,
        ledger._taken,
        ledger._taken_by,
        ledger._shares,
        ledger._sharing,
        ledger._counters._taken,
    ]


@pytest.mark.parametrize("profile", list(PROFILES))
def test_a_search_that_fails_leaves_nothing_behind(profile: str) -> None:
    failed = 0
    for seed in seeds(150, 5_000):
        make = random_case if seed % 2 else odd_case
        read, allocator, _ = typed(make(seed) | {"tier": "experimental"}, profile)
        try:
            call = Call(allocator, read.node, read.claims)
            search = Search(call.plan, call.candidates, call.ledger, call.bounds, 20_000)
            fits = search.run()
        except (AllocationError, NodeAllocationError):
            continue
        if not fits and not search._stack:
            failed += 1
            number = len(read.claims)
            assert everything(call.ledger) == [[[]] * number, 0, [0] * number, {}, {}, {}], f"seed {seed}"
    assert failed > 20


def test_commit_and_rollback() -> None:
    slices = [
        piece(
            device("whole", consumesCounters=uses("1")),
            device("part", allowMultipleAllocations=True, capacity={"m": {"value": "4"}}),
            of=2,
        ),
        counters(set_1={"mem": "1"}),
    ]
    asked = (claim(request(capacity={"requests": {}})), claim(request(adminAccess=True), name="claim-1"))
    read, allocator, _ = typed(case(slices, *asked, features=(CAPACITY, PARTITIONS, ADMIN)), "correct")
    call = Call(allocator, read.node, read.claims)
    ledger, (whole, part) = call.ledger, call.candidates.devices
    plain, admin = (planned.requests[0][0] for planned in call.plan)

    assert ledger.commit(plain, whole) and ledger.is_touched(0)
    assert ledger.blocked(plain) == 0b01 and ledger.blocked(admin) == 0
    assert not ledger.commit(plain, whole)
    assert not ledger.commit(admin, whole), "the counter is used up"
    assert ledger.commit(admin, part) and not ledger.fits_capacity(plain, part)
    ledger.rollback(1)
    assert ledger.fits_capacity(plain, part) and not ledger.is_touched(1)
    ledger.rollback(0)
    assert ledger.commit(admin, whole) and ledger.blocked(plain) == 0b01 and ledger.blocked(admin) == 0b01


def test_a_share_that_is_taken_back_frees_its_amount_while_others_share_the_device() -> None:
    shared = device("part", allowMultipleAllocations=True, capacity={"m": {"value": "4"}})
    small, large = (
        request(name=name, capacity={"requests": {"m": m}}) for name, m in (("s", "1"), ("l", "3"))
    )
    read, allocator, _ = typed(case([piece(shared)], claim(small, large), features=(CAPACITY,)), "correct")
    call = Call(allocator, read.node, read.claims)
    ledger, (part,) = call.ledger, call.candidates.devices
    (one,), (three,) = call.plan[0].requests
    assert ledger.commit(one, part) and ledger.commit(three, part)
    assert not ledger.fits_capacity(one, part) and not ledger.commit(one, part)
    before = ledger.state(0, [0])
    ledger.rollback(0)
    assert ledger.fits_capacity(three, part) and ledger.state(0, [0]) != before
    assert ledger.commit(three, part) and ledger.state(0, [0]) == before, (
        "and as often as the search comes back"
    )
    ledger.rollback(0)
    assert ledger.commit(one, part) and ledger.commit(one, part) and ledger.commit(one, part)
    assert not ledger.fits_capacity(one, part)


def test_the_search_goes_on_with_the_amount_of_a_share_it_took_back() -> None:
    """`b` goes to the first device, `c` does not fit beside it; so `b` moves and its 2 are free for `c`."""
    first, second = (
        device(
            name,
            allowMultipleAllocations=True,
            capacity={key: {"value": value} for key, value in has.items()},
        )
        for name, has in (("first", {"m": "4", "k": "2"}), ("second", {"m": "2", "k": "0"}))
    )
    wanted = {"a": {"m": "1", "k": "1"}, "b": {"m": "2", "k": "0"}, "c": {"m": "2", "k": "1"}}
    asked = [request(name=name, capacity={"requests": amounts}) for name, amounts in wanted.items()]
    given = case([piece(first, second)], claim(*asked), features=(CAPACITY,))
    for profile in PROFILES:
        assert picks(given, profile) == ["a=first", "b=second", "c=first"], profile


def test_bits() -> None:
    assert list(bits(0)) == [] and list(bits(0b1011 << 70)) == [70, 71, 73]


@pytest.mark.parametrize("profile", list(PROFILES))
def test_a_device_whose_capacity_is_in_use_gives_its_counters_back(profile: str) -> None:
    """It is given whole now, but a share of before still holds most of it: an `All` request gets as far as its counters."""
    memory = {"memory": {"value": "8Gi"}}
    slices = [
        piece(
            device("a", capacity=memory, consumesCounters=uses("2")),
            device("b", consumesCounters=uses("2")),
            of=2,
        ),
        counters(set_1={"mem": "4"}),
    ]
    asked = claim(request(capacity={"requests": {"memory": "4Gi"}}), request(name="plain"))
    held = {"allocatedCapacity": {"driver-a/pool-1/a": {"memory": "6Gi"}}}
    read, allocator, _ = typed(case(slices, asked, features=(CAPACITY, PARTITIONS), **held), profile)
    call = Call(allocator, read.node, read.claims)
    (with_amount,), (plain,) = call.plan[0].requests
    first, second = call.candidates.devices
    before = everything(call.ledger)
    assert not call.ledger.commit(with_amount, first)
    assert everything(call.ledger) == before
    assert call.ledger.commit(plain, second)
