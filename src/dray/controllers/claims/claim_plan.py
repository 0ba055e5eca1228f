"""What a claim needs when its users go: reservations dropped, devices freed, the finalizer and the claim itself removed.

Pure. A reservation goes only when it is certain that its pod will not use the devices any more. The cache alone is not
certain: a pod that it lacks, or knows under another uid, may be one that the scheduler has just placed. So the plan
first names the pods that have to be looked up live.
"""

from __future__ import annotations

from collections.abc import Mapping

from dray.api.core import Pod
from dray.api.limits import CLAIM_FINALIZER
from dray.api.resource import ResourceClaim
from dray.controllers.claims.known import Known
from dray.controllers.claims.steps import (
    ClaimPolicy,
    ClaimStep,
    DeleteClaim,
    RemoveFinalizer,
    SetReservations,
)
from dray.controllers.pod_claims import is_done, is_pod, owning_pod

Looked = Mapping[str, Pod | None]
"""Pods of the claim's namespace as the API server has them now; None where there is none of that name."""


def pods_to_look_up(claim: ResourceClaim, known: Known, policy: ClaimPolicy) -> tuple[str, ...]:
    """Names of pods that only the API server can tell about; sorted, mostly none."""
    namespace = claim.metadata.namespace
    verdicts = [
        (one.name, _is_needed(namespace, one.name, one.uid, known, {}))
        for one in claim.status.reserved_for
        if is_pod(one)
    ]
    names = {name for name, verdict in verdicts if verdict is None}
    stays = len(verdicts) < len(claim.status.reserved_for) or any(verdict for _, verdict in verdicts)
    owner = owning_pod(claim)
    if owner is not None and not stays and _is_needed(namespace, owner.name, owner.uid, known, {}) is None:
        is_replaced = known.pod(namespace, owner.name) is not None
        names |= {owner.name} if is_replaced or policy.collect_orphans else set()
    return tuple(sorted(names))


def plan_claim(
    claim: ResourceClaim, known: Known, looked: Looked, policy: ClaimPolicy
) -> tuple[ClaimStep, ...]:
    """The steps for this claim, in order; each is made against the version that the one before left behind."""
    namespace, status = claim.metadata.namespace, claim.status
    remaining = tuple(
        one
        for one in status.reserved_for
        if not is_pod(one) or _is_needed(namespace, one.name, one.uid, known, looked) is not False
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
    if not remaining and _is_left_over(claim, known, looked):
        steps.append(DeleteClaim())
    return tuple(steps)


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


def _is_left_over(claim: ResourceClaim, known: Known, looked: Looked) -> bool:
    """Whether the claim was made for a pod that needs it no more. With a second owner the garbage collector decides."""
    owner = owning_pod(claim)
    if owner is None or claim.metadata.deletion_timestamp is not None:
        return False
    namespace = claim.metadata.namespace
    if _is_needed(namespace, owner.name, owner.uid, known, looked) is not False:
        return False
    pod = known.pod(namespace, owner.name) or looked.get(owner.name)
    is_there = pod is not None and pod.metadata.uid == owner.uid
    return is_there or len(claim.metadata.owner_references) == 1
