"""The allocator: claims and a node in, devices out. Pure and deterministic, given how share IDs are made."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final
from uuid import uuid4

from dray.allocation.bounds import Bounds
from dray.allocation.budget import UNLIMITED, Budget, Spending
from dray.allocation.candidates import Candidate, Candidates, CandidatesFor, DeviceList, Selectors, devices_of
from dray.allocation.constraints import constraints_of
from dray.allocation.faults import AllocationError, NodeAllocationError
from dray.allocation.features import NO_FEATURES, Features, Tier
from dray.allocation.features import tier as tier_of
from dray.allocation.ledger import Ledger
from dray.allocation.pools import Pool, Slices, gather_pools
from dray.allocation.profiles import CORRECT, Profile
from dray.allocation.requests import PlannedClaim, Planner, Request
from dray.allocation.results import NewShareID, build_result
from dray.allocation.search import STEP_LIMIT, Search
from dray.allocation.state import AllocatedState, Rules
from dray.api.core.node import Node
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.claim_status import AllocationResult
from dray.api.resource.device_class import DeviceClass
from dray.api.resource.slice import ResourceSlice


@dataclass(frozen=True, slots=True)
class Allocation:
    """What fits: one result per claim, in the order of the claims. `steps` is the work it took."""

    results: tuple[AllocationResult, ...]
    steps: int = 0


@dataclass(frozen=True, slots=True)
class Options:
    """How an allocator behaves. `tier` None means the one that Kubernetes would pick for the features."""

    features: Features = NO_FEATURES
    profile: Profile = CORRECT
    tier: Tier | None = None
    step_limit: int = STEP_LIMIT
    seconds: float = inf
    """For one node, where the question comes with a budget that has a clock."""


class Allocator:
    """A snapshot of the cluster, asked for any number of nodes. It keeps nothing between questions.

    `candidates` makes the search's view of a node; without it selectors are evaluated device by device. `budget` is for
    questions that come without one of their own.
    """

    def __init__(
        self,
        options: Options,
        *,
        allocated: AllocatedState,
        classes: Iterable[DeviceClass],
        slices: Iterable[ResourceSlice],
        selectors: Selectors,
        new_share_id: NewShareID | None = None,
        candidates: CandidatesFor | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.budget = budget or UNLIMITED
        features = options.features
        wanted = tuple(Tier) if options.tier is None else (options.tier,)
        self.rules = Rules(
            features, tier_of(features, wanted), options.profile, allocated, allocated.shared_devices()
        )
        self.slices = Slices.split(slices, counters_everywhere=options.profile.counter_slices_everywhere)
        self.candidates = candidates or (
            lambda pools, node, budget: DeviceList(pools, node, selectors, features, options.profile, budget)
        )
        self.options = options
        self._classes: dict[str, DeviceClass] = {}
        for one in classes:
            self._classes.setdefault(one.metadata.name, one)
        self._new_share_id = new_share_id or (lambda: str(uuid4()))

    @property
    def tier(self) -> Tier:
        """Which of Kubernetes' allocators this one follows."""
        return self.rules.tier

    @property
    def seconds(self) -> float:
        """How long one node may take."""
        return self.options.seconds

    def within(self, seconds: float, budget: Budget) -> Allocator:
        """The same, where one node may take so long; `budget` is for questions without one, and has the clock."""
        changed = copy.copy(self)
        changed.options = replace(self.options, seconds=seconds)
        changed.budget = budget
        return changed

    def allocate(
        self, node: Node, claims: Sequence[ResourceClaim], budget: Budget | None = None
    ) -> Allocation | None:
        """Devices for all claims at once, or None where they do not fit on this node.

        Raises AllocationError where no node can help, NodeAllocationError where this node cannot be judged; one of
        these is TimeLimitError, where the budget (that of all questions together) or the node's time was over.
        """
        call = Call(self, node, claims, budget)
        search = Search(call.plan, call.candidates, call.ledger, call.bounds, self.options.step_limit)
        if not search.run():
            if any(pool.invalid for pool in call.pools):
                raise NodeAllocationError("invalid resource pools were encountered")
            return None
        chosen = search.chosen()
        results = [
            build_result(planned, picks, chosen, node, self.rules, self._new_share_id)
            for planned, picks in zip(call.plan, call.ledger.picks, strict=True)
        ]
        return Allocation(tuple(results), search.steps)

    @property
    def classes(self) -> Mapping[str, DeviceClass]:
        """The device classes by name."""
        return self._classes


