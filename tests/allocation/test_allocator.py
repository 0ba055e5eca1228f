"""Random cases: what must hold whatever is asked, and that nothing is missed."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from dray.allocation.allocator import Allocator, Call, Options
from dray.allocation.cases import allocator_of, read_case, run_case
from dray.allocation.faults import AllocationError, NodeAllocationError
from dray.allocation.features import NAMES, Features, Tier
from dray.allocation.profiles import CORRECT, PROFILES
from dray.allocation.search import Search
from dray.allocation.selector import CompiledSelectors
from dray.allocation.state import AllocatedState
from dray.api.codec.json_codec import to_raw
from tests.allocation.brute_force import first_fit, is_valid
from tests.allocation.dice import TIERS
from tests.allocation.generate import generate_case
from tests.allocation.invariants import broken
from tests.allocation.mig_cases import mig_case
from tests.allocation.odd_cases import odd_case
from tests.allocation.random_cases import random_case
from tests.allocation.stand_in import StandIn
from tests.allocation.test_cases import masked
from tests.allocation.world import (
    ADMIN,
    CAPACITY,
    LISTS,
    Json,
    case,
    claim,
    counters,
    device,
    devices,
    every,
    piece,
    request,
    typed,
    uses,
)
from tests.campaign import campaign, seeds

CASES = campaign(300, 50_000)


def harmless(seed: int) -> dict[str, Any]:
    return random_case(seed, errors=False) | {"tier": "experimental"}


def harmless_mig(seed: int) -> dict[str, Any]:
    return mig_case(seed, errors=False)


@pytest.mark.parametrize(("make", "share"), [(harmless, 2), (generate_case, 3), (harmless_mig, 4)])
def test_finds_the_very_first_fit_whenever_there_is_one(
    make: Callable[[int], dict[str, Any]], share: int
) -> None:
    """In profile `correct`, against every assignment in order; with cases of two generators over all features."""
    tried = found = 0
    features: Counter[str] = Counter()
    for seed in range(CASES):
        read = read_case(make(seed))
        allocator = allocator_of(read, CompiledSelectors, CORRECT)
        try:
            call = Call(allocator, read.node, read.claims)
            expected = first_fit(call, allocator.rules, 2_000)
        except (OverflowError, AllocationError, NodeAllocationError):
            continue
        tried += 1
        features.update(read.features)
        try:
            fits = Search(call.plan, call.candidates, call.ledger, call.bounds).run()
        except AllocationError as error:  # An error, not a refusal; nothing else is one here.
            assert "capacity value is negative" in str(error), f"seed {seed}"
            continue
        got = [(pick.request, pick.candidate) for picks in call.ledger.picks for pick in picks]
        assert (got if fits else None) == expected, f"seed {seed}"
        found += expected is not None
    assert tried > CASES / share and found > CASES / 10
    if make is not harmless_mig:
        assert set(features) == set(NAMES.values()) and min(features.values()) > tried / 4


@pytest.mark.parametrize("profile", list(PROFILES))
@pytest.mark.parametrize(
    "make", [random_case, odd_case, *(partial(generate_case, tier=tier) for tier in TIERS)]
)
def test_no_device_twice_and_nothing_exceeded(profile: str, make: Callable[[int], dict[str, Any]]) -> None:
    """Read from the answer alone. Kubernetes 1.36 adds up capacity wrongly where amounts are odd."""
    fits = 0
    for seed in seeds(150, 5_000):
        given = make(seed)
        results = run_case(given, CompiledSelectors, PROFILES[profile])["results"]
        if results is not None:
            fits += 1
            is_odd = make is odd_case and profile == "k8s-1.36"
            assert broken(given, results, capacity=not is_odd) == [], f"seed {seed}"
    assert fits > 10


def test_what_is_broken_is_seen() -> None:
    slices = [
        piece(*devices("a", "b", consumesCounters=uses("3")), of=2),
        counters(set_1={"mem": "4"}),
        piece(device("s", allowMultipleAllocations=True, capacity={"m": {"value": "4"}}), pool="p2"),
    ]
    given = case(slices, allocatedDevices=["driver-a/pool-1/b"]) | dict.fromkeys(
        ("allocatedSharedDeviceIDs", "allocatedCapacity")
    )

    def result(*names: str, **fields: Any) -> Json:
        pool = "p2" if fields else "pool-1"
        one = {"driver": "driver-a", "pool": pool, "request": "r", **fields}
        return {"devices": {"results": [one | {"device": name} for name in names]}}

    alone = given | {"allocatedDevices": []}
    share = result("s", shareID="x", consumedCapacity={"m": "3"})
    assert broken(alone, [result("a")]) == [] == broken(alone, [share])
    assert broken(alone, [result("a"), result("a")]) == [
        "('driver-a', 'pool-1', 'a') in two claims",
        "('set-1', 'mem') of driver-a/pool-1 exceeded",
    ]
    assert "is in use" in broken(given, [result("b")])[0]
    assert broken(given, [result("a")]) == ["('set-1', 'mem') of driver-a/pool-1 exceeded"]
    assert broken(alone, [share, share]) == ["m of ('driver-a', 'p2', 's') exceeded"]


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


@pytest.mark.parametrize("profile", list(PROFILES))
def test_counting_shared_counters_never_changes_the_answer(profile: str) -> None:
    """The same for cards in partitions, where the counters decide; and that this leaves out steps, often most of them."""
    seen: Counter[str] = Counter()
    for seed in seeds(150, 30_000):
        given = mig_case(seed)
        plain, steps = searched(given, profile, dead_ends=-1_000_000)
        if str(plain).startswith("gave up"):
            continue
        got, fewer = searched(given, profile, dead_ends=100)
        assert got == plain, given["name"]
        seen["fits" if isinstance(plain, list) else "none" if plain is None else "fails"] += 1
        seen["fewer"] += 2 * fewer < steps
    assert min(seen["fits"], seen["none"], seen["fewer"]) > 20 and seen["fails"] > 5


def searched(given: Json, profile: str, *, dead_ends: int) -> tuple[Any, int]:
    """The devices, None or the error's text; and the steps it took. Bounds count after some dead ends."""
    read, allocator, _ = typed(given, profile)
    try:
        call = Call(allocator, read.node, read.claims)
    except (AllocationError, NodeAllocationError) as error:
        return str(error), 0
    search = Search(call.plan, call.candidates, call.ledger, call.bounds, 6_000)
    search._dead_ends = dead_ends
    try:
        fits = search.run()
    except (AllocationError, NodeAllocationError) as error:
        return str(error), search.steps
    picks = [str(pick.candidate.id) for picks in call.ledger.picks for pick in picks]
    return picks if fits else None, search.steps


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


