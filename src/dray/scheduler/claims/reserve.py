"""Reserve and Unreserve: the chosen node's devices go in flight, so that no other pod gets them; or they are let go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from dray.api.core.node import Node
from dray.api.core.pod import ContainerExtendedResourceRequest, NodeAllocatableResourceClaimStatus, Pod
from dray.api.limits import CLAIM_FINALIZER
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.claim_status import AllocationResult
from dray.scheduler.claims import writes
from dray.scheduler.claims.extended import IN_MEMORY
from dray.scheduler.claims.filter import Filter
from dray.scheduler.claims.outcome import Status, failure
from dray.scheduler.claims.pod_claims import NodeAllocation, PodClaims
from dray.scheduler.claims.resolve import full_name
from dray.scheduler.claims.tracking import Tracker
from dray.semantics.claims import is_reserved_for_pod

LINGER: Final = 120.0
"""Seconds: how long a write without an answer may still be stored, and how far the informer may be behind at most."""


@dataclass(frozen=True, slots=True)
class Reserved:
    """What is in flight for a pod on its way to a node: allocations by the claim's place."""

    plan: PodClaims
    node: str
    allocations: Mapping[int, AllocationResult] = field(default_factory=dict)
    special: ResourceClaim | None = None
    mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    node_resources: tuple[NodeAllocatableResourceClaimStatus, ...] = ()

    @property
    def placed(self) -> Pod:
        """The pod as it counts on its node from now on, with what its devices take there."""
        pod = self.plan.pod
        spec = msgspec.structs.replace(pod.spec, node_name=self.node)
        if self.node_resources == pod.status.node_allocatable_resource_claim_statuses:
            return msgspec.structs.replace(pod, spec=spec)
        status = msgspec.structs.replace(
            pod.status, node_allocatable_resource_claim_statuses=self.node_resources
        )
        return msgspec.structs.replace(pod, spec=spec, status=status)


def reserve(asked: Filter, node: Node, allocation: NodeAllocation | None = None) -> Reserved | Status:
    """Devices for the pod on this node. An allocation that scoring made is taken if nothing has changed since."""
    plan, tracker = asked.plan, asked.tracker
    if allocation is None or allocation.revision != tracker.revision:
        found = asked.allocate(node)
        if isinstance(found, Status):
            return found
        allocation = found
    held: list[ResourceClaim] = []
    for place, result in allocation.results.items():
        claim = plan.claims[place]
        if place == plan.users and allocation.special is not None:
            claim = allocation.special
        claim = _with_allocation(claim, result)
        if not tracker.signal(claim, plan.pod.metadata.uid):
            _let_go(tracker, held, plan.pod)
            return failure(f"claim {full_name(claim)} got allocated elsewhere in the meantime")
        held.append(claim)
    return Reserved(
        plan,
        node.metadata.name,
        allocation.results,
        allocation.special,
        allocation.mappings,
        allocation.node_resources,
    )


def unreserve(
    reserved: Reserved, claims: Sequence[ResourceClaim], tracker: Tracker, now: float
) -> tuple[writes.Write, ...]:
    """The pod does not get to the node. `claims` are the plan's as they are by now: PreBind may have written some.

    `now` is monotonic. What is reserved for the pod's group stays so: other pods of it may need the claim. PostFilter
    gives it back.
    A second call changes nothing, and its writes do no harm.
    """
    plan, pod = reserved.plan, reserved.plan.pod
    for place in reserved.allocations:
        if claims[place].status.allocation is not None:
            tracker.store(plan.claims[place].metadata.uid, claims[place], now + LINGER)
        else:
            _let_go(tracker, (plan.claims[place],), pod)
    found = [
        writes.unreserve(claim, pod.metadata.uid)
        for claim in claims[: plan.users]
        if claim.status.allocation is not None and is_reserved_for_pod(claim, pod)
    ]
    special = claims[plan.users] if plan.special is not None else None
    if special is not None and special.metadata.name != IN_MEMORY:
        found += writes.delete(special)
    if reserved.node_resources:
        found.append(writes.tell_node_resources(pod, ()))
    return tuple(found)


def _let_go(tracker: Tracker, claims: Sequence[ResourceClaim], pod: Pod) -> None:
    for claim in claims:
        if tracker.release(claim.metadata.uid, pod.metadata.uid):
            tracker.restore(claim.metadata.namespace, claim.metadata.name)


def _with_allocation(claim: ResourceClaim, allocation: AllocationResult) -> ResourceClaim:
    """As it will be stored."""
    meta, status = claim.metadata, msgspec.structs.replace(claim.status, allocation=allocation)
    if CLAIM_FINALIZER not in meta.finalizers:
        meta = msgspec.structs.replace(meta, finalizers=(*meta.finalizers, CLAIM_FINALIZER))
    return msgspec.structs.replace(claim, metadata=meta, status=status)
