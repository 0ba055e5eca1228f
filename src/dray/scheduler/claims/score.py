"""Score: nodes where claims get the alternatives they like best come first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from dray.api.limits import MAX_FIRST_AVAILABLE
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.claim_status import AllocationResult
from dray.errors import InvariantError
from dray.scheduler.claims.pod_claims import PodClaims

MAX_NODE_SCORE: Final = 100


def needs_score(plan: PodClaims) -> bool:
    """Whether nodes can differ at all. If not, there is no reason to choose devices on more than one node."""
    return any(request.first_available for claim in plan.claims for request in claim.spec.devices.requests)


def score(claims: Sequence[ResourceClaim], results: Mapping[int, AllocationResult]) -> int:
    """Of one node, by what each claim holds, or gets there by its place. A first choice counts 8, an eighth 1."""
    total = 0
    for place, claim in enumerate(claims):
        allocation = claim.status.allocation or results.get(place)
        if allocation is None:
            raise InvariantError(f"claim {claim.metadata.name} has no allocation on a node that is scored")
        chosen = {one.request for one in allocation.devices.results}
        for request in claim.spec.devices.requests:
            for number, one in enumerate(request.first_available):
                if f"{request.name}/{one.name}" in chosen:
                    total += MAX_FIRST_AVAILABLE - number
    return total


def normalize(scores: Mapping[str, int]) -> dict[str, int]:
    """By node, so that the best gets 100. Where all have nothing, nothing changes."""
    most = max(scores.values(), default=0)
    if most <= 0:
        return dict(scores)
    return {node: MAX_NODE_SCORE * one // most for node, one in scores.items()}
