"""What holds between a pod and its claims: which claim is meant, whose it is, who may use it, and when a pod is done."""

from __future__ import annotations

from typing import Final

import msgspec

from dray.api.core import Pod
from dray.api.core.pod import PodResourceClaim
from dray.api.meta import OwnerReference
from dray.api.resource import ResourceClaim
from dray.api.resource.claim_status import ResourceClaimConsumerReference

_TERMINAL: Final = ("Succeeded", "Failed")


class Meant(msgspec.Struct, frozen=True):
    """The claim that a pod's claim stands for. `name` is None where it was decided that none is needed.

    `is_recorded` is False while no claim was made from the template. One `from_template` must belong to the pod.
    """

    name: str | None
    from_template: bool = False
    is_recorded: bool = True


def meant(pod: Pod, pod_claim: PodResourceClaim) -> Meant | None:
    """Which claim this entry of the pod means; None for a kind of entry from a newer Kubernetes."""
    if pod_claim.resource_claim_name is not None:
        return Meant(pod_claim.resource_claim_name)
    if pod_claim.resource_claim_template_name is None:
        return None
    for status in pod.status.resource_claim_statuses:
        if status.name == pod_claim.name:
            return Meant(status.resource_claim_name, from_template=True)
    return Meant(None, from_template=True, is_recorded=False)


def claim_names(pod: Pod) -> tuple[str, ...]:
    """All claims that are known to serve the pod, that for its extended resources included; sorted."""
    names = {found.name for one in pod.spec.resource_claims if (found := meant(pod, one)) is not None}
    if (extended := pod.status.extended_resource_claim_status) is not None:
        names.add(extended.resource_claim_name or None)
    return tuple(sorted(name for name in names if name is not None))


def has_claims(pod: Pod) -> bool:
    """Whether claims have anything to do with this pod."""
    return bool(pod.spec.resource_claims) or pod.status.extended_resource_claim_status is not None


def is_terminal(pod: Pod) -> bool:
    """Whether its containers have ended for good."""
    return pod.status.phase in _TERMINAL


def is_done(pod: Pod) -> bool:
    """Whether none of its containers runs or ever will: terminal, or deleted before a node got it."""
    return is_terminal(pod) or (pod.metadata.deletion_timestamp is not None and not pod.spec.node_name)


def owning_pod(claim: ResourceClaim) -> OwnerReference | None:
    """The pod that controls the claim, where one does."""
    for owner in claim.metadata.owner_references:
        if owner.controller and owner.api_version == "v1" and owner.kind == "Pod":
            return owner
    return None


def is_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether the claim was made for this pod and no other of the same name."""
    owner = owning_pod(claim)
    return (
        claim.metadata.namespace == pod.metadata.namespace
        and owner is not None
        and owner.uid == pod.metadata.uid
    )


def is_reserved(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether the pod may use the claim."""
    return any(one.uid == pod.metadata.uid for one in claim.status.reserved_for)


def is_pod(consumer: ResourceClaimConsumerReference) -> bool:
    """Whether a reservation is a pod's; others are left alone."""
    return not consumer.api_group and consumer.resource == "pods"


def consumer_of(pod: Pod) -> ResourceClaimConsumerReference:
    """The pod as an entry of `reservedFor`."""
    return ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
