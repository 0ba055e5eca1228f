"""Cases for `metadata`: a cluster-wide kind, a namespaced one, and those with rules of their own."""

from __future__ import annotations

from typing import Final

from dray.api.kinds import DEVICE_CLASSES, LEASES, NAMESPACES, RESOURCE_CLAIMS, RESOURCE_SLICES
from tests.api.cases.case import CURRENT, DROP, NAMESPACE, Document, Table
from tests.api.cases.claims import claim_document, class_document
from tests.api.cases.slices import slice_document


def lease_document() -> Document:
    """A held lease."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "lease-a", "namespace": NAMESPACE},
        "spec": {
            "holderIdentity": "me",
            "leaseDurationSeconds": 15,
            "renewTime": "2026-01-01T00:00:00.000000Z",
        },
    }


def namespace_document() -> Document:
    """A plain namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}


# fmt: off
SLICES: Final = Table(RESOURCE_SLICES, slice_document)
CLAIMS: Final = Table(RESOURCE_CLAIMS, claim_document)
CLASSES: Final = Table(DEVICE_CLASSES, class_document)
LEASES_TABLE: Final = Table(LEASES, lease_document)
NAMESPACES_TABLE: Final = Table(NAMESPACES, namespace_document)
_M: Final = "metadata"

for _table in (SLICES, CLAIMS):
    _create, _update = _table.create, _table.update
    _create("name missing", {"metadata.name": DROP}, "Required metadata.name")
    _create("name of 253", {"metadata.name": ".".join(["a" * 63] * 3 + ["a" * 61])})
    _create("name of 254", {"metadata.name": "a" * 254}, "Invalid metadata.name")
    _create("name wrong", {"metadata.name": "A_b"}, "Invalid metadata.name")
    _create("name with a slash", {"metadata.name": "a/b"}, "Invalid metadata.name")
    _create("generated name's prefix wrong", {"metadata.generateName": "A_b-"}, "Invalid metadata.generateName")
    _create("generated name's prefix ends in a dash", {"metadata.generateName": "a-"})
    _create("generated name's prefix is a dash", {"metadata.generateName": "-"}, "Invalid metadata.generateName")
    _create("labels", {"metadata.labels": {"a": "", "x.io/B_c": "v.1"}, "metadata.annotations": {"X.io/A": "any thing\n"}})
    _create("label key wrong", {"metadata.labels": {"-a": "b"}}, "Invalid metadata.labels")
    _create("label key with two slashes", {"metadata.labels": {"a/b/c": "b"}}, "Invalid metadata.labels")
    _create("label key too long", {"metadata.labels": {"a" * 64: "b"}}, "Invalid metadata.labels")
    _create("label value wrong", {"metadata.labels": {"a": "b c"}}, "Invalid metadata.labels")
    _create("label value too long", {"metadata.labels": {"a": "b" * 64}}, "Invalid metadata.labels")
    _create("annotation key wrong", {"metadata.annotations": {"a b": ""}}, "Invalid metadata.annotations")
    _create("annotations of 256 KiB", {"metadata.annotations": {"a": "x" * (256 * 1024 - 1)}})
    _create("annotations over 256 KiB", {"metadata.annotations": {"a": "x" * 256 * 1024}}, "TooLong metadata.annotations")
    _create("finalizers", {"metadata.finalizers": ["example.com/a", "orphan"]})
    _create("finalizer without a domain", {"metadata.finalizers": ["example.com/a", "mine"]}, "Invalid metadata.finalizers[1]")
    _create("finalizer wrong", {"metadata.finalizers": ["a b/c"]}, "Invalid metadata.finalizers")
    _create("finalizers that exclude each other", {"metadata.finalizers": ["orphan", "foregroundDeletion"]}, "Invalid metadata.finalizers")
    _owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
    _create("owners", {"metadata.ownerReferences": [{**_owner, "controller": True}, {**_owner, "name": "q", "uid": "w"}]})
    _create(
        "owner empty",
        {"metadata.ownerReferences": [{}]},
        *(f"Invalid metadata.ownerReferences.{field}" for field in ("apiVersion", "kind", "name", "uid")),
    )
    _create("owner version wrong", {"metadata.ownerReferences": [{**_owner, "apiVersion": "a/b/c"}]}, "Invalid metadata.ownerReferences.apiVersion")
    _create("an event owns nothing", {"metadata.ownerReferences": [{**_owner, "kind": "Event"}]}, "Invalid metadata.ownerReferences")
    _create("one owner twice", {"metadata.ownerReferences": [{**_owner, "controller": True}] * 2})
    _create(
        "two controllers",
        {"metadata.ownerReferences": [{**_owner, "controller": True}, {**_owner, "uid": "w", "controller": True}]},
        "Invalid metadata.ownerReferences",
    )
    _create(
        "what a client cannot set is ignored",
        {
            "metadata.uid": "x",
            "metadata.generation": -5,
            "metadata.deletionTimestamp": "2026-01-01T00:00:00Z",
            "metadata.creationTimestamp": "2026-01-01T00:00:00Z",
            "metadata.selfLink": "x",
        },
    ) if _table is SLICES else None
    _update("labels and finalizers change", {"metadata.labels": {"a": "b"}, "metadata.finalizers": ["example.com/x"]})
    _update("label becomes wrong", {"metadata.labels": {"a": "-"}}, "Invalid metadata.labels")
    _update("generation is ours to count", {"metadata.generation": 77})
    _update("deletion cannot be asked for so", {"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"}, "Invalid metadata.deletionTimestamp")
    _update("grace period cannot be asked for so", {"metadata.deletionGracePeriodSeconds": 5}, "Invalid metadata.deletionGracePeriodSeconds")
    _update("finalizer without a domain comes", {"metadata.finalizers": ["mine"]}, "Invalid metadata.finalizers[0]")
    _update(
        "finalizer comes while deleting",
        {"metadata.finalizers": ["example.com/a", "example.com/b"]},
        "Forbidden metadata.finalizers",
        old={"metadata.finalizers": ["example.com/a"]},
        deleting=True,
    )
    _update("label comes while deleting", {"metadata.labels": {"a": "b"}}, old={"metadata.finalizers": ["example.com/a"]}, deleting=True)

