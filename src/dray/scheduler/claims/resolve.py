"""Which claims a pod uses: those it names, and those that were made for it from templates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dray.api.core.pod import Pod, PodResourceClaim
from dray.api.quoting import quote
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.claim_status import ResourceClaimConsumerReference
from dray.api.scheduling import group_name, is_reserved_for_group, owning_group

Lookup = Callable[[str, str], ResourceClaim | None]
"""A claim by namespace and name."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The claims in the pod's order, less those that turned out not to be needed, each with the pod's entry that means it.

    `problem` says why the pod waits.
    """

    claims: tuple[ResourceClaim, ...] = ()
    entries: tuple[PodResourceClaim, ...] = ()
    problem: str = ""


def resolve(pod: Pod, lookup: Lookup, *, pod_groups: bool = False) -> Resolved:
    """All claims of a pod, up to the first problem. `pod_groups`: a claim may have been made for the pod's group too."""
    found: list[ResourceClaim] = []
    entries: list[PodResourceClaim] = []
    for entry in pod.spec.resource_claims:
        one = _resolve_one(pod, entry, lookup, pod_groups)
        if isinstance(one, str):
            return Resolved(problem=one)
        if one is not None:
            found.append(one)
            entries.append(entry)
    return Resolved(tuple(found), tuple(entries))


def _resolve_one(
    pod: Pod, entry: PodResourceClaim, lookup: Lookup, pod_groups: bool
) -> ResourceClaim | str | None:
    """The claim, None where the pod needs none, or a problem."""
    namespace, is_made = pod.metadata.namespace, entry.resource_claim_name is None
    name = entry.resource_claim_name
    if name is None:
        if entry.resource_claim_template_name is None:
            where = f"pod {quote(f'{namespace}/{pod.metadata.name}')}, spec.resourceClaim {quote(entry.name)}"
            return f"{where}: none of the supported fields are set"
        status = next((one for one in pod.status.resource_claim_statuses if one.name == entry.name), None)
        if status is None:
            return f"pod {quote(f'{namespace}/{pod.metadata.name}')}: ResourceClaim not created yet"
        name = status.resource_claim_name
    if name is None:
        return None
    claim = lookup(namespace, name)
    if claim is None:
        return f"could not find ResourceClaim {quote(f'{namespace}/{name}')}"
    if claim.metadata.deletion_timestamp is not None:
        return f"resourceclaim {quote(name)} is being deleted"
    return (foreign(pod, claim, pod_groups=pod_groups) if is_made else "") or claim


def foreign(pod: Pod, claim: ResourceClaim, *, pod_groups: bool = False) -> str:
    """Why a claim is not the one that was made for the pod, or for its group; "" where it is."""
    names = f"ResourceClaim {full_name(claim)}", f"Pod {pod.metadata.namespace}/{pod.metadata.name}"
    if claim.metadata.namespace != pod.metadata.namespace:
        return f"{names[0]} is not in the same namespace as {names[1]}"
    if any(one.controller and one.uid == pod.metadata.uid for one in claim.metadata.owner_references):
        return ""
    group, owner = (group_name(pod), owning_group(claim)) if pod_groups else (None, None)
    if group is None:
        return f"{names[0]} was not created for {names[1]} (Pod is not owner)"
    if owner is None or owner.name != group:
        return f"{names[0]} was not created for {names[1]} (neither Pod nor PodGroup {group} is the owner)"
    return ""


def full_name(claim: ResourceClaim) -> str:
    """NAMESPACE/NAME."""
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def is_reserved_for(pod: Pod, claim: ResourceClaim, *, pod_groups: bool = False) -> bool:
    """Whether the pod is one of the claim's users, or with `pod_groups` its group."""
    if any(one.uid == pod.metadata.uid for one in claim.status.reserved_for):
        return True
    return pod_groups and is_reserved_for_group(claim, pod)


def reference_to(pod: Pod) -> ResourceClaimConsumerReference:
    """The pod as a user of a claim."""
    return ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
