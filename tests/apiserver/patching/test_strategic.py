from __future__ import annotations

from copy import deepcopy

import pytest

from dray.apiserver.patching.refusal import PatchError
from dray.apiserver.patching.shapes import Shape, shape_of
from dray.apiserver.patching.strategic import Document, strategic_patched
from tests.apiserver.patching.strategic_cases import APPLIED, REFUSED


def shape(kind: str = "v1/Pod") -> Shape:
    found = shape_of(kind)
    assert found is not None
    return found


@pytest.mark.parametrize("name", APPLIED)
def test_a_patch_that_applies(name: str) -> None:
    current, patch, expected = APPLIED[name]
    before = deepcopy((current, patch))
    assert strategic_patched(current, patch, shape()) == expected
    assert (current, patch) == before


@pytest.mark.parametrize("name", REFUSED)
def test_a_patch_that_is_refused(name: str) -> None:
    current, patch, status = REFUSED[name]
    before = deepcopy((current, patch))
    with pytest.raises(PatchError) as caught:
        strategic_patched(current, patch, shape())
    assert caught.value.status == status
    assert (current, patch) == before


def test_numbers_and_booleans_are_not_taken_for_each_other() -> None:
    current = {"metadata": {"finalizers": [1]}}
    patch: Document = {"metadata": {"$deleteFromPrimitiveList/finalizers": [2]}}
    assert strategic_patched(current, patch, shape()) == current
    for other in ([True], [1.0]):
        patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": other}}
        with pytest.raises(PatchError, match="types are not identical"):
            strategic_patched(current, patch, shape())


def test_the_conditions_of_a_node_are_merged_by_type() -> None:
    ready = {"type": "Ready", "status": "False", "reason": "x"}
    current = {"status": {"conditions": [ready, {"type": "DiskPressure", "status": "False"}]}}
    patch = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    merged = strategic_patched(current, patch, shape("v1/Node"))["status"]["conditions"]
    assert merged == [{**ready, "status": "True"}, {"type": "DiskPressure", "status": "False"}]


def test_the_consumers_of_a_claim_are_merged_by_uid() -> None:
    kind = shape("resource.k8s.io/v1/ResourceClaim")
    current = {"status": {"reservedFor": [{"uid": "1", "name": "a"}, {"uid": "2", "name": "b"}]}}
    patch = {"status": {"reservedFor": [{"uid": "1", "$patch": "delete"}]}}
    assert strategic_patched(current, patch, kind) == {"status": {"reservedFor": [{"uid": "2", "name": "b"}]}}


def test_the_devices_of_a_slice_are_replaced() -> None:
    kind = shape("resource.k8s.io/v1/ResourceSlice")
    current = {"spec": {"devices": [{"name": "a"}, {"name": "b"}]}}
    patch = {"spec": {"devices": [{"name": "c"}]}}
    assert strategic_patched(current, patch, kind) == patch


def test_the_selector_of_a_disruption_budget_is_replaced() -> None:
    kind = shape("policy/v1/PodDisruptionBudget")
    current = {"spec": {"selector": {"matchLabels": {"a": "1"}}, "minAvailable": 1}}
    patch = {"spec": {"selector": {"matchLabels": {"b": "2"}}}}
    merged = {"spec": {"selector": {"matchLabels": {"b": "2"}}, "minAvailable": 1}}
    assert strategic_patched(current, patch, kind) == merged
