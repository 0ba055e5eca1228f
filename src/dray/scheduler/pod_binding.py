"""The last step of a decision: the pod gets its node, if nobody has taken back what it was decided with.

All claims were written to after the pod was read, and it is bound only if it is still the same: see `taking_back`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dray.api.core import Pod
from dray.api.resource.claim import ResourceClaim
from dray.errors import ConflictError, NotFoundError, UnavailableError
from dray.scheduler.claims import writes
from dray.scheduler.claims.extended import IN_MEMORY
from dray.scheduler.claims.resolve import full_name
from dray.scheduler.claims.tracking import has_same_devices
from dray.scheduler.decision import Placed
from dray.scheduler.writing import Patience, Writer
from dray.semantics.claims import is_reserved_for_pod


@dataclass(slots=True)
class Attempt:
    """One decision on its way. `pod` is as it was before its claims were written, or as our own writes have left that.

    By place: `claims` as they were stored last, `reserved` those that this try has reserved, and `sure` those that
    were written to after `pod` was read.
    """

    placed: Placed
    pod: Pod
    claims: dict[int, ResourceClaim] = field(default_factory=dict)
    reserved: set[int] = field(default_factory=set)
    sure: set[int] = field(default_factory=set)

    def stored(self) -> Iterator[tuple[int, ResourceClaim]]:
        """All claims of the pod, in order, as far as is known."""
        if self.placed.reserved is not None:
            for place, claim in enumerate(self.placed.reserved.plan.claims):
                known = self.claims.get(place, claim)
                if known.metadata.name != IN_MEMORY:
                    yield place, known


async def bind_pod(writer: Writer, attempt: Attempt) -> None:
    """Errors as those of `Writer.bind`. ConflictError also where a claim is not any more what was decided on."""
    placed, patience = attempt.placed, Patience(writer.clock)
    if placed.reserved is None:
        await writer.bind(placed.pod, placed.node)
        return
    while True:
        for place, claim in attempt.stored():
            # What is reserved for the pod's group is not taken back for the sake of one pod.
            if place not in attempt.sure and is_reserved_for_pod(claim, attempt.pod):
                attempt.claims[place] = await _confirmed(writer, attempt, claim)
                attempt.sure.add(place)
        try:
            await writer.bind(attempt.pod, placed.node, is_exact=True)
        except ConflictError as error:
            attempt.pod = await _still_waiting(writer, attempt, error)
            attempt.sure.clear()
            await patience.wait(error)
            continue
        return


async def _confirmed(writer: Writer, attempt: Attempt, claim: ResourceClaim) -> ResourceClaim:
    """The claim in a new version, with the devices it had and the pod as a user."""
    patience, found = Patience(writer.clock), claim
    while True:
        try:
            return await writer.send_claim(writes.confirm(found))
        except (ConflictError, UnavailableError) as error:
            await patience.wait(error)
        try:
            found = await writer.read_claim(claim)
        except NotFoundError:
            raise ConflictError(f"claim {full_name(claim)} got deleted in the meantime") from None
        is_same = found.metadata.uid == claim.metadata.uid and found.metadata.deletion_timestamp is None
        if not is_same or not has_same_devices(found.status.allocation, claim.status.allocation):
            raise ConflictError(f"claim {full_name(claim)} got other devices in the meantime")
        if not is_reserved_for_pod(found, attempt.pod):
            raise ConflictError(f"claim {full_name(claim)} is not reserved for the pod any more")


async def _still_waiting(writer: Writer, attempt: Attempt, error: ConflictError) -> Pod:
    """The pod as it is now, if it can still be bound as it was decided; otherwise the error."""
    reserved = attempt.placed.reserved
    try:
        live = await writer.read_pod(attempt.pod)
    except NotFoundError:
        raise error from None
    is_same = live.metadata.resource_version == attempt.pod.metadata.resource_version
    if is_same or live.spec.node_name or live.metadata.deletion_timestamp is not None:
        raise error
    if reserved is None:
        return live
    told = live.status.node_allocatable_resource_claim_statuses
    if reserved.node_resources and told != reserved.node_resources:
        raise ConflictError("another scheduler told what the pod's devices take from a node")
    status, special = live.status.extended_resource_claim_status, attempt.claims.get(reserved.plan.users)
    if special is not None and (status is None or status.resource_claim_name != special.metadata.name):
        raise ConflictError("another scheduler made a claim for the pod's extended resources")
    return live
