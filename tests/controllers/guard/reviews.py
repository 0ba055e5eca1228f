"""Reviews as an API server sends them, and a claim's life around them."""

from __future__ import annotations

import copy
import json
import uuid
from typing import Any

from dray.api.kinds import RESOURCE_CLAIMS
from dray.controllers.guard.review import Review, read_review
from dray.errors import ConflictError
from dray.testing.check.api_server import Place
from tests.controllers.objects import NS, Json
from tests.controllers.server import Cluster

SPEC: Json = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}


def result(device: str = "g0", **more: Any) -> Json:
    return {"request": "r", "driver": "d.example", "pool": "n", "device": device, **more}


def allocated(claim: Json, *results: Json) -> Json:
    """The claim with these devices instead of any it has; none: deallocated."""
    new = copy.deepcopy(claim)
    new["status"] = {"allocation": {"devices": {"results": list(results)}}} if results else {}
    return new


def review_body(old: Json, new: Json, *, version: str = "v1", dry_run: bool = False) -> bytes:
    group = {"group": "resource.k8s.io", "version": version}
    request = {
        "uid": str(uuid.uuid4()),
        "kind": {**group, "kind": "ResourceClaim"},
        "resource": {**group, "resource": "resourceclaims"},
        "subResource": "status",
        "operation": "UPDATE",
        "name": old["metadata"]["name"],
        "namespace": NS,
        "userInfo": {"username": "somebody"},
        "object": new,
        "oldObject": old,
        "dryRun": dry_run,
        "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    document = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(document).encode()


def review(old: Json, *results: Json, **options: Any) -> Review:
    """Of a write that gives the claim these devices."""
    return read_review(review_body(old, allocated(old, *results), **options))


async def add_claims(api: Cluster, *names: str) -> list[Json]:
    documents = ({"metadata": {"name": name, "namespace": NS}, "spec": SPEC} for name in names)
    return [copy.deepcopy(await api.add(RESOURCE_CLAIMS, one)) for one in documents]


async def store(api: Cluster, old: Json, *results: Json) -> bool:
    """What the API server does after the guard has let a write through; False where the claim changed meanwhile."""
    place = Place(RESOURCE_CLAIMS, NS, old["metadata"]["name"], "status")
    try:
        await api.update(place, allocated(old, *results))
    except ConflictError:
        return False
    return True


def found(api: Cluster, name: str) -> Json:
    """The claim as it is now, as a copy."""
    return copy.deepcopy(api.find(RESOURCE_CLAIMS, name))
