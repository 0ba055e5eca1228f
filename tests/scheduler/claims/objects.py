"""Short words for the objects of scheduling with devices: pods, claims, classes, slices and nodes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dray.api.codec import view
from dray.api.core import Node, Pod
from dray.api.limits import CLAIM_FINALIZER
from dray.api.resource import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from dray.api.scheduling import PodGroup

Json = dict[str, Any]

NOW = datetime(2030, 1, 1, tzinfo=UTC)
DRIVER, CLASS, GPU = "some-driver", "my-class", "example.com/gpu"


def node(name: str = "worker", **allocatable: str) -> Node:
    resources = {f"example.com/{key}": amount for key, amount in allocatable.items()}
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return view({"metadata": meta, "status": {"allocatable": resources}}, Node)


def pod(
    *claims: str | Json, name: str = "my-pod", made: dict[str, str | None] | None = None, **spec: Any
) -> Pod:
    """`claims`: names of claims, or entries as they are. `made`: the claims from templates, by entry."""
    entries = [
        one if isinstance(one, dict) else {"name": f"entry-{number}", "resourceClaimName": one}
        for number, one in enumerate(claims)
    ]
    statuses = [
        {"name": key, "resourceClaimName": value} if value else {"name": key}
        for key, value in (made or {}).items()
    ]
    return view(
        {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": {"resourceClaims": entries, **spec},
            "status": {"resourceClaimStatuses": statuses},
        },
        Pod,
    )


def template_entry(name: str = "entry-0") -> Json:
    return {"name": name, "resourceClaimTemplateName": "template"}


def container(name: str, always: bool = False, **requests: int) -> Json:
    """Requests as `gpu=1`, meaning example.com/gpu."""
    held = {f"example.com/{key}": str(amount) for key, amount in requests.items()}
    restart = {"restartPolicy": "Always"} if always else {}
    return {"name": name, "resources": {"requests": held}, **restart}


def exactly(count: int = 1, device_class: str = CLASS, **fields: Any) -> Json:
    return {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count, **fields}


def request(name: str = "req-1", count: int = 1, **fields: Any) -> Json:
    return {"name": name, "exactly": exactly(count, **fields)}


def first(*wishes: Json, name: str = "req-1") -> Json:
    subs = [{"name": f"subreq-{number}", **one} for number, one in enumerate(wishes, 1)]
    return {"name": name, "firstAvailable": subs}


def claim(*requests: Json, name: str = "my-claim", status: Json | None = None, **meta: Any) -> ResourceClaim:
    return view(
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{name}",
                "resourceVersion": "1",
                **meta,
            },
            "spec": {"devices": {"requests": list(requests or (request(),))}},
            "status": status or {},
        },
        ResourceClaim,
    )


def owned_by(owner: Pod, **fields: Any) -> Json:
    reference = {"apiVersion": "v1", "kind": "Pod", "name": owner.metadata.name, "uid": owner.metadata.uid}
    return {"ownerReferences": [{**reference, "controller": True, **fields}]}


def group(*entries: Json, name: str = "my-group", made: dict[str, str] | None = None) -> PodGroup:
    """`entries` of its claims; `made`: the claims from templates, by entry."""
    statuses = [{"name": key, "resourceClaimName": value} for key, value in (made or {}).items()]
    return view(
        {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": {"resourceClaims": list(entries)},
            "status": {"resourceClaimStatuses": statuses},
        },
        PodGroup,
    )


def owned_by_group(owner: PodGroup, **fields: Any) -> Json:
    meta = owner.metadata
    reference = {"apiVersion": owner.api_version, "kind": "PodGroup", "name": meta.name, "uid": meta.uid}
    return {"ownerReferences": [{**reference, "controller": True, **fields}]}


def user_of_group(owner: PodGroup) -> Json:
    meta = owner.metadata
    return {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": meta.name, "uid": meta.uid}


def result(device: str = "instance-1", name: str = "req-1", pool: str = "worker", **fields: Any) -> Json:
    return {"request": name, "driver": DRIVER, "pool": pool, "device": device, **fields}


def on_node(name: str) -> Json:
    wanted = {"key": "metadata.name", "operator": "In", "values": [name]}
    return {"nodeSelectorTerms": [{"matchFields": [wanted]}]}


def allocation(*results: Json, where: str | None = "worker", since: datetime | None = None) -> Json:
    found: Json = {"devices": {"results": list(results or (result(),))}}
    if where is not None:
        found["nodeSelector"] = on_node(where)
    if since is not None:
        found["allocationTimestamp"] = since.strftime("%Y-%m-%dT%H:%M:%SZ")
    return found


def as_allocation(raw: Json) -> AllocationResult:
    return view(raw, AllocationResult)


def allocated(
    *results: Json,
    name: str = "my-claim",
    users: tuple[Pod, ...] = (),
    where: str | None = "worker",
    **fields: Any,
) -> ResourceClaim:
    """A claim that holds devices, with its finalizer. `fields` go to the status."""
    since = fields.pop("since", None)
    meta = fields.pop("meta", {})
    reserved = [{"resource": "pods", "name": one.metadata.name, "uid": one.metadata.uid} for one in users]
    status = {"allocation": allocation(*results, where=where, since=since), "reservedFor": reserved, **fields}
    return claim(name=name, status=status, finalizers=[CLAIM_FINALIZER], **meta)


def device_class(name: str = CLASS, *selectors: str, resource: str | None = None) -> DeviceClass:
    spec: Json = {"selectors": [{"cel": {"expression": one}} for one in selectors]}
    if resource is not None:
        spec["extendedResourceName"] = resource
    return view({"metadata": {"name": name}, "spec": spec}, DeviceClass)


def device(name: str, **fields: Any) -> Json:
    return {"name": name, **fields}


def slice_of(owner: str = "worker", *devices: str | Json, **fields: Any) -> ResourceSlice:
    held = [one if isinstance(one, dict) else device(one) for one in devices or ("instance-1",)]
    spec = {
        "driver": DRIVER,
        "pool": {"name": owner, "generation": 1, "resourceSliceCount": 1},
        "nodeName": owner,
        "devices": held,
        **fields,
    }
    return view({"metadata": {"name": f"slice-{owner}"}, "spec": spec}, ResourceSlice)
