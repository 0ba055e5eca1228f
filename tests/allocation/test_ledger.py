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


def test_bits() -> None:
    assert list(bits(0)) == [] and list(bits(0b1011 << 70)) == [70, 71, 73]
