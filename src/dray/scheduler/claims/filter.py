"""Filter: whether a pod's claims can be served on a node, by the devices they have or by those that are free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dray.allocation.budget import UNLIMITED, Budget
from dray.allocation.faults import AllocationError, NodeAllocationError, StepLimitError
from dray.allocation.index.attempt import Attempt
from dray.allocation.index.index import digest_of
from dray.allocation.state import DeviceID
from dray.api.core.node import Node
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.claim_status import AllocationResult
from dray.scheduler.claims.conditions import readiness
from dray.scheduler.claims.extended import NOTHING, ForNode, for_served, served_on
from dray.scheduler.claims.node_resources import NodeRoom
from dray.scheduler.claims.outcome import SUCCESS, Code, Status, failure, unresolvable
from dray.scheduler.claims.pod_claims import NodeAllocation, PodClaims
from dray.scheduler.claims.settings import Settings
from dray.scheduler.claims.tracking import Tracker
from dray.scheduler.nodes import Nodes

CANNOT_ALLOCATE = unresolvable("cannot allocate all claims")
_UNAVAILABLE = unresolvable("resourceclaim not available on the node")


@dataclass(frozen=True, slots=True)
class NodeFilter:
    """One node's answer. `unavailable` are the places of allocated claims whose devices do not do here."""

    status: Status = SUCCESS
    unavailable: tuple[int, ...] = ()


_FITS = NodeFilter()


