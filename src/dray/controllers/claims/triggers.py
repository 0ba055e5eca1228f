"""Which keys a change asks to look at. Pure; too many only cost a look, too few would leave work undone."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from dray.api.core import Pod
from dray.api.scheduling import PodGroup
from dray.controllers.claims.group_plan import lacks_something
from dray.controllers.claims.known import Known
from dray.controllers.claims.membership import group_with
from dray.controllers.claims.pod_plan import needs_reservation
from dray.controllers.claims.steps import ClaimPolicy
from dray.controllers.done_pods import is_done
from dray.semantics.claims import ClaimName, NoClaim, claim_for_entry, claim_names, is_for_pod

_DEFAULT: Final = ClaimPolicy()


class Work(NamedTuple):
    """One pod, claim or PodGroup to look at."""

    kind: Literal["pod", "claim", "podgroup"]
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.namespace}/{self.name}"


def keys_for_pod(
    pod: Pod, known: Known, policy: ClaimPolicy = _DEFAULT, *, is_gone: bool = False
) -> tuple[Work, ...]:
    """After a change of the pod, or of anything it names: its claims once it needs them no more, itself where it lacks one."""
    namespace = pod.metadata.namespace
    if is_gone or is_done(pod):
        # Owned ones too: whoever made it may have died before the pod's status named it.
        owned = {claim.metadata.name for claim in known.owned(pod.metadata.uid)}
        return tuple(Work("claim", namespace, name) for name in sorted({*claim_names(pod), *owned}))
    if pod.metadata.deletion_timestamp is None and _lacks_something(pod, known, policy):
        return (Work("pod", namespace, pod.metadata.name),)
    return ()


def keys_for_group(group: PodGroup, known: Known, *, is_gone: bool = False) -> tuple[Work, ...]:
    """As `keys_for_pod`. Its pods are the caller's business: they may have to record what the group has by now."""
    meta = group.metadata
    if is_gone:
        owned = {claim.metadata.name for claim in known.owned(meta.uid)}
        names = sorted({*claim_names(group), *owned})
        return tuple(Work("claim", meta.namespace, name) for name in names)
    if meta.deletion_timestamp is None and lacks_something(group, known):
        return (Work("podgroup", meta.namespace, meta.name),)
    return ()


def _lacks_something(pod: Pod, known: Known, policy: ClaimPolicy) -> bool:
    for entry in pod.spec.resource_claims:
        found = claim_for_entry(pod, entry)
        if not isinstance(found, ClaimName):
            if found is NoClaim.NOT_NEEDED:
                continue
            return True
        claim = known.claim(pod.metadata.namespace, found.name)
        if found.from_template and (
            claim is None or not is_for_pod(claim, pod, pod_groups=policy.workload_claims)
        ):
            if claim is None and group_with(pod, entry, known, policy) is not None:
                continue  # the group gets a new one
            return True
        if claim is not None and pod.spec.node_name and needs_reservation(claim, pod, policy):
            return True
    return False
