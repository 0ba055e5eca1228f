"""The index answers as the plain allocator does, whatever was asked and fed before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dray.allocation.allocator import Allocation, Allocator, Options
from dray.allocation.cases import AUTO, Case, allocator_of, read_case
from dray.allocation.faults import AllocationError, NodeAllocationError, StepLimitError
from dray.allocation.features import Features, Tier
from dray.allocation.index import matches
from dray.allocation.index.index import Index
from dray.allocation.profiles import CORRECT, PROFILES, Profile
from dray.allocation.selector import CompiledSelectors
from dray.api.codec.json_codec import to_raw, view
from dray.api.core.node import Node
from dray.api.meta import ObjectMeta
from dray.api.resource.claim import ResourceClaim
from dray.errors import InvalidError
from tests.allocation.generate import generate_case
from tests.allocation.odd_cases import odd_case
from tests.allocation.random_cases import random_case
from tests.allocation.world import (
    CAPACITY,
    PARTITIONS,
    TAINTS,
    case,
    claim,
    counters,
    device,
    devices,
    piece,
    request,
    uses,
)
from tests.campaign import campaign
from tests.cases import read_cases

Json = dict[str, Any]
CASES = campaign(150, 20_000)
COMMITTED = [
    one
    for name in ("recorded.jsonl", "random.jsonl")
    for one in read_cases(Path(__file__).parents[1] / "cases" / name)
]
OTHER = Node(metadata=ObjectMeta(name="node-2", labels={"region": "east", "zone": "b"}))


def options_of(read: Case, profile: Profile) -> Options:
    return Options(Features.named(read.features), profile, None if read.tier == AUTO else Tier(read.tier))


def outcome(ask: Callable[[], Allocation | None]) -> Any:
    try:
        got = ask()
    except (AllocationError, NodeAllocationError) as error:
        return type(error).__name__, str(error)
    return None if got is None else ([to_raw(one) for one in got.results], got.steps)


def share_ids() -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"share-{number}"


def pair(read: Case, profile: Profile) -> tuple[Allocator, Index]:
    plain = allocator_of(read, CompiledSelectors, profile)
    index = Index(
        options_of(read, profile), classes=read.classes, slices=read.slices, before=plain.rules.allocated
    )
    return plain, index


def check_same(plain: Allocator, index: Index, node: Node, claims: tuple[ResourceClaim, ...]) -> Any:
    """The index counts first, then searches, then knows. Share IDs are made in the same order."""
    plain._new_share_id = share_ids().__next__
    expected = outcome(lambda: plain.allocate(node, claims))
    fits = expected is not None and isinstance(expected[0], list)
    try:
        assert index.attempt(claims).feasible([node]) == ([node] if fits else [])
    except AllocationError as error:
        assert expected == ("AllocationError", str(error))
    for _ in range(2):
        index.new_share_id = share_ids().__next__
        assert outcome(lambda: index.attempt(claims).allocate(node)) == expected
    return expected


def read_distinct(given: Json) -> Case:
    """The case with a name of its own for every slice, as an API server sees to."""
    read = read_case(given)
    slices = []
    for number, one in enumerate(read.slices):
        is_first = all(one.metadata.name != other.metadata.name for other in read.slices[:number])
        name = one.metadata.name if is_first else f"{one.metadata.name}-{number}"
        slices.append(msgspec.structs.replace(one, metadata=ObjectMeta(name=name)))
    return msgspec.structs.replace(read, slices=tuple(slices))


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda one: one.name)
def test_committed_cases(profile: Profile) -> None:
    asked = 0
    for given in COMMITTED:
        try:
            read = read_distinct(given)
            plain, index = pair(read, profile)
        except InvalidError:  # a tier that does not have the features
            continue
        for node in (read.node, OTHER):
            check_same(plain, index, node, read.claims)
        asked += 1
    assert asked > 0.9 * len(COMMITTED)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda one: one.name)
@pytest.mark.parametrize("make", [random_case, odd_case, generate_case], ids=lambda one: one.__name__)
def test_random_cases(profile: Profile, make: Callable[[int], Json]) -> None:
    kinds = set()
    for seed in range(CASES):
        read = read_distinct({"tier": "experimental"} | make(seed))
        plain, index = pair(read, profile)
        for node in (read.node, OTHER):
            expected = check_same(plain, index, node, read.claims)
            kinds.add(expected[0] if expected and isinstance(expected[0], str) else bool(expected))
    assert {True, False} <= kinds


@pytest.mark.parametrize("tier", ["stable", "incubating"])
def test_random_cases_of_other_tiers(tier: str) -> None:
    for seed in range(CASES):
        read = read_distinct(generate_case(seed, tier=tier))
        for profile in PROFILES.values():
            plain, index = pair(read, profile)
            check_same(plain, index, read.node, read.claims)


def test_a_quick_refusal_takes_no_step_and_says_what_the_search_would() -> None:
    """Nothing is evaluated again, and a pool that is invalid is still reported."""
    slices = [piece(*devices("a", "b")), piece(*devices("x", "x"), pool="pool-2", name="slice-2")]
    read = read_case(case(slices, claim(request(3))))
    plain, index = pair(read, PROFILES["correct"])
    assert check_same(plain, index, read.node, read.claims) == (
        "NodeAllocationError",
        "invalid resource pools were encountered",
    )
    assert index.attempt(read.claims).feasible([read.node]) == []


def test_selectors_run_once_for_each_projection() -> None:
    """A thousand devices with a name of their own, but two sizes: the class runs once, the selector twice."""
    sizes = ("4Gi", "8Gi")
    many = [
        device(
            f"d{n}", attributes={"uuid": {"string": f"u{n}"}}, capacity={"memory": {"value": sizes[n % 2]}}
        )
        for n in range(1000)
    ]
    slices = [piece(*many[at : at + 100], name=f"slice-{at}", of=10) for at in range(0, 1000, 100)]
    wanted = 'device.capacity["driver-a"].memory.compareTo(quantity("6Gi")) >= 0'
    read = read_case(case(slices, claim(request(1, wanted))))
    _, index = pair(read, PROFILES["correct"])
    got = index.attempt(read.claims).allocate(read.node)
    assert got is not None and got.results[0].devices.results[0].device == "d1"
    assert index.matchers.evaluations == 3
    assert index.attempt(read.claims).allocate(read.node) is not None
    assert index.matchers.evaluations == 3


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda one: one.name)
def test_capacity_in_use_of_a_device_that_is_no_longer_shared(profile: Profile) -> None:
    """Its slice says now that it is given whole, but a share of before still holds half of it."""
    slices = [piece(device("a", capacity={"memory": {"value": "8Gi"}}))]
    held = {"allocatedCapacity": {"driver-a/pool-1/a": {"memory": "4Gi"}}}
    for fields, fits in ((held, False), ({}, True)):
        read = read_case(case(slices, claim(request()), features=(CAPACITY,), **fields))
        plain, index = pair(read, profile)
        assert (check_same(plain, index, read.node, read.claims) is not None) is fits


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda one: one.name)
def test_wishes_for_capacity_are_not_counted_by_device(profile: Profile) -> None:
    """One device serves two wishes where it can be shared, none where it has too little."""
    memory = {"memory": {"value": "8Gi"}}
    shared, plain = device("a", allowMultipleAllocations=True, capacity=memory), device("a", capacity=memory)

    def fits(one: Json, *amounts: str) -> bool:
        requests = [
            request(name=f"r{n}", capacity={"requests": {"memory": amount}})
            for n, amount in enumerate(amounts)
        ]
        read = read_case(case([piece(one)], claim(*requests), features=(CAPACITY,)))
        return check_same(*pair(read, profile), read.node, read.claims) is not None

    assert fits(shared, "4Gi", "4Gi") and not fits(shared, "4Gi", "5Gi")
    assert fits(plain, "8Gi") and not fits(plain, "9Gi") and not fits(plain, "4Gi", "4Gi")


def test_what_can_be_counted_takes_no_step() -> None:
    """Where no step is allowed, what fits is found by counting only."""
    plain = device("a", capacity={"memory": {"value": "8Gi"}})
    amount = {"requests": {"memory": "1Gi"}}
    asked = claim(request()), claim(request(2)), claim(request(capacity=amount))
    read = read_case(case([piece(plain)], *asked, features=(CAPACITY,)))
    options = Options(Features.named(read.features), CORRECT, step_limit=0)
    index = Index(options, classes=read.classes, slices=read.slices)
    one, two, by_amount = [index.attempt((each,)) for each in read.claims]
    assert one.feasible([read.node]) == [read.node] and two.feasible([read.node]) == []
    assert by_amount.feasible([read.node]) == []
    with pytest.raises(StepLimitError):
        by_amount.allocate(read.node)


def test_what_matchers_remember_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """And they are made anew, with the same answers."""
    monkeypatch.setattr(matches, "KEPT_BYTES", 10_000)
    some = [device(f"d{number}", attributes={"type": {"string": f"t{number}"}}) for number in range(20)]
    sizes = []
    texts = [
        f"device.attributes['driver-a'].type == 't{number % 25}' && {number} >= 0" for number in range(60)
    ]
    read = read_case(case([piece(*some)], claim(request(1))))
    options = Options(Features.named(read.features), CORRECT)
    index = Index(options, classes=read.classes, slices=read.slices)
    for number, text in enumerate(texts):
        asked = read_case(case([], claim(request(1, text)))).claims
        found = index.attempt(asked).allocate(read.node)
        assert (found is not None) == (number % 25 < 20)
        if found is not None:
            assert [one.device for one in found.results[0].devices.results] == [f"d{number % 25}"]
        sizes.append(index.matchers.kept.size)
    assert max(sizes) < 20_000


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda one: one.name)
def test_a_selector_of_no_known_kind_is_the_same_error(profile: Profile) -> None:
    classes = [
        {"metadata": {"name": "class-a"}, "spec": {"selectors": [{"cel": {"expression": text}}, {}]}}
        for text in ("device.driver == 'driver-a'", "device.driver == 'driver-b'")
    ]
    for one, is_fault in zip(classes, (True, False), strict=True):
        read = read_case(case([piece(*devices("a"))], claim(request()), classes=[one]))
        found = check_same(*pair(read, profile), read.node, read.claims)
        assert (found is not None and found[0] == "AllocationError") is is_fault
        assert not is_fault or "CEL expression empty" in found[1]


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda one: one.name)
@pytest.mark.parametrize(("count", "fits"), [(1, True), (2, True), (3, False)])
def test_counters_stand_in_the_way_of_several_devices(profile: Profile, count: int, fits: bool) -> None:
    """Counting alone sees four devices; their counters let two be had."""
    parts = [device(f"part-{n}", consumesCounters=uses("1")) for n in range(4)]
    slices = [piece(*parts, of=2), counters(set_1={"mem": "2"})]
    read = read_case(case(slices, claim(request(count)), features=(PARTITIONS,)))
    assert (check_same(*pair(read, profile), read.node, read.claims) is not None) is fits


def test_what_was_forgotten_for_want_of_room_is_worked_out_again() -> None:
    """Claims of more shapes than the index remembers, each asked about twice, on two nodes."""
    taint = {"key": "k", "value": "v1", "effect": "NoSchedule"}
    read = read_case(case([piece(device("a", taints=[taint]), device("b"))], claim(), features=(TAINTS,)))
    index = Index(options_of(read, CORRECT), classes=read.classes, slices=read.slices)
    asked = [
        view(claim(request(2, tolerations=[{"key": "k", "value": f"v{n}"}])), ResourceClaim)
        for n in range(matches.KEPT_MATCHERS + 1)
    ]
    for one in (*asked, *asked[:3]):
        tolerates = one.spec.devices.requests[0].exactly
        assert tolerates is not None
        fits = tolerates.tolerations[0].value == "v1"
        assert index.attempt((one,)).feasible([read.node, OTHER]) == ([read.node] if fits else [])


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda one: one.name)
def test_a_device_of_another_node_that_draws_on_counters_nobody_has(profile: Profile) -> None:
    """It makes the pool invalid on every node, whether it is in use or not."""
    far = device("far", consumesCounters=[*uses("1"), *uses("1", counter="unknown")])
    slices = [
        piece(device("a", consumesCounters=uses("1")), device("b", consumesCounters=uses("1")), of=3),
        piece(far, name="slice-2", of=3, nodeName="node-2"),
        counters(of=3, set_1={"mem": "2"}),
    ]
    for held in ([], ["driver-a/pool-1/far"]):
        for count in (1, 2):
            given = case(slices, claim(request(count)), features=(PARTITIONS,), allocatedDevices=held)
            read = read_case(given)
            found = check_same(*pair(read, profile), read.node, read.claims)
            assert found == ("NodeAllocationError", "invalid resource pools were encountered")


@pytest.mark.parametrize(("wanted", "fits"), [(12, True), (13, False)])
def test_many_requests_are_counted_like_few(wanted: int, fits: bool) -> None:
    requests = [request(name=f"r{number}") for number in range(wanted)]
    given = case([piece(*devices(*(f"d{number}" for number in range(12))))], claim(*requests))
    read = read_case(given)
    assert (check_same(*pair(read, CORRECT), read.node, read.claims) is not None) is fits
    none = read_case({**given, "slices": []})
    assert check_same(*pair(none, CORRECT), none.node, none.claims) is None
