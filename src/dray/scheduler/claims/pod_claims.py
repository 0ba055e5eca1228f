"""One pod's claims through one scheduling cycle: what PreFilter finds out and every later step reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dray.api.core.pod import ContainerExtendedResourceRequest, NodeAllocatableResourceClaimStatus, Pod
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.claim_status import AllocationResult, ResourceClaimConsumerReference
from dray.api.selectors.nodes import NodeMatcher
from dray.semantics.claims import consumer_of, is_reserved_for_pod


@dataclass(frozen=True, slots=True)
class PodClaims:
    """The pod's claims in its order and, after the first `users` of them, at most one special claim: that for
    extended resources, which exists in memory only unless an earlier cycle left it behind.

    `available_on` has for each claim where its devices can be used (None: anywhere, or not allocated yet). `pending` are
    allocations in flight that this pod shares, by the claim's place. `wanted` are the pod's extended resources. `entries`
    has the names under which the pod's containers know the claims. With the gate of PodGroups, `consumers` has for each
    claim of the pod who becomes its user, the pod or its group.
    """

    pod: Pod
    claims: tuple[ResourceClaim, ...] = ()
    users: int = 0
    available_on: tuple[NodeMatcher | None, ...] = ()
    pending: Mapping[int, AllocationResult] = field(default_factory=dict)
    wanted: Mapping[str, int] = field(default_factory=dict)
    entries: tuple[str, ...] = ()
    consumers: tuple[ResourceClaimConsumerReference, ...] = ()

    @property
    def special(self) -> ResourceClaim | None:
        """The claim for extended resources."""
        return self.claims[self.users] if len(self.claims) > self.users else None

    def consumer(self, place: int) -> ResourceClaimConsumerReference:
        """Whom the claim in this place gets reserved for."""
        return self.consumers[place] if place < len(self.consumers) else consumer_of(self.pod)

    def may_use(self, claim: ResourceClaim) -> bool:
        """Whether the claim is reserved for the pod already, or for its group where that counts."""
        return is_reserved_for_pod(claim, self.pod, pod_groups=bool(self.consumers))

    @property
    def unallocated(self) -> tuple[int, ...]:
        """The places of the claims that have no allocation yet."""
        return tuple(place for place, one in enumerate(self.claims) if one.status.allocation is None)


@dataclass(frozen=True, slots=True)
class NodeAllocation:
    """What the claims get on one node: results by the claim's place. Good while the tracker's revision is the same.

    `special` is the special claim with its requests for this node, None where device plugins serve everything here.
    `node_resources` is what the devices take from the node's CPU, memory and the like, by claim.
    """

    node: str
    results: Mapping[int, AllocationResult]
    special: ResourceClaim | None = None
    mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    revision: int = 0
    node_resources: tuple[NodeAllocatableResourceClaimStatus, ...] = ()
