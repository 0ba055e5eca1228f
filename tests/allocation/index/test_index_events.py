"""An index that is fed by events answers at every moment as an allocator made from scratch."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from dray.allocation.allocator import Allocator, Options
from dray.allocation.cases import read_case
from dray.allocation.faults import AllocationError, NodeAllocationError
from dray.allocation.features import Features, Tier
from dray.allocation.index.index import Index
from dray.allocation.profiles import PROFILES
from dray.allocation.selector import CompiledSelectors, features_for_selectors
from dray.allocation.state import AllocatedState
from dray.api.core.node import Node
from dray.api.meta import ObjectMeta
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.claim_status import ResourceClaimStatus
from dray.api.resource.slice import ResourceSlice
from tests.allocation.generate import generate_case
from tests.allocation.index.test_index import check_same
from tests.allocation.random_cases import random_case
from tests.allocation.world import (
    PARTITIONS,
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

RUNS = campaign(12, 1500)
EVENTS = 15


class World:
    """A cluster that changes at random, an index that hears of it, and all objects as they are."""

    def __init__(self, seed: int, profile: str) -> None:
        self.random = Random(seed)
        made = (random_case, generate_case)[seed % 2]
        read = [read_case(made(seed * 100 + number)) for number in range(4)]
        features = Features.named(read[0].features)
        self.options = Options(features, PROFILES[profile], Tier.EXPERIMENTAL)
        self.classes = {one.metadata.name: one for case in read for one in case.classes}
        self.stock = [one for case in read for one in case.slices]
        self.asked = [case.claims for case in read]
        self.slices: dict[str, ResourceSlice] = {}
        self.claims: dict[str, ResourceClaim] = {}
        self.nodes = {name: self.new_node(name) for name in ("node-1", "node-2", "node-3")}
        self.index = Index(self.options, classes=self.classes.values())
        self.made = 0

    def new_node(self, name: str) -> Node:
        labels = {
            "region": self.random.choice(("west", "east")),
            "zone": self.random.choice("ab"),
            "kind": "gpu",
        }
        return Node(metadata=ObjectMeta(name=name, labels=labels))

    def happen(self) -> None:
        """One event."""
        kinds = (
            self.set_slice,
            self.set_slice,
            self.remove_slice,
            self.relabel,
            self.allocate,
            self.allocate,
        )
        self.random.choice((*kinds, self.release))()

    def set_slice(self) -> None:
        one = self.random.choice(self.stock)
        name = f"slice-{self.random.randrange(5)}"
        node = self.random.choice(tuple(self.nodes)) if one.spec.node_name else one.spec.node_name
        spec = msgspec.structs.replace(one.spec, node_name=node)
        self.slices[name] = ResourceSlice(metadata=ObjectMeta(name=name), spec=spec)
        self.index.set_slice(self.slices[name])

    def remove_slice(self) -> None:
        if self.slices and self.random.random() < 0.5:
            name = self.random.choice(sorted(self.slices))
            del self.slices[name]
            self.index.remove_slice(name)
        self.index.remove_slice("no-such-slice")

    def relabel(self) -> None:
        name = self.random.choice(sorted(self.nodes))
        self.nodes[name] = self.new_node(name)

    def allocate(self) -> None:
        claims = self.random.choice(self.asked)
        try:
            got = self.index.attempt(claims).allocate(self.random.choice(list(self.nodes.values())))
        except (AllocationError, NodeAllocationError):
            return
        for wanted, result in zip(claims, got.results if got else (), strict=bool(got)):
            self.made += 1
            name = f"held-{self.made}"
            held = ResourceClaim(
                metadata=ObjectMeta(name=name),
                spec=wanted.spec,
                status=ResourceClaimStatus(allocation=result),
            )
            self.claims[name] = held
            self.index.set_claim(held)
            self.index.set_claim(held)

    def release(self) -> None:
        if not self.claims:
            return
        name = self.random.choice(sorted(self.claims))
        claim = self.claims.pop(name)
        if self.random.random() < 0.5:
            self.index.remove_claim(claim)
        else:
            self.index.set_claim(msgspec.structs.replace(claim, status=ResourceClaimStatus()))

    def plain(self) -> Allocator:
        """From scratch."""
        features = self.options.features
        state = AllocatedState.of(self.claims.values(), consumable_capacity=features.consumable_capacity)
        return Allocator(
            self.options,
            allocated=state,
            classes=self.classes.values(),
            slices=self.slices.values(),
            selectors=CompiledSelectors(features_for_selectors(features, self.options.profile)),
        )


def feasible(plain: Allocator, nodes: list[Node], claims: tuple[ResourceClaim, ...]) -> Any:
    found = []
    for node in nodes:
        try:
            if plain.allocate(node, claims) is not None:
                found.append(node)
        except NodeAllocationError:
            continue
        except AllocationError as error:
            return str(error)
    return found


@pytest.mark.parametrize("profile", list(PROFILES))
def test_every_answer_after_every_event(profile: str) -> None:
    fits = 0
    for seed in range(RUNS):
        world = World(seed, profile)
        for _ in range(EVENTS):
            world.happen()
            plain, nodes = world.plain(), list(world.nodes.values())
            for claims in world.asked:
                expected = feasible(plain, nodes, claims)
                try:
                    got: Any = world.index.attempt(claims).feasible(nodes)
                except AllocationError as error:
                    got = str(error)
                assert got == expected, f"seed {seed}"
                fits += isinstance(got, list) and bool(got)
                check_same(plain, world.index, world.random.choice(nodes), claims)
    assert fits > RUNS


@pytest.mark.parametrize("profile", list(PROFILES))
def test_a_snapshot_is_what_was_fed(profile: str) -> None:
    world = World(3, profile)
    for _ in range(60):
        world.happen()
    plain, snapshot = world.plain(), world.index.allocator()
    assert snapshot.rules.allocated == plain.rules.allocated
    assert {one.metadata.name for one in snapshot.slices.every} == set(world.slices)
    assert snapshot.classes == plain.classes


def test_counters_follow_what_is_held_and_given_back() -> None:
    """Two partitions of which one fits at a time: one claim after the other, then the first again."""
    parts = [device(name, consumesCounters=uses("5Gi")) for name in ("a", "b")]
    given = case(
        [piece(*parts, of=2), counters(set_1={"mem": "8Gi"})], claim(request()), features=(PARTITIONS,)
    )
    read = read_case(given)
    index = Index(
        Options(Features.named(read.features), PROFILES["correct"]), classes=read.classes, slices=read.slices
    )
    for _ in range(3):
        got = index.attempt(read.claims).allocate(read.node)
        assert got is not None and got.results[0].devices.results[0].device == "a"
        held = msgspec.structs.replace(read.claims[0], status=ResourceClaimStatus(allocation=got.results[0]))
        index.set_claim(held)
        assert index.attempt(read.claims).feasible([read.node]) == []
        assert index.attempt(read.claims).allocate(read.node) is None
        index.remove_claim(held)
        assert index.attempt(read.claims).feasible([read.node]) == [read.node]


def test_another_class_of_the_same_name_is_noticed() -> None:
    read = read_case(case([piece(*devices("a"))], claim(request())))
    index = Index(Options(), classes=read.classes, slices=read.slices)
    assert index.attempt(read.claims).feasible([read.node]) == [read.node]
    index.set_classes(read.classes)
    assert index.attempt(read.claims).feasible([read.node]) == [read.node]
    index.set_classes([msgspec.structs.replace(one, spec=read.classes[1].spec) for one in read.classes])
    assert index.attempt(read.claims).feasible([read.node]) == []
    index.set_classes(())
    with pytest.raises(AllocationError, match="could not retrieve device class"):
        index.attempt(read.claims).feasible([read.node])


def test_an_error_names_the_claim_that_is_asked_about() -> None:
    """Two attempts with the same selectors in claims of other names, one after the other."""
    broken = 'device.attributes["driver-a"].missing == "X"'
    read = read_case(
        case([piece(*devices("a"))], claim(request(1, broken)), claim(request(1, broken), name="other"))
    )
    index = Index(Options(), classes=read.classes, slices=read.slices)
    for one in (*read.claims, *read.claims):
        with pytest.raises(AllocationError, match=f"^claim {one.metadata.name}: selector #0 on device"):
            index.attempt([one]).allocate(read.node)


def test_devices_whose_node_selector_no_result_can_hold_are_no_fit() -> None:
    term = {"matchExpressions": [{"key": "region", "operator": "In", "values": ["west"]}]}
    two_terms = piece(*devices("a"), nodeSelector={"nodeSelectorTerms": [term, term]})
    read = read_case(case([two_terms], claim(request())))
    index = Index(Options(), classes=read.classes, slices=read.slices)
    for _ in range(2):
        with pytest.raises(AllocationError, match="NodeSelector with 2 terms"):
            index.attempt(read.claims).feasible([read.node])
