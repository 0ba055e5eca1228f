"""Which ResourceClaim an entry of a pod or PodGroup means, for whom a claim was made, and whom it is reserved for.

The rules of k8s.io/dynamic-resource-allocation/resourceclaim. `pod_groups` stands for the gate DRAWorkloadResourceClaims:
with it, what belongs to a pod's group is the pod's too. A pod knows its group by name only, so its uid is not compared.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from dray.api.core.pod import Pod, PodResourceClaim
from dray.api.meta import OwnerReference
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.claim_status import ResourceClaimConsumerReference
from dray.api.scheduling import POD_GROUPS, PodGroup, PodGroupResourceClaim


class ClaimName(msgspec.Struct, frozen=True):
    """The claim that an entry means. One `from_template` is used only by the pod or group that it was made for."""

    name: str
    from_template: bool = False


class NoClaim(Enum):
    """Why an entry means no claim."""

    NOT_NEEDED = "not needed"
    """It was decided that none is made. The entry is passed over."""
    NOT_MADE = "not made"
    """The status does not say yet which claim was made from the template."""
    NO_SOURCE = "no source"
    """It has neither a name nor a template: an entry from a newer Kubernetes."""


def claim_for_entry(
    user: Pod | PodGroup, entry: PodResourceClaim | PodGroupResourceClaim
) -> ClaimName | NoClaim:
    """Which claim this entry of the pod or group means. What the status says of an entry with a name does not count."""
    if entry.resource_claim_name is not None:
        return ClaimName(entry.resource_claim_name)
    if entry.resource_claim_template_name is None:
        return NoClaim.NO_SOURCE
    for status in user.status.resource_claim_statuses:
        if status.name == entry.name:
            name = status.resource_claim_name
            return NoClaim.NOT_NEEDED if name is None else ClaimName(name, from_template=True)
    return NoClaim.NOT_MADE


def claim_names(user: Pod | PodGroup) -> tuple[str, ...]:
    """All claims that the pod or group is known to mean, each once: in its own order, that for extended resources last."""
    found = (claim_for_entry(user, entry) for entry in user.spec.resource_claims)
    names = [one.name for one in found if isinstance(one, ClaimName)]
    extended = user.status.extended_resource_claim_status if isinstance(user, Pod) else None
    if extended is not None:
        names.append(extended.resource_claim_name)
    return tuple(dict.fromkeys(filter(None, names)))


def has_claims(pod: Pod) -> bool:
    """Whether claims have anything to do with this pod."""
    return bool(pod.spec.resource_claims) or pod.status.extended_resource_claim_status is not None


def group_name(pod: Pod) -> str | None:
    """The group that a pod belongs to, whether or not it exists."""
    name = (pod.spec.scheduling_group or {}).get("podGroupName")
    return name if isinstance(name, str) else None


def is_group_claim(group: PodGroup, entry: PodResourceClaim) -> bool:
    """Whether a pod's entry means a claim of its group: all three values are those of an entry of the group."""
    wanted = (entry.name, entry.resource_claim_name, entry.resource_claim_template_name)
    return any(
        wanted == (one.name, one.resource_claim_name, one.resource_claim_template_name)
        for one in group.spec.resource_claims
    )


def owning_pod(claim: ResourceClaim) -> OwnerReference | None:
    """The pod that controls the claim, where one does."""
    owner = _controller(claim)
    is_pod = owner is not None and owner.api_version == "v1" and owner.kind == "Pod"
    return owner if is_pod else None


def owning_group(claim: ResourceClaim) -> OwnerReference | None:
    """The PodGroup that controls the claim, where one does; in whatever version of the API."""
    owner = _controller(claim)
    if owner is None or owner.kind != POD_GROUPS.kind:
        return None
    return owner if owner.api_version.startswith(f"{POD_GROUPS.group}/") else None


def owner_of(claim: ResourceClaim) -> OwnerReference | None:
    """The pod or group that the claim was made for, where there is one."""
    return owning_pod(claim) or owning_group(claim)


def is_controlled_by(claim: ResourceClaim, namespace: str, uid: str) -> bool:
    """Whether the claim was made for this very object, and not for another of the same name."""
    owner = _controller(claim)
    return claim.metadata.namespace == namespace and owner is not None and owner.uid == uid


def is_for_pod(claim: ResourceClaim, pod: Pod, *, pod_groups: bool = False) -> bool:
    """Whether the claim was made for this pod, or with `pod_groups` for its group."""
    if is_controlled_by(claim, pod.metadata.namespace, pod.metadata.uid):
        return True
    owner = owning_group(claim) if pod_groups else None
    return (
        owner is not None
        and claim.metadata.namespace == pod.metadata.namespace
        and owner.name == group_name(pod)
    )


def is_for_group(claim: ResourceClaim, group: PodGroup) -> bool:
    """Whether the claim was made for this group and no other of the same name."""
    return is_controlled_by(claim, group.metadata.namespace, group.metadata.uid)


def is_reserved_for_pod(claim: ResourceClaim, pod: Pod, *, pod_groups: bool = False) -> bool:
    """Whether the pod may use the claim: it is reserved for it, or with `pod_groups` for its group."""
    group = group_name(pod) if pod_groups else None
    return any(
        one.uid == pod.metadata.uid or (group is not None and is_group_consumer(one) and one.name == group)
        for one in claim.status.reserved_for
    )


def is_pod_consumer(consumer: ResourceClaimConsumerReference) -> bool:
    """Whether a reservation is a pod's."""
    return not consumer.api_group and consumer.resource == "pods"


def is_group_consumer(consumer: ResourceClaimConsumerReference) -> bool:
    """Whether a reservation is a PodGroup's."""
    return consumer.api_group == POD_GROUPS.group and consumer.resource == POD_GROUPS.plural


def consumer_of(user: Pod | PodGroup) -> ResourceClaimConsumerReference:
    """The pod or group as an entry of `reservedFor`."""
    name, uid = user.metadata.name, user.metadata.uid
    if isinstance(user, Pod):
        return ResourceClaimConsumerReference(resource="pods", name=name, uid=uid)
    return ResourceClaimConsumerReference(
        api_group=POD_GROUPS.group, resource=POD_GROUPS.plural, name=name, uid=uid
    )


def consumer_for_entry(
    pod: Pod, entry: PodResourceClaim, group: PodGroup | None
) -> ResourceClaimConsumerReference:
    """Whom the claim of a pod's entry is reserved for: the pod, or its group where the entry means a claim of the group."""
    return consumer_of(group if group is not None and is_group_claim(group, entry) else pod)


def _controller(claim: ResourceClaim) -> OwnerReference | None:
    return next((one for one in claim.metadata.owner_references if one.controller), None)
