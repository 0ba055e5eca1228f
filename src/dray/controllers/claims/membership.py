"""What a pod has from its PodGroup: with the gate on, an entry that the group has too means the group's claim. Pure."""

from __future__ import annotations

from dray.api.core import Pod
from dray.api.core.pod import PodResourceClaim
from dray.api.scheduling import PodGroup
from dray.controllers.claims.known import Known
from dray.controllers.claims.steps import ClaimPolicy
from dray.semantics.claims import group_name, is_group_claim


def lacks_group(pod: Pod, known: Known, policy: ClaimPolicy) -> bool:
    """Whether nobody can tell yet which of the pod's claims are its group's. It is looked at again when the group comes."""
    name = group_name(pod) if policy.workload_claims else None
    return name is not None and known.group(pod.metadata.namespace, name) is None


def group_with(pod: Pod, entry: PodResourceClaim, known: Known, policy: ClaimPolicy) -> PodGroup | None:
    """The pod's group, where the entry means a claim of it."""
    name = group_name(pod) if policy.workload_claims else None
    group = known.group(pod.metadata.namespace, name) if name is not None else None
    return group if group is not None and is_group_claim(group, entry) else None
