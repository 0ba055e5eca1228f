"""What an API server does to a document between defaulting and validation: the parts a client has no say in.

All functions work in place on plain documents. They are what `validation` expects to have happened.
"""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Any, Final

import msgspec

from dray.api.defaults import Document
from dray.api.kinds import Resource
from dray.api.meta import format_time

_COUNTS_GENERATIONS: Final = ("ResourceSlice", "DeviceClass", "DeviceTaintRule", "Pod")
_CONDITIONAL: Final = ("Lease",)
"""An update must name the version it was made from; for other kinds that is the client's choice."""
_SERVER_METADATA: Final = ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion")


def _object(parent: Document, key: str) -> Document:
    value = parent.get(key)
    if not isinstance(value, dict):
        value = parent[key] = {}
    return value


def prepare_create(resource: Resource[Any], document: Document, *, uid: str, now: datetime) -> None:
    """A document about to be created. Its name has been generated already, where it had a `generateName`."""
    metadata = _object(document, "metadata")
    for key in _SERVER_METADATA:
        metadata.pop(key, None)
    metadata |= {"uid": uid, "creationTimestamp": format_time(now)}
    _merge_owners(metadata)
    if resource.kind in _COUNTS_GENERATIONS:
        metadata["generation"] = 1
    if resource.has_status and resource.kind != "Node":
        document.pop("status", None)
    if resource.kind == "Pod":
        document["status"] = {"phase": "Pending"}
    if resource.kind == "Namespace":
        document["status"] = {"phase": "Active"}
        finalizers = _object(document, "spec").setdefault("finalizers", [])
        if "kubernetes" not in finalizers:
            finalizers.append("kubernetes")


def prepare_update(resource: Resource[Any], new: Document, old: Document, *, now: datetime) -> None:
    """A document about to replace `old` through the main door: the status stays, changes of the spec are counted."""
    _keep_metadata(new, old)
    _merge_owners(new["metadata"])
    if not new["metadata"].get("resourceVersion") and resource.kind not in _CONDITIONAL:
        _keep(new["metadata"], old["metadata"], "resourceVersion")
    if resource.has_status:
        _keep(new, old, "status")
    if resource.kind == "Namespace":
        _keep(new, old, "spec")
    if resource.kind == "DeviceTaintRule":
        _date_effect(new, old, now)
    if resource.kind in _COUNTS_GENERATIONS and new.get("spec") != old.get("spec"):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def prepare_status(resource: Resource[Any], new: Document, old: Document) -> None:
    """A document whose status is about to replace that of `old`: everything else stays as it is stored."""
    version = _object(new, "metadata").get("resourceVersion")
    fields = new["metadata"].get("managedFields")
    new["metadata"] = copy.deepcopy(old.get("metadata", {}))
    new["metadata"] |= {"resourceVersion": version} if version else {}
    new["metadata"] |= {"managedFields": fields} if fields else {}
    for key in [key for key in (*new, *old) if key not in ("status", "metadata", "apiVersion", "kind")]:
        _keep(new, old, key)
    if resource.kind == "ResourceClaim":
        _drop_deallocated(new, old)


def _keep(new: Document, old: Document, key: str) -> None:
    new.pop(key, None)
    if key in old:
        new[key] = copy.deepcopy(old[key])


def _keep_metadata(new: Document, old: Document) -> None:
    """What a client may leave out of an update, and what it cannot change."""
    metadata, before = _object(new, "metadata"), old.get("metadata", {})
    for key in ("uid", "deletionGracePeriodSeconds"):
        if not metadata.get(key) and key in before:
            metadata[key] = before[key]
    for key in ("creationTimestamp", "generation"):
        _keep(metadata, before, key)
    if before.get("deletionTimestamp"):
        metadata["deletionTimestamp"] = before["deletionTimestamp"]


def _merge_owners(metadata: Document) -> None:
    """An owner that is named twice in the same words is named once."""
    if isinstance(owners := metadata.get("ownerReferences"), list):
        # By their words: to compare each with all others would take minutes for the largest request.
        by_words = {msgspec.json.encode(owner, order="deterministic"): owner for owner in owners}
        metadata["ownerReferences"] = list(by_words.values())


def _date_effect(new: Document, old: Document, now: datetime) -> None:
    """A taint rule whose effect changes is dated anew, so that tolerated times start again."""
    taint, before = _object(_object(new, "spec"), "taint"), old.get("spec", {}).get("taint", {})
    if taint.get("effect") != before.get("effect") and taint.get("timeAdded") == before.get("timeAdded"):
        taint["timeAdded"] = format_time(now)


def _drop_deallocated(new: Document, old: Document) -> None:
    """Reports about devices that this write takes away from the claim go with them."""
    status = _object(new, "status")
    gone = _allocated(old.get("status")) - _allocated(status)
    devices = status.get("devices")
    if gone and isinstance(devices, list):
        status["devices"] = [device for device in devices if _device_id(device) not in gone]
        if not status["devices"]:
            del status["devices"]


def _allocated(status: Any) -> set[tuple[Any, ...]]:
    allocation = status.get("allocation") if isinstance(status, dict) else None
    results = allocation.get("devices", {}).get("results") if isinstance(allocation, dict) else None
    return {_device_id(result) for result in results or ()}


def _device_id(device: Document) -> tuple[Any, ...]:
    return tuple(device.get(key) or "" for key in ("driver", "pool", "device", "shareID"))
