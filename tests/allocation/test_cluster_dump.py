from __future__ import annotations

import pytest

from dray.allocation.cluster_dump import read_cluster
from dray.allocation.selector import check_selector
from dray.errors import InvalidError, NotFoundError
from tests.allocation.dumps import as_object, claims, cluster, holding, node, slices
from tests.allocation.world import claim, devices, piece, request


def faults(*manifests: object) -> tuple[str, ...]:
    with pytest.raises(InvalidError) as caught:
        read_cluster(manifests, check_selector)  # type: ignore[arg-type]
    return tuple(map(str, caught.value.causes))


def test_objects_are_defaulted_and_found_by_kind() -> None:
    wish = {
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "class-a"}}]}},
    }
    got = cluster(node("b"), node("a"), slices(piece(*devices("d"))), claims(wish, holding("h", "d")))
    assert [one.metadata.name for one in got.nodes] == ["a", "b"]
    assert [one.metadata.namespace for one in got.claims] == ["default", "default"]
    exactly = got.claims[0].spec.devices.requests[0].exactly
    assert exactly is not None and (exactly.allocation_mode, exactly.count) == ("ExactCount", 1)
    assert got.claims[1].status.allocation is not None
    assert len(got.classes) == 2 and len(got.slices) == 1


def test_other_kinds_and_pods_without_claims_are_passed_over() -> None:
    got = cluster(
        as_object("ConfigMap", {}, "v1"),
        as_object("Pod", {}, "example.com/v1"),
        as_object("Pod", {"spec": {"containers": "what"}}, "v1"),
    )
    assert got.pods == ()


def test_nodes_that_only_slices_name() -> None:
    got = cluster(slices(piece(*devices("d"), nodeName="n-2"), piece(name="s2", pool="p2", nodeName="n-1")))
    assert [one.metadata.name for one in got.nodes] == ["n-1", "n-2"] and not got.has_nodes
    assert got.node("n-9").metadata.name == "n-9"
    with pytest.raises(NotFoundError, match="no Node n-9"):
        cluster(node("n-1")).node("n-9")


def test_every_fault_has_its_file_line_and_field() -> None:
    bad = claim(request(-1, "device.nothing"))
    got = faults(*claims(bad), *slices(piece(*devices("Upper"))))
    assert [one.split(": ")[:2] for one in got] == [
        ["ResourceClaim.yaml:1", "ResourceClaim claim-0"],
        ["ResourceClaim.yaml:1", "ResourceClaim claim-0"],
        ["ResourceSlice.yaml:1", "ResourceSlice slice-1"],
    ]
    assert "spec.devices.requests[0].exactly.selectors[0].cel.expression" in got[0] and "nothing" in got[0]
    assert "count" in got[1] and "spec.devices[0].name" in got[2]


def test_a_value_of_the_wrong_type() -> None:
    (one,) = faults(as_object("ResourceSlice", {"spec": {"driver": 7}}))
    assert one.startswith("ResourceSlice.yaml:1: ") and "driver" in one


def test_a_status_is_checked_too() -> None:
    (one,) = faults(*claims(holding("h", "Upper")))
    assert "status.allocation.devices.results[0].device" in one


def test_other_versions_are_not_read_in_silence() -> None:
    (one,) = faults(as_object("ResourceClaim", claim(request()), "resource.k8s.io/v1beta1"))
    assert "resource.k8s.io/v1beta1 is not read" in one and "resourceclaims.v1.resource.k8s.io" in one


def test_an_object_that_is_there_twice() -> None:
    (one,) = faults(*claims(claim(request()), claim(request())))
    assert "it is there twice, first in ResourceClaim.yaml:1" in one
