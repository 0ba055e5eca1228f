"""Random cases: what must hold whatever is asked, and that nothing is missed."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from dray.allocation.allocator import Allocator, Call, Options
from dray.allocation.cases import read_case, run_case
from dray.allocation.faults import AllocationError, NodeAllocationError
from dray.allocation.features import Features
from dray.allocation.profiles import CORRECT, PROFILES
from dray.allocation.search import Search
from dray.allocation.state import AllocatedState
from dray.api.codec.json_codec import to_raw
from tests.allocation.brute_force import first_fit, is_valid
from tests.allocation.odd_cases import odd_case
from tests.allocation.random_cases import random_case
from tests.allocation.stand_in import StandIn
from tests.allocation.test_cases import masked
from tests.allocation.world import CAPACITY, case, claim, device, piece, request, typed
from tests.campaign import campaign

CASES = campaign(300, 50_000)


def test_finds_the_very_first_fit_whenever_there_is_one() -> None:
    """In profile `correct`, against every assignment in order."""
    tried = found = 0
    for seed in range(CASES):
        read, allocator, _ = typed(random_case(seed, errors=False) | {"tier": "experimental"}, "correct")
        try:
            call = Call(allocator, read.node, read.claims)
            expected = first_fit(call, allocator.rules, 2_000)
        except (OverflowError, AllocationError, NodeAllocationError):
            continue
        tried += 1
        search = Search(call.plan, call.candidates, call.ledger, call.bounds)
        got = (
            [(pick.request, pick.candidate) for picks in call.ledger.picks for pick in picks]
            if search.run()
            else None
        )
        assert got == expected, f"seed {seed}"
        found += expected is not None
    assert tried > CASES / 2 and found > CASES / 10


@pytest.mark.parametrize("profile", ["k8s-1.37", "correct"])
def test_what_is_given_keeps_every_promise(profile: str) -> None:
    for seed in range(CASES):
        read, allocator, _ = typed(random_case(seed) | {"tier": "experimental"}, profile)
        try:
            call = Call(allocator, read.node, read.claims)
            fits = Search(call.plan, call.candidates, call.ledger, call.bounds).run()
        except (AllocationError, NodeAllocationError):
            continue
        if fits and not any(
            one.match_attribute and one.distinct_attribute
            for c in read.claims
            for one in c.spec.devices.constraints
        ):
            picks = [(pick.request, pick.candidate) for picks in call.ledger.picks for pick in picks]
            assert is_valid(call, allocator.rules, picks), f"seed {seed}"


@pytest.mark.parametrize("profile", list(PROFILES))
def test_bounds_never_change_the_answer(profile: str) -> None:
    """The same search with and without leaving out steps, errors included."""

    def outcome(given: dict[str, Any], is_bounded: bool) -> Any:
        read, allocator, _ = typed(given | {"tier": "experimental"}, profile)
        try:
            call = Call(allocator, read.node, read.claims)
            search = Search(call.plan, call.candidates, call.ledger, call.bounds, 3_000)
            search._dead_ends = 100 if is_bounded else -1_000_000
            if not search.run():
                return None
            return [str(pick.candidate.id) for picks in call.ledger.picks for pick in picks]
        except (AllocationError, NodeAllocationError) as error:
            return str(error)

    # The one by number: devices of an All request look alike, but their order decides whether there is an error.
    cases = [
        random_case(113942),
        *(make(seed) for seed in range(CASES // 2) for make in (random_case, odd_case)),
    ]
    for given in cases:
        plain = outcome(given, is_bounded=False)
        if not str(plain).startswith("gave up"):
            assert outcome(given, is_bounded=True) == plain, given["name"]


def test_the_same_question_has_the_same_answer() -> None:
    for seed in range(100):
        given = random_case(seed)
        first = masked(run_case(given, StandIn))
        assert masked(run_case(json.loads(json.dumps(given)), StandIn)) == first
        shuffled = given | {"slices": random.Random(seed).sample(given["slices"], len(given["slices"]))}
        again = masked(run_case(shuffled, StandIn))
        assert again["results"] == first["results"]


def test_an_allocator_answers_many_times_alike() -> None:
    read, allocator, _ = typed(case([piece(device("one"), device("two"))], claim(request())))
    first = allocator.allocate(read.node, read.claims)
    assert first is not None and allocator.allocate(read.node, read.claims) == first


def test_share_ids_are_made_where_told_and_only_for_results() -> None:
    shared = device("one", allowMultipleAllocations=True)
    read = read_case(
        case([piece(shared, device("two"))], claim(request(2)), claim(request(name="b"), name="c"))
    )
    made: list[str] = []

    def new_share_id() -> str:
        made.append(f"id-{len(made)}")
        return made[-1]

    features = Features.named([CAPACITY])
    allocator = Allocator(
        Options(features, CORRECT),
        allocated=AllocatedState(),
        classes=read.classes,
        slices=read.slices,
        selectors=StandIn(features),
        new_share_id=new_share_id,
    )
    allocation = allocator.allocate(read.node, read.claims)
    assert allocation is not None
    shares = [one.get("shareID") for r in allocation.results for one in to_raw(r)["devices"]["results"]]
    assert shares == ["id-0", None, "id-1"] and len(made) == 2