CLASSES.create("prefix is only a part of a path", {"metadata.generateName": "A_"})
CLASSES.create("prefix with a slash", {"metadata.generateName": "a/b"}, "Invalid metadata.generateName")
_GATE: Final = "the field is dropped while the gate CoordinatedLeaderElection is off"
_CURRENT: Final = {"metadata.resourceVersion": CURRENT}
LEASES_TABLE.create("valid", {})
LEASES_TABLE.create("day that does not exist", {"spec.renewTime": "2026-02-31T00:00:00.000000Z"}, "Invalid spec.renewTime", ours_only="it is not even decoded there")
LEASES_TABLE.create("finalizer of any name", {"metadata.finalizers": ["mine"]})
LEASES_TABLE.create("duration zero", {"spec.leaseDurationSeconds": 0}, "Invalid spec.leaseDurationSeconds")
LEASES_TABLE.create("transitions negative", {"spec.leaseTransitions": -1}, "Invalid spec.leaseTransitions")
LEASES_TABLE.create("preferred holder without strategy", {"spec.preferredHolder": "a"}, "Forbidden spec.preferredHolder", ours_only=_GATE)
LEASES_TABLE.create("preferred holder with strategy", {"spec.preferredHolder": "a", "spec.strategy": "OldestEmulationVersion"}, ours_only=_GATE)
LEASES_TABLE.create("strategy of one's own", {"spec.strategy": "example.com/mine"}, ours_only=_GATE)
LEASES_TABLE.create("strategy unknown", {"spec.strategy": "Mine"}, "NotSupported spec.strategy.strategy", ours_only=_GATE)
LEASES_TABLE.update("renewed", {**_CURRENT, "spec.renewTime": "2026-01-01T00:00:15.000000Z"})
LEASES_TABLE.update("duration becomes negative", {**_CURRENT, "spec.leaseDurationSeconds": -1}, "Invalid spec.leaseDurationSeconds")
LEASES_TABLE.update("made from no version", {}, "Invalid metadata.resourceVersion")
NAMESPACES_TABLE.create("valid", {})
NAMESPACES_TABLE.create("name with a dot", {"metadata.name": "a.b"}, "Invalid metadata.name")
NAMESPACES_TABLE.create("name of 64", {"metadata.name": "a" * 64}, "Invalid metadata.name", "Invalid metadata.labels")
NAMESPACES_TABLE.create("finalizer wrong", {"spec.finalizers": ["mine", "a b/c"]}, "Invalid spec.finalizers")
TABLES: Final = (SLICES, CLAIMS, CLASSES, LEASES_TABLE, NAMESPACES_TABLE)
