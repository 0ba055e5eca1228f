"""What a claim needs when its users go: reservations dropped, devices freed, the finalizer and the claim itself removed.

Pure. A reservation goes only when it is certain that its pod will not use the devices any more. The cache alone is not
certain: a pod that it lacks, or knows under another uid, may be one that the scheduler has just placed. So the plan
first names the pods that have to be looked up live.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dray.api.core import Pod
from dray.api.limits import CLAIM_FINALIZER
from dray.api.resource import ResourceClaim
from dray.api.resource.claim_status import ResourceClaimConsumerReference
from dray.api.scheduling import PodGroup
from dray.controllers.claims.known import Known
from dray.controllers.claims.steps import (
    ClaimPolicy,
    ClaimStep,
    DeleteClaim,
    RemoveFinalizer,
    SetReservations,
)
from dray.controllers.done_pods import is_done
from dray.semantics.claims import is_group_consumer, is_pod_consumer, owner_of, owning_group, owning_pod

Looked = Mapping[str, Pod | None]
"""Pods of the claim's namespace as the API server has them now; None where there is none of that name."""
LookedGroups = Mapping[str, PodGroup | None]
"""The same of PodGroups."""
_NO_PODS: Final[Looked] = {}
_NO_GROUPS: Final[LookedGroups] = {}


def pods_to_look_up(claim: ResourceClaim, known: Known, policy: ClaimPolicy) -> tuple[str, ...]:
    """Names of pods that only the API server can tell about; sorted, mostly none."""
    namespace = claim.metadata.namespace
    names = {
        one.name
        for one in claim.status.reserved_for
        if is_pod_consumer(one) and _is_kept(claim, one, known, policy) is None
    }
    owner = owning_pod(claim)
    if owner is not None and not _has_users(claim, known, policy):
        is_replaced = known.pod(namespace, owner.name) is not None
        if _is_needed(namespace, owner.name, owner.uid, known, {}) is None:
            names |= {owner.name} if is_replaced or policy.collect_orphans else set()
    return tuple(sorted(names))


def groups_to_look_up(claim: ResourceClaim, known: Known, policy: ClaimPolicy) -> tuple[str, ...]:
    """As `pods_to_look_up`; none without the gate of PodGroups."""
    if not policy.workload_claims:
        return ()
    namespace = claim.metadata.namespace
    names = {
        one.name
        for one in claim.status.reserved_for
        if is_group_consumer(one) and _is_kept(claim, one, known, policy) is None
    }
    owner = owning_group(claim)
    if owner is not None and policy.collect_orphans and not _has_users(claim, known, policy):
        is_open = _is_there(namespace, owner.name, owner.uid, known, {}) is None
        names |= {owner.name} if is_open else set()
    return tuple(sorted(names))


def plan_claim(
    claim: ResourceClaim,
    known: Known,
    looked: Looked,
    policy: ClaimPolicy,
    groups: LookedGroups = _NO_GROUPS,
) -> tuple[ClaimStep, ...]:
    """The steps for this claim, in order; each is made against the version that the one before left behind."""
    status = claim.status
    remaining = tuple(
        one for one in status.reserved_for if _is_kept(claim, one, known, policy, looked, groups) is not False
    )
    steps: list[ClaimStep] = []
    has_finalizer = CLAIM_FINALIZER in claim.metadata.finalizers
    if len(remaining) < len(status.reserved_for):
        # Only the change to "nobody uses it" frees the devices: a claim may be allocated before its first user.
        deallocate = not remaining and has_finalizer
        steps.append(SetReservations(remaining, deallocate))
        if has_finalizer and (deallocate or status.allocation is None):
            steps.append(RemoveFinalizer())
    elif has_finalizer and claim.metadata.deletion_timestamp is not None and not remaining:
        if status.allocation is not None:
            steps.append(SetReservations((), deallocate=True))
        steps.append(RemoveFinalizer())
    elif policy.free_unused and _is_given_up(claim, known):
        steps += [SetReservations((), deallocate=True), RemoveFinalizer()]
    if not remaining and _is_left_over(claim, known, looked, policy, groups):
        steps.append(DeleteClaim())
    return tuple(steps)


def _has_users(claim: ResourceClaim, known: Known, policy: ClaimPolicy) -> bool:
    """Whether a reservation stays for sure."""
    return any(_is_kept(claim, one, known, policy) for one in claim.status.reserved_for)


def _is_kept(
    claim: ResourceClaim,
    user: ResourceClaimConsumerReference,
    known: Known,
    policy: ClaimPolicy,
    looked: Looked = _NO_PODS,
    groups: LookedGroups = _NO_GROUPS,
) -> bool | None:
    """Whether a reservation stays; None where nobody can tell yet. Kinds that are not known here stay."""
    namespace = claim.metadata.namespace
    if is_pod_consumer(user):
        return _is_needed(namespace, user.name, user.uid, known, looked)
    if policy.workload_claims and is_group_consumer(user):
        return _is_there(namespace, user.name, user.uid, known, groups)
    return True


def _is_needed(namespace: str, name: str, uid: str, known: Known, looked: Looked) -> bool | None:
    """Whether that very pod may still use devices; None where nobody can tell yet."""
    if known.is_deleted(uid):
        return False
    pod = known.pod(namespace, name)
    if pod is None or pod.metadata.uid != uid:
        if name not in looked:
            return None
        pod = looked[name]
    return pod is not None and pod.metadata.uid == uid and not is_done(pod)


def _is_there(namespace: str, name: str, uid: str, known: Known, looked: LookedGroups) -> bool | None:
    """Whether that very group exists: as long as it does, its pods may run; None where nobody can tell yet."""
    if known.is_deleted(uid):
        return False
    group = known.group(namespace, name)
    if group is None or group.metadata.uid != uid:
        if name not in looked:
            return None
        group = looked[name]
    return group is not None and group.metadata.uid == uid


def _is_given_up(claim: ResourceClaim, known: Known) -> bool:
    """Whether a scheduler allocated it, which the finalizer tells, for a pod that went before it was bound.

    Where a pod that is not seen yet wants it after all, its scheduler allocates anew.
    """
    if claim.status.allocation is None or claim.status.reserved_for:
        return False
    if CLAIM_FINALIZER not in claim.metadata.finalizers or owner_of(claim) is not None:
        return False
    return all(is_done(pod) for pod in known.users(claim))


def _is_left_over(
    claim: ResourceClaim, known: Known, looked: Looked, policy: ClaimPolicy, groups: LookedGroups
) -> bool:
    """Whether the claim was made for somebody who needs it no more. With a second owner the garbage collector decides."""
    if claim.metadata.deletion_timestamp is not None:
        return False
    namespace, is_single = claim.metadata.namespace, len(claim.metadata.owner_references) == 1
    owner = owning_pod(claim)
    if owner is None:
        group = owning_group(claim) if policy.workload_claims and policy.collect_orphans else None
        is_gone = group and _is_there(namespace, group.name, group.uid, known, groups) is False
        return bool(is_gone) and is_single
    if _is_needed(namespace, owner.name, owner.uid, known, looked) is not False:
        return False
    pod = known.pod(namespace, owner.name) or looked.get(owner.name)
    is_there = pod is not None and pod.metadata.uid == owner.uid
    return is_there or is_single
