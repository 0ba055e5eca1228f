"""Which claims a pod uses: those it names, and those that were made for it from templates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dray.api.core.pod import Pod, PodResourceClaim
from dray.api.quoting import quote
from dray.api.resource.claim import ResourceClaim
from dray.semantics.claims import ClaimName, NoClaim, claim_for_entry, group_name, is_for_pod

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
    namespace = pod.metadata.namespace
    found = claim_for_entry(pod, entry)
    if not isinstance(found, ClaimName):
        return _why_none(pod, entry, found)
    claim = lookup(namespace, found.name)
    if claim is None:
        return f"could not find ResourceClaim {quote(f'{namespace}/{found.name}')}"
    if claim.metadata.deletion_timestamp is not None:
        return f"resourceclaim {quote(found.name)} is being deleted"
    if found.from_template and not is_for_pod(claim, pod, pod_groups=pod_groups):
        return not_owner(pod, claim, pod_groups=pod_groups)
    return claim


def _why_none(pod: Pod, entry: PodResourceClaim, found: NoClaim) -> str | None:
    where = f"pod {quote(f'{pod.metadata.namespace}/{pod.metadata.name}')}"
    match found:
        case NoClaim.NOT_NEEDED:
            return None
        case NoClaim.NOT_MADE:
            return f"{where}: ResourceClaim not created yet"
        case NoClaim.NO_SOURCE:
            return f"{where}, spec.resourceClaim {quote(entry.name)}: none of the supported fields are set"


def not_owner(pod: Pod, claim: ResourceClaim, *, pod_groups: bool = False) -> str:
    """How kube-scheduler says that a claim was made for another pod, or for none."""
    names = f"ResourceClaim {full_name(claim)}", f"Pod {pod.metadata.namespace}/{pod.metadata.name}"
    if claim.metadata.namespace != pod.metadata.namespace:
        return f"{names[0]} is not in the same namespace as {names[1]}"
    group = group_name(pod) if pod_groups else None
    if group is None:
        return f"{names[0]} was not created for {names[1]} (Pod is not owner)"
    return f"{names[0]} was not created for {names[1]} (neither Pod nor PodGroup {group} is the owner)"


def full_name(claim: ResourceClaim) -> str:
    """NAMESPACE/NAME."""
    return f"{claim.metadata.namespace}/{claim.metadata.name}"