@pytest.mark.parametrize(
    ("features", "asked", "expected"),
    [
        ([], None, Tier.STABLE),
        ([ADMIN], None, Tier.STABLE),
        ([CAPACITY], None, Tier.INCUBATING),
        ([CAPACITY, LISTS], None, Tier.EXPERIMENTAL),
        ([], Tier.STABLE, Tier.STABLE),
        ([], Tier.EXPERIMENTAL, Tier.EXPERIMENTAL),
        ([ADMIN], Tier.INCUBATING, Tier.INCUBATING),
    ],
)
def test_the_tier_is_the_first_that_has_the_features_or_the_one_asked_for(
    features: list[str], asked: Tier | None, expected: Tier
) -> None:
    known = Features.named(features)
    allocator = Allocator(
        Options(known, tier=asked),
        allocated=AllocatedState(),
        classes=(),
        slices=(),
        selectors=StandIn(known),
    )
    assert allocator.tier is expected


def test_all_devices_of_a_pool_that_is_being_updated_and_whose_selector_fails() -> None:
    """Nobody knows whether the pool has devices for the request, so this node cannot be judged."""
    slices = [
        piece(device("x", attributes={"type": {"string": "X"}})),
        piece(device("bad"), name="s2", pool="p2", of=2),
    ]
    x = 'device.attributes["driver-a"].type == "X"'
    read, allocator, _ = typed(case(slices, claim(every(x))), "correct")
    with pytest.raises(NodeAllocationError, match="resource pool driver-a/p2 is currently being updated"):
        allocator.allocate(read.node, read.claims)
    others = [slices[0], piece(device("y", attributes={"type": {"string": "Y"}}), name="s2", pool="p2", of=2)]
    read, allocator, _ = typed(case(others, claim(every(x))), "correct")
    assert allocator.allocate(read.node, read.claims) is not None
