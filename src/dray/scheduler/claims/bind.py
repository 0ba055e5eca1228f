"""PreBind: a reserved allocation gets to the API server, write by write.

For each of `bindings(reserved)` the cycle asks `next_step` with the claim as it was last read, sends the write, and asks
again with the answer (after a conflict: with the claim read anew), until there is no write left. Then exactly one of
`note_bound`, `note_failed` and `note_error` tells the tracker how it ended. A cycle that is cancelled while a write is
under way says `note_error` with an UnavailableError.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import msgspec

from dray.api.core.pod import ContainerExtendedResourceRequest, Pod
from dray.api.limits import CLAIM_FINALIZER
from dray.api.meta import to_time
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.claim_status import AllocationResult
from dray.errors import Error, ProtocolError, UnavailableError
from dray.scheduler.claims import writes
from dray.scheduler.claims.extended import IN_MEMORY
from dray.scheduler.claims.outcome import SUCCESS, Status, failure
from dray.scheduler.claims.pod_claims import PodClaims
from dray.scheduler.claims.reserve import LINGER, Reserved
from dray.scheduler.claims.resolve import full_name
from dray.scheduler.claims.settings import Settings
from dray.scheduler.claims.tracking import Tracker, has_same_devices, version_of


@dataclass(frozen=True, slots=True)
class ClaimBinding:
    """One claim to write. `allocation` is None where it has its devices and only gets one more user.

    `mappings` are there for the special claim, of which the pod's status tells.
    """

    plan: PodClaims
    place: int
    claim: ResourceClaim
    allocation: AllocationResult | None = None
    mappings: tuple[ContainerExtendedResourceRequest, ...] = ()

    @property
    def pod(self) -> Pod:
        """For which the claim is bound."""
        return self.plan.pod


@dataclass(frozen=True, slots=True)
class Step:
    """Send `write`; or, without one, it is over: bound where the status is success."""

    write: writes.Write | None = None
    status: Status = SUCCESS


def has_work(plan: PodClaims) -> bool:
    """PreBindPreFlight: whether PreBind has anything to do. If so, it may run beside other plugins."""
    return bool(plan.claims)


def bindings(reserved: Reserved) -> tuple[ClaimBinding, ...]:
    """The claims that the pod does not use yet, in order."""
    plan, found = reserved.plan, []
    for place, claim in enumerate(plan.claims):
        is_special = place == plan.users
        if plan.may_use(claim) or (is_special and reserved.special is None):
            continue
        mine = reserved.special if is_special and reserved.special is not None else claim
        mappings = reserved.mappings if is_special else ()
        found.append(ClaimBinding(plan, place, mine, reserved.allocations.get(place), mappings))
    return tuple(found)


def next_step(binding: ClaimBinding, claim: ResourceClaim, settings: Settings, now: datetime) -> Step:
    """What to do with the claim as it is. It begins with `binding.claim`, as the tracker knows it."""
    if claim.metadata.name == IN_MEMORY:
        return Step(writes.create(claim))
    name, allocation, stored = full_name(claim), binding.allocation, claim.status.allocation
    is_other = binding.claim.metadata.name != IN_MEMORY and claim.metadata.uid != binding.claim.metadata.uid
    if claim.metadata.deletion_timestamp is not None or is_other:
        return Step(status=failure(f"claim {name} got deleted in the meantime"))
    if allocation is None and stored is None:
        return Step(status=failure(f"claim {name} got deallocated elsewhere in the meantime"))
    # The same devices as were decided on mean that our own write was stored and only its answer was lost; or, where the
    # claim had them before, that nobody freed it and gave it others, which the node may not reach.
    decided = allocation if allocation is not None else binding.claim.status.allocation
    if stored is not None and not has_same_devices(stored, decided):
        return Step(status=failure(f"claim {name} got allocated elsewhere in the meantime"))
    if stored is None and CLAIM_FINALIZER not in claim.metadata.finalizers:
        return Step(writes.add_finalizer(claim))
    if stored is not None and binding.plan.may_use(claim):
        return Step()
    new = _stamped(allocation, settings, now) if stored is None else None
    return Step(writes.allocate_and_reserve(claim, new, binding.plan.consumer(binding.place)))


def last_write(binding: ClaimBinding, claim: ResourceClaim) -> writes.Write | None:
    """What is to be written when the claim is bound: the pod's status tells of its special claim."""
    return writes.tell_pod(binding.pod, claim, binding.mappings) if binding.mappings else None


def pod_write(reserved: Reserved) -> writes.Write | None:
    """What is to be written when all claims are bound, before the devices are waited for: what they take from the node."""
    told = reserved.node_resources
    return writes.tell_node_resources(reserved.plan.pod, told) if told else None


def note_bound(tracker: Tracker, binding: ClaimBinding, claim: ResourceClaim, now: float) -> None:
    """The server has the claim as it is given here. `now` is monotonic."""
    if binding.allocation is None:
        tracker.assume(claim)
    else:
        tracker.store(binding.claim.metadata.uid, claim, now + LINGER)


def note_failed(tracker: Tracker, binding: ClaimBinding) -> None:
    """The allocation was not stored, for sure. `unreserve` follows."""
    if binding.allocation is not None:
        tracker.release(binding.claim.metadata.uid, binding.pod.metadata.uid)


def note_error(
    tracker: Tracker,
    binding: ClaimBinding,
    claim: ResourceClaim,
    write: writes.Write,
    error: Error,
    now: float,
) -> None:
    """A write, based on this claim, ended with an error that is not tried again. `unreserve` follows.

    Where the write carried the allocation and had no proper answer, it may still be stored. `now` is monotonic.
    """
    has_answer = not isinstance(error, UnavailableError | ProtocolError)
    if binding.allocation is None or has_answer or not write.carries_allocation:
        note_failed(tracker, binding)
        return
    is_special = binding.claim.metadata.name == IN_MEMORY
    tracker.linger(
        binding.claim.metadata.uid,
        now + LINGER,
        version=version_of(claim),
        successor=claim if is_special else None,
    )


def _stamped(
    allocation: AllocationResult | None, settings: Settings, now: datetime
) -> AllocationResult | None:
    """With the time from which the devices' binding conditions are waited for. A stored allocation cannot get it any
    more: it must not change."""
    if allocation is None or not settings.has_binding_conditions:
        return allocation
    return msgspec.structs.replace(allocation, allocation_timestamp=to_time(now))
