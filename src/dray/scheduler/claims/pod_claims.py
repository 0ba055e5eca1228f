"""One pod's claims through one scheduling cycle: what PreFilter finds out and every later step reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dray.api.core.pod import ContainerExtendedResourceRequest, Pod
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.claim_status import AllocationResult
from dray.api.selectors.nodes import NodeMatcher


@dataclass(frozen=True, slots=True)
class PodClaims:
    """The pod's claims in its order and, after the first `users` of them, at most one special claim: that for
    extended resources, which exists in memory only unless an earlier cycle left it behind.

    `available_on` has for each claim where its devices can be used (None: anywhere, or not allocated yet). `pending` are
    allocations in flight that this pod shares, by the claim's place. `wanted` are the pod's extended resources.
    """

    pod: Pod
    claims: tuple[ResourceClaim, ...] = ()
    users: int = 0
    available_on: tuple[NodeMatcher | None, ...] = ()
    pending: Mapping[int, AllocationResult] = field(default_factory=dict)
    wanted: Mapping[str, int] = field(default_factory=dict)

    @property
    def special(self) -> ResourceClaim | None:
        """The claim for extended resources."""
        return self.claims[self.users] if len(self.claims) > self.users else None

    @property
    def unallocated(self) -> tuple[int, ...]:
        """The places of the claims that have no allocation yet."""
        return tuple(place for place, one in enumerate(self.claims) if one.status.allocation is None)


@dataclass(frozen=True, slots=True)
class NodeAllocation:
    """What the claims get on one node: results by the claim's place. Good while the tracker's revision is the same.

    `special` is the special claim with its requests for this node, None where device plugins serve everything here.
    """

    node: str
    results: Mapping[int, AllocationResult]
    special: ResourceClaim | None = None
    mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    revision: int = 0
