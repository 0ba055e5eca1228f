from __future__ import annotations

from typing import Any

import pytest

from dray.api.codec import to_raw, view
from dray.api.core import Pod
from dray.api.core.pod import PodResourceClaim
from dray.api.resource import ResourceClaim
from dray.api.scheduling import (
    POD_GROUPS,
    PodGroup,
    consumer_of_group,
    group_name,
    is_group_claim,
    is_reserved_for_group,
    owning_group,
)

RAW = {
    "apiVersion": "scheduling.k8s.io/v1alpha2",
    "kind": "PodGroup",
    "metadata": {"name": "g", "namespace": "default", "uid": "uid-g"},
    "spec": {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "resourceClaims": [
            {"name": "a", "resourceClaimName": "shared"},
            {"name": "b", "resourceClaimTemplateName": "t"},
        ],
    },
    "status": {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "g-b-xxxxx"}]},
}
GROUP = view(RAW, PodGroup)


def claim(**fields: Any) -> ResourceClaim:
    return view({"metadata": {"name": "c", "namespace": "default"}} | fields, ResourceClaim)


def member(group: Any = "g") -> Pod:
    return view({"spec": {"schedulingGroup": {"podGroupName": group}}}, Pod)


def test_a_group_goes_through_its_view_unchanged() -> None:
    assert to_raw(GROUP) == RAW
    empty = PodGroup()
    assert (empty.api_version, empty.kind) == (POD_GROUPS.api_version, POD_GROUPS.kind)
    assert POD_GROUPS.path("default", "g", "status") == (
        "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups/g/status"
    )


def test_the_group_of_a_pod() -> None:
    assert group_name(member()) == "g"
    assert group_name(Pod()) is None
    assert group_name(member(None)) is None
    assert group_name(view({"spec": {"schedulingGroup": {}}}, Pod)) is None


@pytest.mark.parametrize(
    ("entry", "answer"),
    [
        (PodResourceClaim(name="a", resource_claim_name="shared"), True),
        (PodResourceClaim(name="b", resource_claim_template_name="t"), True),
        (PodResourceClaim(name="a", resource_claim_name="other"), False),
        (PodResourceClaim(name="a", resource_claim_template_name="shared"), False),
        (PodResourceClaim(name="c", resource_claim_name="shared"), False),
    ],
)
def test_an_entry_means_the_groups_claim_where_all_of_it_is_the_same(
    entry: PodResourceClaim, answer: bool
) -> None:
    assert is_group_claim(GROUP, entry) is answer


@pytest.mark.parametrize(
    ("owner", "answer"),
    [
        ({}, True),
        ({"apiVersion": "scheduling.k8s.io/v1"}, True),
        ({"apiVersion": "scheduling.k8s.iox/v1"}, False),
        ({"apiVersion": "other.k8s.io/v1"}, False),
        ({"kind": "Workload"}, False),
        ({"controller": False}, False),
    ],
)
def test_the_group_that_controls_a_claim(owner: dict[str, Any], answer: bool) -> None:
    reference = {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", "name": "g", "uid": "uid-g"}
    found = owning_group(
        claim(metadata={"name": "c", "ownerReferences": [reference | {"controller": True} | owner]})
    )
    assert (found is not None) is answer


def test_a_claim_that_is_reserved_for_the_group_is_so_for_each_of_its_pods() -> None:
    mine = to_raw(consumer_of_group(GROUP))
    assert mine == {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g"}
    held = claim(status={"reservedFor": [mine]})
    assert is_reserved_for_group(held, member())
    assert not is_reserved_for_group(held, member("other"))
    assert not is_reserved_for_group(held, Pod())
    for other in ({"apiGroup": "x"}, {"resource": "pods"}):
        assert not is_reserved_for_group(claim(status={"reservedFor": [mine | other]}), member())
