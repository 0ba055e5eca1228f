"""One pod's claims, asked for any number of nodes with what the index knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from dray.allocation.allocator import PLANNING, AllDevices, Allocation
from dray.allocation.bounds import Bounds
from dray.allocation.budget import UNLIMITED, Budget, Spending
from dray.allocation.constraints import constraints_of
from dray.allocation.faults import AllocationError, NodeAllocationError, TimeLimitError
from dray.allocation.index.matches import Matcher
from dray.allocation.index.view import NodeCandidates, NodeCounters, NodeLedger, NodeView
from dray.allocation.ledger import bits
from dray.allocation.requests import Everything, PlannedClaim, Planner
from dray.allocation.results import build_result
from dray.allocation.search import Search
from dray.allocation.state import DeviceID
from dray.api.core.node import Node
from dray.api.resource.claim import ALL, ResourceClaim

if TYPE_CHECKING:
    from dray.allocation.index.index import Index

_FEW: Final = 8
"""So many requests are counted on a node without a look at the clock: there are many nodes."""

Verdicts = dict[int, bool]
"""By the identity of a node, which its view holds: whether the claims fit there. Never where there was an error."""


class Attempt:
    """Answers as an `Allocator` does. `feasible` leaves out what is known or can be counted.

    A search whose time was over is not begun again: asked once more, the node gives the same error.
    """

    def __init__(
        self,
        index: Index,
        claims: Sequence[ResourceClaim],
        verdicts: Verdicts,
        budget: Budget | None = None,
        only: frozenset[DeviceID] | None = None,
    ) -> None:
        """With `only` no other devices are taken, and nothing is kept for other attempts."""
        self._budget = budget or UNLIMITED
        self._only = only
        self._stopped: dict[int, TimeLimitError] = {}
        self._has_more = False
        self._index = index
        self._claims = claims
        self._verdicts = verdicts
        self.has_all = False
        self._plan: tuple[PlannedClaim, ...] = ()
        self._fault: AllocationError | TimeLimitError | None = None
        try:
            self.has_all = self._asks_for_all()
            if not self.has_all:
                self._plan = self.plan(lambda request: ())
        except (AllocationError, TimeLimitError) as error:
            self._fault = error
        self._is_bound = any(claim.spec.devices.constraints for claim in claims)
        self._has_capacity = index.rules.has_capacity
        self._known_countable: tuple[_Countable, ...] | None = None

    def _asks_for_all(self) -> bool:
        for claim in self._claims:
            self._budget.charge(1 + len(claim.spec.devices.requests))
            if _asks_for_all(claim):
                return True
        return False

    def allocate(self, node: Node) -> Allocation | None:
        """As `Allocator.allocate`, with its errors."""
        view = self._index.view(node)
        if self._fault is not None:
            raise self._fault.with_traceback(None)
        if self._stopped and (stopped := self._stopped.get(id(node))) is not None:
            raise stopped.with_traceback(None)
        self._index.selectors.budget = self._budget
        try:
            fits = self._verdicts.get(id(node))
            if fits is None and self._only is None:
                fits = self._count(view)
            return _nothing(view) if fits is False else self._search(view)
        except TimeLimitError as error:
            self._stopped[id(node)] = error
            raise
        finally:
            self._index.selectors.budget = None

    def _search(self, view: NodeView) -> Allocation | None:
        node = view.node
        call = NodeCall(self, view, self._part())
        search = Search(call.plan, call.candidates, call.ledger, call.bounds, self._index.options.step_limit)
        if not search.run():
            self._verdicts[id(node)] = False
            return _nothing(view)
        chosen = search.chosen()
        results = [
            build_result(planned, picks, chosen, node, self._index.rules, self._index.new_share_id)
            for planned, picks in zip(call.plan, call.ledger.picks, strict=True)
        ]
        # Not before: devices that fit may still have node selectors that no result can hold.
        self._verdicts[id(node)] = True
        return Allocation(tuple(results), search.steps)

    def _part(self) -> Budget:
        """For one node. While others wait for their turn it gets half of what is left: one that takes all the time there is
        must not keep us from those that take none."""
        seconds, budget = self._index.options.seconds, self._budget
        if budget is UNLIMITED:
            return budget
        return budget.part(min(seconds, budget.left / 2) if self._has_more else seconds)

    def feasible(self, nodes: Sequence[Node]) -> list[Node]:
        """The nodes where the claims fit, in order. Raises AllocationError as soon as a node does."""
        verdicts = self._verdicts
        found = []
        for node in nodes:
            fits = verdicts.get(id(node))
            if fits is None:
                self._has_more = node is not nodes[-1]
                fits = self._judge(node)
            if fits:
                found.append(node)
        self._has_more = False
        return found

    def plan(self, everything: Everything) -> tuple[PlannedClaim, ...]:
        """The claims resolved; claims and their constraints are checked in Kubernetes' order."""
        rules = self._index.rules
        planner = Planner(rules.features, rules.tier, self._index.classes, everything)
        plan = []
        for number, claim in enumerate(self._claims):
            asked = claim.spec.devices
            self._budget.charge(PLANNING * (len(asked.requests) + len(asked.constraints)))
            plan.append(planner.plan(number, claim))
            if claim.spec.devices.constraints:
                constraints_of(claim, rules.features, rules.tier, rules.profile)
        return tuple(plan)

    @property
    def claims(self) -> Sequence[ResourceClaim]:
        """What is asked for."""
        return self._claims

    @property
    def was_stopped(self) -> bool:
        """Whether the time ended before some node could be judged."""
        return bool(self._stopped)

    @property
    def only(self) -> frozenset[DeviceID] | None:
        """The devices that may be taken; None for all."""
        return self._only

    @property
    def shared_plan(self) -> tuple[PlannedClaim, ...]:
        """The plan for every node; empty where a request is for all devices, which are others on each."""
        return self._plan

    def _judge(self, node: Node) -> bool:
        view = self._index.view(node)
        if self._fault is None and self._only is None:
            self._index.selectors.budget = self._budget
            try:
                fits = self._count(view)
            except TimeLimitError as error:
                self._stopped[id(node)] = error
                return False
            finally:
                self._index.selectors.budget = None
            if fits is not None:
                self._verdicts[id(node)] = fits
                return fits
        try:
            return self.allocate(node) is not None
        except NodeAllocationError:
            return False

    def _countable(self) -> tuple[_Countable, ...]:
        """The requests, if counting may tell that they do not fit: fixed numbers of devices and no alternatives."""
        requests = [one for claim in self._plan for requests in claim.requests for one in requests]
        if any(one.parent or (self._has_capacity and one.wish.capacity is not None) for one in requests):
            return ()
        of = self._index.matchers.of
        return tuple([_Countable(of(one), one.count, one.is_admin) for one in requests])

    def _count(self, view: NodeView) -> bool | None:
        """Whether the claims fit, as far as the numbers of devices left tell and no error is possible; else None."""
        countable = self._known_countable
        if countable is None:
            countable = self._known_countable = self._countable()
        if len(countable) > _FEW:
            self._budget.charge(len(countable))
        free = 0
        is_short = False
        for matcher, number, is_admin in countable:
            accepted, failed, free = view.chances(matcher, self._budget)
            if failed or (self._has_capacity and accepted & (view.partial | view.holding)):
                return None
            if not is_admin:
                free &= ~view.in_use
            is_short = is_short or free.bit_count() < number
        if is_short:
            return False
        if len(countable) != 1 or self._is_bound or view.may_lack_result:
            return None
        return True if not free & view.consuming else self._count_one(view, countable[0].number, free)

    def _count_one(self, view: NodeView, number: int, free: int) -> bool | None:
        """As `_count`, for the one request there is, where counters may stand in the way."""
        if number != 1:
            return None
        counters = NodeCounters(view)
        for slot in bits(free):
            one = view.devices[slot]
            if one.is_shareable:
                return None
            if not one.device.consumes_counters or counters.take(one):
                return True
        return False


