from __future__ import annotations

import pytest

from dray.allocation.cluster.cluster_dump import read_cluster, read_slices
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


def test_other_kinds_and_pods_that_make_no_sense_are_passed_over() -> None:
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
    for kind, since in (("ResourceClaim", "1.34"), ("DeviceTaintRule", "1.36")):
        (one,) = faults(as_object(kind, claim(request()), "resource.k8s.io/v1alpha3"))
        assert "resource.k8s.io/v1alpha3 is not read" in one and "kubectl convert" in one
        assert f"`kubectl get {kind.lower()}s.v1" in one and f"{since} or newer" in one


def test_beta_versions_say_the_same_in_other_places() -> None:
    wish = {"deviceClassName": "class-a", "count": 2}
    either = {"name": "either", "firstAvailable": [{"name": "x", "deviceClassName": "class-a"}]}
    asked = {"devices": {"requests": [{"name": "r", **wish}, either]}}
    old = cluster(
        as_object("ResourceClaim", {"metadata": {"name": "c"}, "spec": asked}, "resource.k8s.io/v1beta1"),
        as_object(
            "ResourceClaimTemplate",
            {"metadata": {"name": "t"}, "spec": {"spec": asked}},
            "resource.k8s.io/v1beta1",
        ),
        as_object(
            "ResourceSlice",
            piece({"name": "d", "basic": {"attributes": {"a": {"int": 1}}}}),
            "resource.k8s.io/v1beta1",
        ),
    )
    new_asked = {"devices": {"requests": [{"name": "r", "exactly": wish}, either]}}
    for version in ("v1beta2", "v1"):
        new = cluster(
            *(
                as_object(kind, raw, f"resource.k8s.io/{version}")
                for kind, raw in (
                    ("ResourceClaim", {"metadata": {"name": "c"}, "spec": new_asked}),
                    ("ResourceClaimTemplate", {"metadata": {"name": "t"}, "spec": {"spec": new_asked}}),
                    ("ResourceSlice", piece({"name": "d", "attributes": {"a": {"int": 1}}})),
                )
            )
        )
        assert (new.claims, new.templates, new.slices) == (old.claims, old.templates, old.slices)


def test_an_object_that_is_there_twice() -> None:
    (one,) = faults(*claims(claim(request()), claim(request())))
    assert "it is there twice, first in ResourceClaim.yaml:1" in one


def test_fields_that_the_kind_does_not_have() -> None:
    mistyped = claim(request(1, cuont=3))
    mistyped["metadata"]["lables"] = {"a": "b"}
    wrong = piece({"name": "d", "atributes": {}, "capacity": {"mem": {"vlaue": "1"}}})
    rule = {"metadata": {"name": "r"}, "spec": {"taint": {"key": "k", "effect": "NoSchedule", "valeu": "v"}}}
    got = faults(
        *claims(mistyped), *slices(wrong), as_object("DeviceTaintRule", rule, "resource.k8s.io/v1beta2")
    )
    place = "ResourceClaim.yaml:1: ResourceClaim claim-0: spec.devices.requests[0].exactly"
    assert [one for one in got if "unknown field" in one] == [
        'ResourceClaim.yaml:1: ResourceClaim claim-0: metadata.lables: unknown field: did you mean "labels"?',
        f'{place}.cuont: unknown field: did you mean "count"?',
        'ResourceSlice.yaml:1: ResourceSlice slice-1: spec.devices[0].atributes: unknown field: did you mean "attributes"?',
        'ResourceSlice.yaml:1: ResourceSlice slice-1: spec.devices[0].capacity[mem].vlaue: unknown field: did you mean "value"?',
        'DeviceTaintRule.yaml:1: DeviceTaintRule r: spec.taint.valeu: unknown field: did you mean "value"?',
    ]


def test_what_a_server_stored_is_newer_and_not_mistyped() -> None:
    stored = claim(request(1, derivedAttributes=[]))
    stored["metadata"] |= {
        "uid": "1",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [
            {
                "manager": "kubectl",
                "operation": "Update",
                "apiVersion": "resource.k8s.io/v1",
                "time": "2026-01-01T00:00:00Z",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {"f:devices": {}}},
                "subresource": "status",
            }
        ],
    }
    second = claim(request(1, derivedAttributes=[]), name="claim-1")
    second["metadata"]["uid"] = "2"
    (note,) = cluster(claims(stored, second)).notes
    assert note == (
        "ResourceClaim.yaml:1: ResourceClaim claim-0: spec.devices.requests[0].exactly.derivedAttributes and 1 more: "
        "field derivedAttributes of ResourceClaim is not known here and does not count"
    )


def test_kinds_that_are_passed_over_are_named_where_they_look_like_ours() -> None:
    got = cluster(
        as_object("ResourceClaims", {"metadata": {"name": "a"}}),
        as_object("ResourceClaims", {"metadata": {"name": "b"}}),
        as_object("ResourceClaim", {"metadata": {"name": "c"}}, "resources.k8s.io/v1"),
        as_object("ConfigMap", {}, "v1"),
    )
    kinds = "ResourceClaims of resource.k8s.io/v1"
    assert got.notes == (
        "ResourceClaim.yaml:1: passed over, ResourceClaim of resources.k8s.io/v1 is not read",
        f"ResourceClaims.yaml:1 and 1 more: passed over, {kinds} is not read; did you mean ResourceClaim?",
    )


def test_the_slices_alone() -> None:
    """What is in them is not checked; other kinds may hold anything."""
    given = [
        node("n"),
        *claims(claim(request(-1))),
        *slices(piece(*devices("d")), piece(*devices("Upper"), name="slice-2", pool="p2")),
        as_object("ConfigMap", {}, "v1"),
    ]
    found, notes = read_slices(given)
    assert [one.metadata.name for one in found] == ["slice-1", "slice-2"] and notes == ()
    assert [one.name for each in found for one in each.spec.devices or ()] == ["d", "Upper"]
    with pytest.raises(InvalidError):
        read_slices(slices({"metadata": {"name": "s"}, "spec": {"devices": "what"}}))


def test_a_pod_that_may_want_devices_is_read_or_told() -> None:
    """Of one that makes no sense nobody knows; one that surely wants none is passed over."""
    wants = {"metadata": {"name": "p"}, "spec": {"containers": "what", "resourceClaims": [{"name": "a"}]}}
    assert faults(as_object("Pod", wants, "v1"))[0].startswith(
        "Pod.yaml:1: spec.containers: expected `array`"
    )
    assert faults(as_object("Pod", {"spec": 7}, "v1")) == ("Pod.yaml:1: spec: expected `object`, got `int`",)
    assert "spec.containers: Required value" in faults(as_object("Pod", {"metadata": {"name": "p"}}, "v1"))[0]
