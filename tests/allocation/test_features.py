from __future__ import annotations

from dataclasses import replace

import pytest

from dray.allocation.faults import AllocationError
from dray.allocation.features import (
    ALL_FEATURES,
    NAMES,
    NO_FEATURES,
    Features,
    Tier,
    features_for,
    features_of_gates,
    tier,
)
from dray.allocation.profiles import CORRECT, KUBERNETES_1_36, KUBERNETES_1_37
from dray.semantics.features import Gate
from tests.allocation.world import (
    ADMIN,
    BINDING,
    CAPACITY,
    LIST,
    LISTS,
    PARTITIONS,
    TAINTS,
    answer,
    case,
    claim,
    device,
    devices,
    fault,
    piece,
    request,
)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((), Tier.STABLE),
        ((ADMIN, LIST, PARTITIONS, TAINTS), Tier.STABLE),
        ((BINDING,), Tier.INCUBATING),
        ((CAPACITY,), Tier.INCUBATING),
        ((ADMIN, LIST, PARTITIONS, TAINTS, BINDING, CAPACITY), Tier.INCUBATING),
        ((LISTS,), Tier.EXPERIMENTAL),
        (tuple(NAMES.values()), Tier.EXPERIMENTAL),
    ],
)
def test_the_first_tier_that_has_everything(names: tuple[str, ...], expected: Tier) -> None:
    assert tier(Features.named(names)) is expected


def test_no_tier_has_it() -> None:
    with pytest.raises(
        AllocationError, match=r"no allocator available .*DRAListTypeAttributes.* stable, incub"
    ):
        tier(Features.named([LISTS]), [Tier.STABLE, Tier.INCUBATING])
    given = case([piece(*devices("one"))], claim(request()), features=(CAPACITY,), tier="stable")
    assert "no allocator available" in fault(given)


def test_names_go_both_ways() -> None:
    assert Features.named(ALL_FEATURES.names) == ALL_FEATURES
    assert NO_FEATURES.names == ()


@pytest.mark.parametrize(
    ("profile", "lists"), [(KUBERNETES_1_36, False), (KUBERNETES_1_37, True), (CORRECT, True)]
)
def test_gates(profile: object, lists: bool) -> None:
    """Q10: the 1.36 scheduler has the gate but never asks for the feature."""
    found = features_of_gates(frozenset(Gate), profile)  # type: ignore[arg-type]
    assert found.list_type_attributes is lists
    one = features_of_gates(frozenset([Gate.ADMIN_ACCESS]), CORRECT)
    assert one == Features(admin_access=True)


def test_gates_of_a_profile() -> None:
    assert features_for(CORRECT) == replace(ALL_FEATURES, device_taint_rules=True)
    assert "DRAListTypeAttributes" not in features_for(KUBERNETES_1_36).names
    assert "DRADeviceTaints" not in features_for(CORRECT, {Gate.DEVICE_TAINTS: False}).names
    half = features_for(CORRECT, {Gate.RESOURCE_CLAIM_DEVICE_STATUS: False})
    assert half == replace(features_for(CORRECT), device_binding_and_status=False)


def test_rules_that_a_server_has_count() -> None:
    assert features_for(KUBERNETES_1_37).device_taint_rules
    assert not features_for(KUBERNETES_1_36).device_taint_rules
    assert features_for(KUBERNETES_1_36, has_served_rules=True).device_taint_rules
    off = features_for(KUBERNETES_1_36, {Gate.DEVICE_TAINT_RULES: False}, has_served_rules=True)
    assert not off.device_taint_rules


def test_stable_has_no_distinct_attribute() -> None:
    given = case(
        [piece(device("one", attributes={"x": {"int": 1}}))],
        claim(request(), constraints=[{"distinctAttribute": "driver-a/x"}]),
    )
    assert "empty constraint" in fault(given | {"tier": "auto"})
    assert answer(given)["error"] == ""


def test_stable_ignores_binds_to_node_and_names_the_slice_s_node() -> None:
    given = case([piece(device("one", bindsToNode=True), allNodes=True)], claim(request()))
    results = answer(given | {"tier": "stable"})["results"]
    assert "nodeSelector" not in results[0]
    pinned = answer(given)["results"][0]["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]
    assert pinned == {"key": "metadata.name", "operator": "In", "values": ["node-1"]}


def test_stable_takes_slices_as_listed_and_never_looks_at_shares() -> None:
    slices = [piece(*devices("b"), name="z", of=2), piece(*devices("a"), name="y", of=2)]
    given = case(slices, claim(request()))
    first = answer(given | {"tier": "stable"})["results"][0]["devices"]["results"][0]["device"]
    assert first == "b"
    assert answer(given)["results"][0]["devices"]["results"][0]["device"] == "a"


def test_stable_does_not_refuse_capacity_requests() -> None:
    given = case([piece(*devices("one"))], claim(request(capacity={"requests": {"m": "1"}})))
    assert answer(given | {"tier": "stable"})["error"] == ""
    assert "DRAConsumableCapacity feature is disabled" in fault(given)
