"""Pods, claims, templates, slices and rules as the controllers' tests need them."""

from __future__ import annotations

from typing import Any, TypeVar

from dray.api.codec import view
from dray.api.core import Pod
from dray.api.kinds import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource
from dray.api.limits import CLAIM_FINALIZER, POD_CLAIM_NAME_ANNOTATION
from dray.api.meta import Model
from dray.api.resource import ResourceClaim, ResourceClaimTemplate

Json = dict[str, Any]
NS = "default"
POD_UID = "00000000-0000-4000-8000-000000000001"
OTHER_UID = "00000000-0000-4000-8000-000000000002"
CLAIM_UID = "00000000-0000-4000-8000-0000000000c1"
DELETED_AT = "2030-01-01T00:00:00Z"
T = TypeVar("T", bound=Model)


def typed(resource: Resource[T], document: Json) -> T:
    return view(document, resource.type)


def pod_document(
    name: str = "p",
    uid: str = POD_UID,
    *,
    claims: dict[str, str] | None = None,
    static: dict[str, str] | None = None,
    recorded: dict[str, str | None] | None = None,
    node: str = "",
    phase: str = "Pending",
    deleted: bool = False,
    extended: str = "",
    namespace: str = NS,
) -> Json:
    """`claims`: entry to template; `static`: entry to claim; `recorded`: entry to claim, or None for none needed."""
    entries = [{"name": key, "resourceClaimTemplateName": value} for key, value in (claims or {}).items()]
    entries += [{"name": key, "resourceClaimName": value} for key, value in (static or {}).items()]
    status: Json = {"phase": phase}
    if recorded:
        status["resourceClaimStatuses"] = [
            {"name": key} | ({} if value is None else {"resourceClaimName": value})
            for key, value in recorded.items()
        ]
    if extended:
        status["extendedResourceClaimStatus"] = {"resourceClaimName": extended, "requestMappings": []}
    metadata: Json = {"name": name, "namespace": namespace, "uid": uid}
    if deleted:
        metadata["deletionTimestamp"] = DELETED_AT
    spec: Json = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": entries}
    return {"metadata": metadata, "spec": spec | ({"nodeName": node} if node else {}), "status": status}


def pod(name: str = "p", uid: str = POD_UID, **kwargs: Any) -> Pod:
    return typed(PODS, pod_document(name, uid, **kwargs))


def user(name: str = "p", uid: str = POD_UID) -> Json:
    return {"resource": "pods", "name": name, "uid": uid}


def claim(
    name: str = "claim",
    *,
    owner: str = "",
    owner_uid: str = POD_UID,
    entry: str = "",
    users: list[Json] | None = None,
    allocated: bool = False,
    finalizer: bool = False,
    deleted: bool = False,
    more_owners: int = 0,
    namespace: str = NS,
    devices: list[Json] | None = None,
) -> ResourceClaim:
    metadata: Json = {"name": name, "namespace": namespace, "uid": CLAIM_UID, "resourceVersion": "7"}
    if owner:
        pod_owner = {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": owner_uid, "controller": True}
        others = [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": str(i)} for i in range(more_owners)
        ]
        metadata["ownerReferences"] = [pod_owner, *others]
    if entry:
        metadata["annotations"] = {POD_CLAIM_NAME_ANNOTATION: entry}
    if finalizer:
        metadata["finalizers"] = [CLAIM_FINALIZER]
    if deleted:
        metadata["deletionTimestamp"] = DELETED_AT
    status: Json = {"reservedFor": users} if users else {}
    if allocated or devices:
        status["allocation"] = {"devices": {"results": devices or []}}
    return typed(RESOURCE_CLAIMS, {"metadata": metadata, "spec": {}, "status": status})


def template_document(name: str = "t", *, admin: bool = False, first_available: bool = False) -> Json:
    exactly: Json = {"deviceClassName": "gpu"} | ({"adminAccess": True} if admin else {})
    request: Json = {"name": "r", "exactly": exactly}
    if first_available:
        request = {"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "gpu"}]}
    wanted = {"labels": {"team": "blue"}, "annotations": {"why": "test"}}
    return {
        "metadata": {"name": name, "namespace": NS, "uid": "00000000-0000-4000-8000-0000000000t1"},
        "spec": {"metadata": wanted, "spec": {"devices": {"requests": [request]}}},
    }


def template(name: str = "t", **kwargs: Any) -> ResourceClaimTemplate:
    return typed(RESOURCE_CLAIM_TEMPLATES, template_document(name, **kwargs))


SECONDS_0 = "2030-01-01T00:00:00Z"


def taint(effect: str = "NoExecute", *, key: str = "bad", at: str = SECONDS_0) -> Json:
    return {"key": key, "effect": effect, "timeAdded": at}


def slice_document(
    name: str = "s", *taints: Json, generation: int = 1, device: str = "g0", node: str = "n"
) -> Json:
    pool = {"name": "n", "generation": generation, "resourceSliceCount": 1}
    devices = [{"name": device, "taints": list(taints)}]
    return {
        "metadata": {"name": name},
        "spec": {"driver": "d.example", "pool": pool, "nodeName": node, "devices": devices},
    }


def rule_document(name: str = "rule", *, selector: Json | None = None, **taints: Any) -> Json:
    spec: Json = {"taint": taint(**taints)}
    if selector is not None:
        spec["deviceSelector"] = selector
    return {"metadata": {"name": name, "uid": f"uid-{name}", "generation": 1}, "spec": spec}


def used(*tolerations: Json, device: str = "g0") -> Json:
    """One allocated device."""
    result: Json = {"request": "r", "driver": "d.example", "pool": "n", "device": device}
    return result | ({"tolerations": list(tolerations)} if tolerations else {})
