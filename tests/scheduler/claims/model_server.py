"""A model of the API server for claims and pods: versions, preconditions, patches, finalizers, and what it refuses."""

from __future__ import annotations

import copy
from typing import Any

from dray.api.codec import to_raw, view
from dray.api.core import Pod
from dray.api.resource import ResourceClaim
from dray.client.requests import PatchType
from dray.errors import ConflictError, InvalidError, NotFoundError
from dray.scheduler.claims.writes import Verb, Write

Json = dict[str, Any]
Device = tuple[str, str, str]


class ModelServer:
    """`guards`: whether a device that another claim holds is refused, as our own server does and others do not."""

    def __init__(self, *, guards: bool = False) -> None:
        self.version = 100
        self.claims: dict[str, Json] = {}
        self.pods: dict[str, Json] = {}
        self.history: list[tuple[str, ResourceClaim]] = []
        self._guards = guards
        self._made = 0

    def add(self, claim: ResourceClaim) -> ResourceClaim:
        raw = to_raw(claim)
        if not raw["metadata"].get("name"):
            self._made += 1
            raw["metadata"]["name"] = f"{raw['metadata']['generateName']}{self._made}"
        name = raw["metadata"]["name"]
        if name in self.claims:
            raise ConflictError(f"claim {name} already exists")
        raw["metadata"].setdefault("uid", f"stored-uid-{self.version}")
        return self._store(raw)

    def get(self, name: str) -> ResourceClaim:
        if name not in self.claims:
            raise NotFoundError(f"claim {name} not found", kind="ResourceClaim", name=name)
        return view(self.claims[name], ResourceClaim)

    def send(self, write: Write) -> ResourceClaim | Pod | None:
        if write.verb is Verb.CREATE:
            return self.add(view(write.body, ResourceClaim))
        if write.resource.kind == "Pod":
            return self._patch_pod(write)
        old = self.claims.get(write.name)
        if old is None:
            raise NotFoundError(f"claim {write.name} not found", kind="ResourceClaim", name=write.name)
        if write.verb is Verb.DELETE:
            self._check_seen(
                old, {"metadata": {"uid": write.uid or None, "resourceVersion": write.version or None}}
            )
            self.delete(write.name)
            return None
        self._check_seen(old, write.body)
        new, part = copy.deepcopy(old), "status" if write.subresource else "metadata"
        new[part] = _patched(old, write)[part]
        return self.put(new, old)

    def put(self, new: Json, old: Json) -> ResourceClaim | None:
        """Store after the checks of a status update."""
        status, before = new.get("status", {}), old.get("status", {})
        allocation = status.get("allocation")
        if allocation and before.get("allocation") and allocation != before["allocation"]:
            raise InvalidError("status.allocation: field is immutable")
        if status.get("reservedFor") and not allocation:
            raise InvalidError("status.reservedFor: may not be specified when `allocated` is not set")
        known = {one["uid"] for one in before.get("reservedFor", [])}
        added = any(one["uid"] not in known for one in status.get("reservedFor", []))
        if added and new["metadata"].get("deletionTimestamp"):
            raise InvalidError("status.reservedFor: new entries may not be added while deleting")
        if allocation and not before.get("allocation") and self._guards:
            name = new["metadata"]["name"]
            taken = {one for other, held in self.held().items() if other != name for one in held}
            if taken & set(_devices(new)):
                raise InvalidError("status.allocation: a device is held by another claim")
        if new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers"):
            self._remove(new)
            return None
        return self._store(new)

    def change(self, name: str, *, status: Json | None = None, **meta: Any) -> None:
        """Somebody else writes: replaces the status, or sets metadata."""
        old = self.claims[name]
        new = copy.deepcopy(old)
        if status is not None:
            new["status"] = status
        new["metadata"] |= meta
        self.put(new, old)

    def delete(self, name: str) -> None:
        raw = copy.deepcopy(self.claims[name])
        if raw["metadata"].get("finalizers"):
            raw["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
            self._store(raw)
        else:
            self._remove(raw)

    def held(self) -> dict[str, list[Device]]:
        """The devices that each claim has whole."""
        return {name: _devices(raw) for name, raw in self.claims.items()}

    def _check_seen(self, old: Json, body: Any) -> None:
        seen = body.get("metadata", {})
        for key in ("uid", "resourceVersion"):
            if seen.get(key) not in (None, old["metadata"][key]):
                raise ConflictError(f"the {key} is another one now")

    def _patch_pod(self, write: Write) -> Pod:
        raw = self.pods[write.name]
        raw["status"] = {**raw.get("status", {}), **write.body["status"]}
        return view(raw, Pod)

    def _store(self, raw: Json) -> ResourceClaim:
        self.version += 1
        raw = copy.deepcopy(raw)
        raw["metadata"]["resourceVersion"] = str(self.version)
        self.claims[raw["metadata"]["name"]] = raw
        claim = view(raw, ResourceClaim)
        self.history.append(("set", claim))
        return claim

    def _remove(self, raw: Json) -> None:
        self.version += 1
        del self.claims[raw["metadata"]["name"]]
        self.history.append(("remove", view(raw, ResourceClaim)))


def _patched(old: Json, write: Write) -> Json:
    new = copy.deepcopy(old)
    body = copy.deepcopy(dict(write.body))
    if write.patch_type is PatchType.STRATEGIC:
        gone = {one["uid"] for one in body.get("status", {}).pop("reservedFor", [])}
        users = [one for one in new["status"].get("reservedFor", []) if one["uid"] not in gone]
        new["status"]["reservedFor"] = users
    return _merged(new, body)


def _merged(old: Json, patch: Json) -> Json:
    for key, value in patch.items():
        if value is None:
            old.pop(key, None)
        elif isinstance(value, dict):
            held = old.get(key)
            old[key] = _merged(held if isinstance(held, dict) else {}, value)
        else:
            old[key] = value
    return old


def _devices(raw: Json) -> list[Device]:
    results = raw.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    return [
        (one["driver"], one["pool"], one["device"])
        for one in results
        if not one.get("adminAccess") and not one.get("shareID")
    ]