class _Countable(NamedTuple):
    matcher: Matcher
    number: int
    is_admin: bool


class NodeCall:
    """What one question works with, from the view of a node; see `Call`."""

    def __init__(self, attempt: Attempt, view: NodeView, budget: Spending) -> None:
        rules, claims = view.rules, attempt.claims
        self.candidates = NodeCandidates(view, budget)
        if attempt.has_all:
            empty = NodeLedger(view, [()] * len(claims))
            self.plan = attempt.plan(AllDevices(view.pools, self.candidates, empty, rules, budget).of)
        else:
            self.plan = attempt.shared_plan
        budget.charge(len(claims) + PLANNING * sum(len(claim.spec.devices.constraints) for claim in claims))
        constraints = [
            constraints_of(claim, rules.features, rules.tier, rules.profile)
            if claim.spec.devices.constraints
            else ()
            for claim in claims
        ]
        self.ledger = NodeLedger(view, constraints, attempt.only)
        self.bounds = Bounds(self.plan, self.candidates, self.ledger, constraints, rules, budget)


def _nothing(view: NodeView) -> Allocation | None:
    """The answer where the search found nothing."""
    if view.is_invalid:
        raise NodeAllocationError("invalid resource pools were encountered")
    return None


def _asks_for_all(claim: ResourceClaim) -> bool:
    return any(
        wish is not None and wish.allocation_mode == ALL
        for request in claim.spec.devices.requests
        for wish in (request.exactly, *request.first_available)
    )
