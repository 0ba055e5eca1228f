"""PostFilter: where no node does, a claim that holds devices of no use may give them back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dray.scheduler.claims import writes
from dray.scheduler.claims.extended import IN_MEMORY
from dray.scheduler.claims.groups import GroupClaim
from dray.scheduler.claims.outcome import Status, unresolvable, unschedulable
from dray.scheduler.claims.pod_claims import PodClaims


@dataclass(frozen=True, slots=True)
class PostFiltered:
    """`status` is what to say once the writes are done; a write that fails is said instead."""

    status: Status
    writes: tuple[writes.Write, ...] = ()


def post_filter(plan: PodClaims, unavailable: Iterable[int], idle: Sequence[GroupClaim] = ()) -> PostFiltered:
    """One claim at a time, the first of those that were unavailable on some node and that nobody else uses.

    `idle` are claims of the pod's group (see `idle_claims`): reserved for it no more, one is taken back the next time.
    The pod stays unschedulable: the change of the claim brings it back into the queue.
    """
    if not plan.claims:
        return PostFiltered(unschedulable("no new claims to deallocate"))
    for place in sorted(set(unavailable)):
        claim = plan.claims[place]
        users = {one.uid for one in claim.status.reserved_for}
        if place < plan.users and users <= {plan.pod.metadata.uid}:
            done = unschedulable("deallocation of ResourceClaim completed")
            return PostFiltered(done, (writes.deallocate(claim),))
    if plan.special is not None and plan.special.metadata.name != IN_MEMORY:
        done = unschedulable("deletion of ResourceClaim completed")
        return PostFiltered(done, writes.delete(plan.special))
    if idle:
        done = unresolvable("ResourceClaim unreserved for PodGroup")
        return PostFiltered(done, (writes.unreserve(idle[0].claim, idle[0].group_uid),))
    return PostFiltered(unschedulable("still not schedulable"))
