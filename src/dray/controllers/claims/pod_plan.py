"""What a pod's claims need: to be made, recorded in the pod, reserved. Pure; asked again after every change."""

from __future__ import annotations

from dray.api.core import Pod
from dray.api.core.pod import PodResourceClaim, PodResourceClaimStatus
from dray.api.resource import ResourceClaim
from dray.controllers.claims.known import Known
from dray.controllers.claims.making import Making, Owner, found_for, made_for
from dray.controllers.claims.membership import group_with, lacks_group
from dray.controllers.claims.steps import (
    AddReservation,
    ClaimPolicy,
    CreateClaim,
    Fault,
    PodPlan,
    PodStep,
    RecordClaims,
)
from dray.controllers.done_pods import is_done
from dray.semantics.claims import (
    ClaimName,
    NoClaim,
    claim_for_entry,
    consumer_of,
    is_for_pod,
    is_reserved_for_pod,
)


def plan_pod(pod: Pod, known: Known, policy: ClaimPolicy) -> PodPlan:
    """The steps for this pod; none for one that is being deleted, will not run any more, or waits for its group.

    A claim that exists for an entry but is not recorded (its maker died in between) is taken over, never made twice.
    """
    if pod.metadata.deletion_timestamp is not None or is_done(pod) or lacks_group(pod, known, policy):
        return PodPlan()
    making = Making()
    for entry in pod.spec.resource_claims:
        making.add(entry.name, _make(pod, entry, known, policy))
    steps: list[PodStep] = [*making.creates]
    if making.names:
        steps.append(RecordClaims(_statuses(pod, making.names, policy)))
    steps.extend(_reservations(pod, making.names, known, policy))
    return PodPlan(tuple(steps), tuple(making.faults))


def _make(
    pod: Pod, entry: PodResourceClaim, known: Known, policy: ClaimPolicy
) -> CreateClaim | str | Fault | None:
    """A claim to make, the name of one to record, why there is none, or None where all is well."""
    found = claim_for_entry(pod, entry)
    if found is NoClaim.NO_SOURCE:
        return Fault(entry.name, "neither resourceClaimName nor resourceClaimTemplateName is set")
    if found is NoClaim.NOT_NEEDED or (isinstance(found, ClaimName) and not found.from_template):
        return None
    name = found.name if isinstance(found, ClaimName) else ""
    recorded = known.claim(pod.metadata.namespace, name) if name else None
    if recorded is not None and is_for_pod(recorded, pod, pod_groups=policy.workload_claims):
        return None
    group = group_with(pod, entry, known, policy)
    if group is not None:
        # The group's own turn makes the claim; the pod only records it.
        return found_for(Owner.of(group), entry.name, known)
    wanted = entry.resource_claim_template_name or ""
    return made_for(Owner.of(pod), entry.name, wanted, known, policy, instead_of=name)


def _statuses(pod: Pod, new: dict[str, str], policy: ClaimPolicy) -> tuple[PodResourceClaimStatus, ...]:
    """In the order of the pod's entries. What was recorded before is said again: who applies owns all it said last."""
    old = {} if policy.new_statuses_only else {one.name: one for one in pod.status.resource_claim_statuses}
    return tuple(
        PodResourceClaimStatus(name=entry.name, resource_claim_name=new[entry.name])
        if entry.name in new
        else old[entry.name]
        for entry in pod.spec.resource_claims
        if entry.name in new or entry.name in old
    )


def _reservations(
    pod: Pod, new: dict[str, str], known: Known, policy: ClaimPolicy
) -> tuple[AddReservation, ...]:
    """For a pod that has its node: claims that are allocated, but reserved neither for it nor for its group."""
    if not pod.spec.node_name:
        return ()
    found: dict[str, AddReservation] = {}
    for entry in pod.spec.resource_claims:
        one = claim_for_entry(pod, entry)
        name = new.get(entry.name, one.name if isinstance(one, ClaimName) else None)
        claim = None if name is None else known.claim(pod.metadata.namespace, name)
        is_named = entry.resource_claim_name is not None
        if claim is None or not (is_named or is_for_pod(claim, pod, pod_groups=policy.workload_claims)):
            continue
        if needs_reservation(claim, pod, policy):
            group = group_with(pod, entry, known, policy)
            found.setdefault(claim.metadata.name, AddReservation(claim, consumer_of(group or pod)))
    return tuple(found.values())


def needs_reservation(claim: ResourceClaim, pod: Pod, policy: ClaimPolicy) -> bool:
    """Whether the pod, which has its node, must be let in. A claim that is being deleted takes nobody in."""
    return (
        claim.status.allocation is not None
        and claim.metadata.deletion_timestamp is None
        and not is_reserved_for_pod(claim, pod, pod_groups=policy.workload_claims)
    )