class Filter:
    """For one pod in one cycle. It asks the index, so looking at a node that is known costs little.

    The tracker may change meanwhile: answers that came before do not count for `reserve` any more, which asks again.
    """

    def __init__(
        self,
        plan: PodClaims,
        tracker: Tracker,
        settings: Settings,
        now: datetime,
        nodes: Nodes | None = None,
        *,
        budget: Budget | None = None,
        only: frozenset[DeviceID] | None = None,
        is_last: bool = False,
    ) -> None:
        """`nodes` is needed with the gate DRANodeAllocatableResources only: devices may take from what a node has left.

        `budget` is for all nodes together; with `is_last` nobody has more time than that, and a node that could not be
        judged is left out. `only` are the devices that may be taken, where they were chosen before.
        """
        self.plan = plan
        self.tracker = tracker
        self.budget = budget or UNLIMITED
        self._only = only
        self._is_last = is_last
        self._settings = settings
        self._room = NodeRoom(plan, tracker.catalogue.mappings, nodes, settings)
        self._lost = tuple(
            place
            for place, claim in enumerate(plan.claims)
            if claim.status.allocation is not None and readiness(claim, settings, now).is_lost
        )
        self._selective = tuple(
            (place, where) for place, where in enumerate(plan.available_on) if where is not None
        )
        self._places = self._asked_for(special=False)
        self._all_places = self._asked_for(special=True)
        self._attempts: dict[int | None, Attempt] = {}
        self._found: dict[tuple[str, ...] | None, ForNode] = {}
        self._revision = -1
        self._digest: bytes | None = None

    @property
    def digest(self) -> bytes:
        """Of what is asked for, without the special claim: the same for pods that ask for the same."""
        if self._digest is None:
            self._digest = digest_of([self.plan.claims[place] for place in self._places])
        return self._digest

    @property
    def overran(self) -> bool:
        """Whether who has more time should ask again: the budget ended, for all or for one node that nobody may leave out."""
        is_stopped = any(one.was_stopped for one in self._attempts.values())
        return self.budget.is_over or (is_stopped and not self._is_last)

    def feasible(self, nodes: Sequence[Node]) -> list[Node] | Status:
        """The nodes that do, in order; faster than `check` one by one, which says why others do not.

        A failure where a node ends the attempt for all. A node whose search took too long is left out.
        """
        if not (self.plan.special or self._selective or self._lost or self._room.counts):
            found = self._special(nodes[0]) if nodes else NOTHING
            try:
                return self._attempt(found).feasible(nodes) if self._places else list(nodes)
            except AllocationError as error:
                return failure(str(error))
        good = []
        for node in nodes:
            status = self.check(node).status
            if status.code is Code.ERROR:
                return status
            if status.is_success:
                good.append(node)
        return good

    def check(self, node: Node) -> NodeFilter:
        """Whether the node does. Devices are not chosen yet: most nodes are not taken."""
        found = self._special(node)
        if not found.status.is_success or (found.claim is None and not self.plan.users):
            return NodeFilter(found.status)
        places = self._unavailable_on(node)
        if self._room.counts and not (status := self._room.is_shared(node, places)).is_success:
            return NodeFilter(status)
        try:
            if self._asked(found) and not self._attempt(found).feasible((node,)):
                # Known by now; this only tells why.
                return NodeFilter(self._refusal(found, node))
        except AllocationError as error:
            return NodeFilter(failure(str(error)))
        if self._room.counts and isinstance(made := self.allocate(node), Status):
            return NodeFilter(made)
        return NodeFilter(_UNAVAILABLE, places) if places else _FITS

    def allocate(self, node: Node) -> NodeAllocation | Status:
        """The devices that the claims would get on a node that does."""
        found = self._special(node)
        if not found.status.is_success:
            return found.status
        places = self._asked(found)
        try:
            made = self._attempt(found).allocate(node) if places else None
        except (AllocationError, NodeAllocationError) as error:
            return self._status_of(node, error)
        if places and made is None:
            return CANNOT_ALLOCATE
        new = dict(zip(places, made.results if made else (), strict=True))
        told = self._room.taken(node, {**new, **self.plan.pending}) if self._room.counts else ()
        if isinstance(told, Status):
            return told
        return NodeAllocation(
            node.metadata.name,
            self._paired(new),
            found.claim,
            found.mappings,
            self.tracker.revision,
            told,
        )

    def claims_for(self, node: Node) -> Sequence[ResourceClaim]:
        """What the node is asked for, for an explanation."""
        return self._claims(self._special(node))

    def _special(self, node: Node) -> ForNode:
        if self.tracker.revision != self._revision:
            self._attempts.clear()
            self._found.clear()
            self._revision = self.tracker.revision
        if self.plan.special is None:
            return NOTHING
        class_of = self.tracker.catalogue.class_of
        served = served_on(self.plan, node, class_of)
        found = self._found.get(served)
        if found is None:
            found = self._found[served] = for_served(self.plan, self.plan.special, served, class_of)
        return found

    def _asked(self, found: ForNode) -> tuple[int, ...]:
        """The places of the claims that need devices."""
        return self._places if found.claim is None else self._all_places

    def _asked_for(self, *, special: bool) -> tuple[int, ...]:
        plan = self.plan
        return tuple(
            place
            for place in plan.unallocated
            if place not in plan.pending and (place < plan.users or special)
        )

    def _claims(self, found: ForNode) -> tuple[ResourceClaim, ...]:
        plan = self.plan
        return tuple(
            found.claim if place == plan.users and found.claim is not None else plan.claims[place]
            for place in self._asked(found)
        )

    def _attempt(self, found: ForNode) -> Attempt:
        """One for all nodes, but for the special claim, whose requests differ between nodes. `_found` keeps those alive."""
        key = id(found.claim) if found.claim is not None else None
        attempt = self._attempts.get(key)
        if attempt is None:
            digest = self.digest if found.claim is None and self._only is None else None
            attempt = self.tracker.index.attempt(
                self._claims(found), self.budget, only=self._only, digest=digest
            )
            self._attempts[key] = attempt
        return attempt

    def _refusal(self, found: ForNode, node: Node) -> Status:
        try:
            self._attempt(found).allocate(node)
        except NodeAllocationError as error:
            return self._status_of(node, error)
        return CANNOT_ALLOCATE

    def _status_of(self, node: Node, error: AllocationError | NodeAllocationError) -> Status:
        if isinstance(error, StepLimitError):
            return failure(f"node {node.metadata.name}: timed out trying to allocate devices ({error})")
        return unresolvable(str(error)) if isinstance(error, NodeAllocationError) else failure(str(error))

    def _unavailable_on(self, node: Node) -> tuple[int, ...]:
        if not self._selective:
            return self._lost
        labels, name = node.metadata.labels, node.metadata.name
        elsewhere = [place for place, where in self._selective if not where.matches(labels, name)]
        return tuple(sorted({*elsewhere, *self._lost}))

    def _paired(self, new: dict[int, AllocationResult]) -> dict[int, AllocationResult]:
        """Each claim with its result. With quirk Q17 the new ones go to the first claims, whosever they are."""
        pending = self.plan.pending
        places = sorted({*new, *pending})
        if self._settings.quirks.pending_last:
            return dict(zip(places, (*new.values(), *pending.values()), strict=True))
        both = {**new, **pending}
        return {place: both[place] for place in places}