PLANNING: Final = 16
"""What a request or a constraint costs a budget before anything is searched, at least."""


class Call:
    """What one question works with: the node's pools, the resolved requests and an empty ledger."""

    def __init__(
        self,
        allocator: Allocator,
        node: Node,
        claims: Sequence[ResourceClaim],
        budget: Budget | None = None,
    ) -> None:
        spending: Spending = (budget or allocator.budget).part(allocator.seconds)
        rules = allocator.rules
        self.pools = gather_pools(allocator.slices, node, rules.features, rules.tier, rules.profile, spending)
        self.candidates = allocator.candidates(self.pools, node, spending)
        empty = Ledger(rules, self.candidates.devices, [()] * len(claims))
        all_devices = AllDevices(self.pools, self.candidates, empty, rules, spending)
        planner = Planner(rules.features, rules.tier, allocator.classes, all_devices.of)
        plan: list[PlannedClaim] = []
        constraints = []
        for number, claim in enumerate(claims):
            asked = claim.spec.devices
            spending.charge(PLANNING * (len(asked.requests) + len(asked.constraints)))
            plan.append(planner.plan(number, claim))
            constraints.append(constraints_of(claim, rules.features, rules.tier, rules.profile))
        self.plan = tuple(plan)
        self.ledger = Ledger(rules, self.candidates.devices, constraints)
        self.bounds = Bounds(self.plan, self.candidates, self.ledger, constraints, rules, spending)


class AllDevices:
    """The devices of `All` requests on one node."""

    def __init__(
        self, pools: Sequence[Pool], candidates: Candidates, empty: Ledger, rules: Rules, budget: Spending
    ) -> None:
        """`empty` is a ledger without picks: it tells what is left of each capacity."""
        self._pools = pools
        self._candidates = candidates
        self._empty = empty
        self._rules = rules
        self._budget = budget

    def of(self, request: Request) -> tuple[Candidate, ...]:
        """Those that this request gets; an unusable pool in their way is an error."""
        found: list[Candidate] = []
        devices = iter(self._candidates.devices)
        held: Candidate | None = next(devices, None)
        for pool in self._pools:
            self._check_pool(request, pool)
            while held is not None and held.pool is pool:
                self._budget.charge()
                if self._candidates.matches(request, held) and self._is_one_of_all(request, held):
                    found.append(held)
                held = next(devices, None)
        return tuple(found)

    def _check_pool(self, request: Request, pool: Pool) -> None:
        if pool.is_usable:
            return
        state = "currently being updated" if pool.is_incomplete else "currently invalid"
        text = f"{request.place}: asks for all devices, but resource pool {pool.id} is {state}"
        if self._rules.profile.all_needs_every_pool:
            raise AllocationError(text)
        if self._concerns(request, pool):
            raise NodeAllocationError(text)

    def _concerns(self, request: Request, pool: Pool) -> bool:
        """Whether an unusable pool may have devices for the request: by those seen; if none was, nobody knows."""
        devices = devices_of(replace(pool, slices=pool.seen), 0, self._rules.features)
        try:
            return not devices or not all(self._candidates.rejected_by(request, one) for one in devices)
        except AllocationError:
            return True

    def _is_one_of_all(self, request: Request, candidate: Candidate) -> bool:
        if not self._rules.features.consumable_capacity:
            return True
        if self._rules.profile.all_skips_exhausted:
            return self._empty.fits_capacity(request, candidate)
        return self._empty.fits_empty(request, candidate)
