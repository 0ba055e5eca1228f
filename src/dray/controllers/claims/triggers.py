"""Which keys a change asks to look at. Pure; too many only cost a look, too few would leave work undone."""

from __future__ import annotations

from typing import Literal, NamedTuple

from dray.api.core import Pod
from dray.controllers.claims.known import Known
from dray.controllers.claims.pod_plan import needs_reservation
from dray.controllers.pod_claims import claim_names, is_done, is_for, meant


class Work(NamedTuple):
    """One pod or one claim to look at."""

    kind: Literal["pod", "claim"]
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.namespace}/{self.name}"


def keys_for_pod(pod: Pod, known: Known, *, is_gone: bool = False) -> tuple[Work, ...]:
    """After a change of the pod, or of anything it names: its claims once it needs them no more, itself where it lacks one."""
    namespace = pod.metadata.namespace
    if is_gone or is_done(pod):
        # Owned ones too: whoever made it may have died before the pod's status named it.
        owned = {claim.metadata.name for claim in known.owned(pod.metadata.uid)}
        return tuple(Work("claim", namespace, name) for name in sorted({*claim_names(pod), *owned}))
    if pod.metadata.deletion_timestamp is None and _lacks_something(pod, known):
        return (Work("pod", namespace, pod.metadata.name),)
    return ()


def _lacks_something(pod: Pod, known: Known) -> bool:
    for entry in pod.spec.resource_claims:
        found = meant(pod, entry)
        if found is None or not found.is_recorded:
            return True
        if found.name is None:
            continue
        claim = known.claim(pod.metadata.namespace, found.name)
        if found.from_template and (claim is None or not is_for(claim, pod)):
            return True
        if claim is not None and pod.spec.node_name and needs_reservation(claim, pod):
            return True
    return False
