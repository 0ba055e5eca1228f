"""Effects as values: what is to be sent to the API server. The cycle sends them; nothing here does.

Patches name only what they change, because views do not have every field. Those that build on what was read carry its
resource version, so that the server answers with a conflict where somebody wrote first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

import msgspec

from dray.api.codec import to_raw
from dray.api.core.pod import (
    ContainerExtendedResourceRequest,
    NodeAllocatableResourceClaimStatus,
    Pod,
    PodExtendedResourceClaimStatus,
)
from dray.api.kinds import PODS, RESOURCE_CLAIMS, Resource
from dray.api.limits import CLAIM_FINALIZER
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.claim_status import (
    AllocationResult,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from dray.client.requests import PatchType

CONFIRMED_ANNOTATION: Final = "scheduler.dray.internal/confirmed-version"


class Verb(StrEnum):
    """What is done."""

    CREATE = "create"
    PATCH = "patch"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Write:
    """One request. `body` is the document, the patch, or nothing for a deletion, which `uid` and `version` then make
    conditional.

    `purpose` begins the text of an error. `carries_allocation`: if nobody knows whether the write was stored, its
    devices must stay held (`bind.note_error`). `has_whole_status`: there was no status before, so that the body may as well be
    sent in place of the object; a server takes less time for that than for a patch.
    """

    verb: Verb
    resource: Resource[Any]
    namespace: str
    name: str
    purpose: str
    body: Mapping[str, Any] = field(default_factory=dict)
    subresource: str | None = None
    patch_type: PatchType = PatchType.MERGE
    uid: str = ""
    version: str = ""
    carries_allocation: bool = False
    has_whole_status: bool = False


def add_finalizer(claim: ResourceClaim) -> Write:
    """Through the main door: it must be there before the claim holds anything."""
    finalizers = [*claim.metadata.finalizers, CLAIM_FINALIZER]
    return _patch(claim, "add finalizer to claim", {"metadata": {"finalizers": finalizers}})


def remove_finalizer(claim: ResourceClaim) -> Write:
    """So that a deletion is carried out at once."""
    finalizers = [one for one in claim.metadata.finalizers if one != CLAIM_FINALIZER]
    return _patch(claim, "remove finalizer from claim", {"metadata": {"finalizers": finalizers}})


def allocate_and_reserve(
    claim: ResourceClaim, allocation: AllocationResult | None, user: ResourceClaimConsumerReference
) -> Write:
    """The pod becomes a user of the claim, which gets its devices by the same write unless it has them."""
    users = [one for one in claim.status.reserved_for if one.uid != user.uid]
    status: dict[str, Any] = {"reservedFor": to_raw([*users, user])}
    purpose = "add reservation to claim"
    if allocation is not None:
        status["allocation"] = to_raw(allocation)
        purpose = "add allocation and reservation to claim"
    write = _patch(claim, purpose, {"status": status}, "status")
    return replace(
        write,
        carries_allocation=allocation is not None,
        has_whole_status=allocation is not None and claim.status == ResourceClaimStatus(),
    )


def unreserve(claim: ResourceClaim, uid: str) -> Write:
    """This pod or group is no user any more."""
    body = {
        "metadata": {"uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version},
        "status": {"reservedFor": [{"$patch": "delete", "uid": uid}]},
    }
    return Write(
        Verb.PATCH,
        RESOURCE_CLAIMS,
        claim.metadata.namespace,
        claim.metadata.name,
        _purpose("remove reservation from claim", claim),
        body,
        "status",
        PatchType.STRATEGIC,
    )


def confirm(claim: ResourceClaim) -> Write:
    """The claim stays as it is, in a version of its own: whoever is about to take it back must look again."""
    seen = {CONFIRMED_ANNOTATION: claim.metadata.resource_version}
    return _patch(claim, "confirm claim", {"metadata": {"annotations": seen}})


def deallocate(claim: ResourceClaim) -> Write:
    """The claim holds nothing any more and nobody uses it."""
    status = {"allocation": None, "reservedFor": None, "devices": None}
    return _patch(claim, "deallocate claim", {"status": status}, "status")


def create(claim: ResourceClaim) -> Write:
    """The special claim of a pod gets stored; the server makes up its name."""
    meta = msgspec.structs.replace(claim.metadata, name="", uid="", resource_version="")
    body = to_raw(msgspec.structs.replace(claim, metadata=meta, status=ResourceClaim().status))
    purpose = f"create claim for extended resources {claim.metadata.namespace}/{claim.metadata.generate_name}"
    return Write(Verb.CREATE, RESOURCE_CLAIMS, claim.metadata.namespace, "", purpose, body)


def delete(claim: ResourceClaim) -> tuple[Write, ...]:
    """A special claim of an earlier attempt goes, with what it holds. After the first write the version is that of its
    answer (`Writer.settle`)."""
    has_finalizer = CLAIM_FINALIZER in claim.metadata.finalizers
    gone = Write(
        Verb.DELETE,
        RESOURCE_CLAIMS,
        claim.metadata.namespace,
        claim.metadata.name,
        _purpose("delete claim", claim),
        uid=claim.metadata.uid,
        version="" if has_finalizer else claim.metadata.resource_version,
    )
    return (remove_finalizer(claim), gone) if has_finalizer else (gone,)


def tell_pod(pod: Pod, claim: ResourceClaim, mappings: tuple[ContainerExtendedResourceRequest, ...]) -> Write:
    """The kubelet reads in the pod's status which claim serves its extended resources."""
    told = PodExtendedResourceClaimStatus(request_mappings=mappings, resource_claim_name=claim.metadata.name)
    return _patch_pod(pod, "extendedResourceClaimStatus", to_raw(told))


def tell_node_resources(pod: Pod, told: tuple[NodeAllocatableResourceClaimStatus, ...]) -> Write:
    """Everybody reads in the pod's status what its devices take from the node beside what its containers ask for.

    The list is one value: with nothing to tell it goes.
    """
    return _patch_pod(pod, "nodeAllocatableResourceClaimStatuses", to_raw(told) if told else None)


def _patch_pod(pod: Pod, field: str, value: Any) -> Write:
    body = {"metadata": {"uid": pod.metadata.uid}, "status": {field: value}}
    name, namespace = pod.metadata.name, pod.metadata.namespace
    purpose = f"update pod {namespace}/{name} {field[0].upper()}{field[1:]}"
    return Write(Verb.PATCH, PODS, namespace, name, purpose, body, "status", PatchType.STRATEGIC)


def _patch(
    claim: ResourceClaim, purpose: str, body: Mapping[str, Any], subresource: str | None = None
) -> Write:
    meta = claim.metadata
    seen = {"uid": meta.uid, "resourceVersion": meta.resource_version}
    whole = {**body, "metadata": {**body.get("metadata", {}), **seen}}
    return Write(
        Verb.PATCH, RESOURCE_CLAIMS, meta.namespace, meta.name, _purpose(purpose, claim), whole, subresource
    )


def _purpose(text: str, claim: ResourceClaim) -> str:
    return f"{text} {claim.metadata.namespace}/{claim.metadata.name}"
