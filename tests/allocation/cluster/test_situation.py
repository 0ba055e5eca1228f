from __future__ import annotations

from dataclasses import replace

from dray.allocation.cluster.situation import joined, with_allocated
from dray.allocation.features import Tier
from dray.allocation.profiles import CORRECT, KUBERNETES_1_36, KUBERNETES_1_37
from dray.allocation.state import AllocatedState, DeviceID, ShareID
from dray.api.quantity import Quantity
from dray.api.resource.claim import ResourceClaim
from tests.allocation.dumps import as_object, claims, holding, situation, slices
from tests.allocation.world import claim, devices, piece, request


def fits(*parts: object, **options: object) -> bool:
    one = situation(*parts, **options)  # type: ignore[arg-type]
    wanted: list[ResourceClaim] = [c for c in one.cluster.claims if c.status.allocation is None]
    return one.allocator.allocate(one.cluster.nodes[0], wanted) is not None


def test_the_other_profile() -> None:
    one = situation(slices(piece(*devices("d"))))
    assert (one.profile.name, one.allocator.tier) == ("correct", Tier.EXPERIMENTAL)
    other = one.other()
    assert (other.profile.name, other.allocator.tier) == ("k8s-1.36", Tier.INCUBATING)
    assert other.other().profile is CORRECT


def test_allocated_claims_are_in_use_and_taint_rules_taint() -> None:
    wanted, world = claims(claim(request())), slices(piece(*devices("d")))
    assert fits(wanted, world)
    assert not fits(wanted, world, claims(holding("h", "d")))
    taint = {"taint": {"key": "k", "effect": "NoSchedule"}}
    beta = "resource.k8s.io/v1beta2"
    on = "DRADeviceTaintRules=true"
    for selector, profile, gates, expected in (
        ({"deviceSelector": {"driver": "driver-a"}}, CORRECT, "", False),
        ({"deviceSelector": {"driver": "driver-a"}}, CORRECT, "DRADeviceTaintRules=false", True),
        ({"deviceSelector": {"driver": "driver-a"}}, CORRECT, "DRADeviceTaints=false", True),
        ({"deviceSelector": {"driver": "driver-b"}}, CORRECT, "", True),
        ({}, CORRECT, "", True),
        ({}, KUBERNETES_1_36, "", True),
        ({}, KUBERNETES_1_36, on, False),
        ({}, KUBERNETES_1_37, "", False),
    ):
        rule = as_object("DeviceTaintRule", {"metadata": {"name": "r"}, "spec": taint | selector}, beta)
        assert fits(wanted, world, rule, profile=profile, gates=gates) is expected


def test_rules_of_a_server_count_as_its_scheduler_must_know_them() -> None:
    one = situation(slices(piece(*devices("d"))))
    assert not one.other().features.device_taint_rules
    live = replace(one, cluster=replace(one.cluster, has_served_rules=True))
    assert live.other().features.device_taint_rules


def test_another_state_leaves_the_allocator_as_it_was() -> None:
    one = situation(claims(claim(request())), slices(piece(*devices("d"))))
    node, wanted = one.cluster.nodes[0], one.cluster.claims
    full = with_allocated(one.allocator, AllocatedState(frozenset([DeviceID("driver-a", "pool-1", "d")])))
    assert full.allocate(node, wanted) is None
    assert one.allocator.allocate(node, wanted) is not None


def test_states_add_up() -> None:
    a, b = DeviceID("d", "p", "a"), DeviceID("d", "p", "b")
    one = AllocatedState(frozenset([a]), frozenset([ShareID(b, "1")]), {b: {"memory": Quantity("1Gi")}})
    two = AllocatedState(frozenset(), frozenset([ShareID(b, "2")]), {b: {"memory": Quantity("2Gi")}})
    both = joined(one, two)
    assert both.devices == {a} and len(both.shares) == 2
    assert both.capacity == {b: {"memory": Quantity("3Gi")}}
    assert one.capacity == {b: {"memory": Quantity("1Gi")}}
