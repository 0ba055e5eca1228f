"""Why claims do not fit on a node: how many devices each check removed, request by request, and who holds the rest.

Nothing here runs unless it is asked for: the search keeps no notes, and this looks at every device again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from dray.allocation.allocator import Allocator, Call
from dray.allocation.candidates import Candidate, Candidates, counters_of
from dray.allocation.explanation.lacks import lacks
from dray.allocation.explanation.together import obstacles
from dray.allocation.faults import AllocationError, NodeAllocationError
from dray.allocation.features import Tier
from dray.allocation.pools import Pool, gather_pools
from dray.allocation.requests import Planner, Request
from dray.allocation.state import DeviceID
from dray.api.core.node import Node
from dray.api.resource.claim import ResourceClaim
from dray.api.taints import DeviceTaint, untolerated
from dray.semantics.devices import holders_in
from dray.semantics.pools import current, of_generation


class Check(StrEnum):
    """What removes a device, in the order in which a device is charged to the first that does."""

    NODE = "node"
    POOL = "pool"
    FEATURE = "feature"
    CLASS = "class"
    SELECTOR = "selector"
    ERROR = "selector error"
    TAINT = "taint"
    IN_USE = "in use"
    CAPACITY = "capacity"
    COUNTERS = "counters"
    CONSTRAINT = "constraint"


@dataclass(frozen=True, slots=True, order=True)
class Holder:
    """A device, or a share of it, in the hands of a claim; `pods` are those it is reserved for."""

    device: DeviceID
    claim: str
    pods: tuple[str, ...] = ()

    def __str__(self) -> str:
        pods = f", pod {', '.join(self.pods)}" if self.pods else ""
        return f"{self.device} (claim {self.claim}{pods})"


Holders = Mapping[DeviceID, Sequence[Holder]]


def holders_of(claims: Iterable[ResourceClaim]) -> Holders:
    """Who holds which device. Admin access holds nothing."""
    found: dict[DeviceID, list[Holder]] = {}
    for claim in claims:
        pods = tuple(
            one.name if one.resource == "pods" else f"{one.resource}/{one.name}"
            for one in claim.status.reserved_for
        )
        for key, holder in holders_in(claim):
            if not holder.admin:
                device = DeviceID(*key)
                found.setdefault(device, []).append(Holder(device, holder.claim, pods))
    return found


def taint_text(taint: DeviceTaint) -> str:
    """KEY=VALUE:EFFECT, as on the command line."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


@dataclass(frozen=True, slots=True)
class RequestRefusal:
    """One request, or one alternative of it. `left` are the devices that no check removes when it is asked alone.

    Where `left` is at least `wanted` for every request, it is the combination that does not work out. `taints` counts
    the devices that each taint keeps away, `lacking` those short of a capacity or counter by its name; `held_by` are the
    holders of devices that are otherwise right.
    """

    claim: str
    request: str
    wanted: int
    is_all: bool
    total: int
    removed: Mapping[Check, int]
    left: int
    taints: Mapping[str, int] = field(default_factory=dict)
    held_by: tuple[Holder, ...] = ()
    lacking: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_short(self) -> bool:
        """Whether the request fails even on its own."""
        return self.left < max(self.wanted, 1 if self.is_all else 0)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node cannot serve the claims. `reason` is set where there is one before any device is looked at;
    `obstacles` say what keeps devices from going together where no request is short, as far as that is sure."""

    node: str
    tier: Tier
    profile: str
    requests: tuple[RequestRefusal, ...] = ()
    unusable_pools: Mapping[str, str] | None = None
    reason: str = ""
    obstacles: tuple[str, ...] = ()


def explain(
    allocator: Allocator, node: Node, claims: Sequence[ResourceClaim], holders: Holders | None = None
) -> Refusal:
    """The counts for every request of the claims, whether they fit or not. Never raises for what `allocate` raises."""
    return Explainer(allocator, holders or {}).explain(node, claims)


class Explainer:
    """For many nodes of one allocator: what does not depend on the node is counted once."""

    def __init__(self, allocator: Allocator, holders: Holders) -> None:
        self._allocator = allocator
        self._holders = holders
        self._every = _count_devices(allocator)

    def explain(self, node: Node, claims: Sequence[ResourceClaim]) -> Refusal:
        """See `explain`."""
        try:
            return self._explain(Call(self._allocator, node, claims), node)
        except (AllocationError, NodeAllocationError) as error:
            profile = self._allocator.rules.profile.name
            return Refusal(node.metadata.name, self._allocator.tier, profile, reason=str(error))

    def _explain(self, call: Call, node: Node) -> Refusal:
        allocator = self._allocator
        name, profile = node.metadata.name, allocator.rules.profile.name
        outside = self._outside(call)
        left: dict[int, list[Candidate]] = {}
        requests = tuple(
            self._request(call, request, outside, left.setdefault(request.ordinal, []))
            for planned in call.plan
            for alternatives in planned.requests
            for request in alternatives
        )
        unusable = {
            str(pool.id): pool.invalid or self._missing(pool) for pool in call.pools if not pool.is_usable
        }
        together = obstacles(call, allocator.rules, left)
        return Refusal(name, allocator.tier, profile, requests, unusable, obstacles=together)

    def _missing(self, pool: Pool) -> str:
        newest = pool.seen[0].spec.pool
        there = of_generation(self._allocator.slices.by_pool[pool.id], newest.generation)
        return f"{len(there)} of {newest.resource_slice_count} slices of generation {newest.generation} are there"

    def _outside(self, call: Call) -> Counter[Check]:
        """The devices that are no candidates at all: of other nodes, or of pools that cannot be used."""
        unusable = sum(
            len(one.spec.devices or ()) for pool in call.pools if not pool.is_usable for one in pool.seen
        )
        elsewhere = max(self._every - unusable - len(call.candidates.devices), 0)
        return Counter({Check.NODE: elsewhere, Check.POOL: unusable})

    def _request(
        self, call: Call, request: Request, outside: Counter[Check], left: list[Candidate]
    ) -> RequestRefusal:
        """`left` is filled with the devices that no check removes."""
        removed, taints = Counter(outside), Counter[str]()
        held, lacking = set[Holder](), Counter[str]()
        for candidate in call.candidates.devices:
            check = first_check(call, request, candidate)
            if check is None:
                left.append(candidate)
                continue
            removed[check] += 1
            if check is Check.TAINT:
                taints.update(map(taint_text, kept_away_by(request, candidate)))
            if check in (Check.IN_USE, Check.CAPACITY, Check.COUNTERS):
                held.update(self.holders(candidate))
            if check in (Check.CAPACITY, Check.COUNTERS):
                lacking.update(lack.name for lack in lacks(self._allocator.rules, request, candidate))
        return RequestRefusal(
            request.claim_name,
            request.full_name,
            request.count,
            request.every is not None,
            removed.total() + len(left),
            {check: removed[check] for check in Check if removed[check]},
            len(left),
            dict(sorted(taints.items())),
            tuple(sorted(held)),
            dict(sorted(lacking.items())),
        )

    def holders(self, candidate: Candidate) -> Iterable[Holder]:
        """Who holds the device, or others that draw on the counters it needs."""
        yield from self._holders.get(candidate.id, ())
        if not candidate.consumes:
            return
        needed = {key for key, _ in candidate.consumes}
        pool = candidate.pool
        for one in (*pool.slices, *pool.elsewhere):
            for device in one.spec.devices or ():
                held = self._holders.get(DeviceID(pool.id.driver, pool.id.pool, device.name))
                if held and not needed.isdisjoint(key for key, _ in counters_of(device)):
                    yield from held


def with_request(
    allocator: Allocator, nodes: Iterable[Node], claims: Sequence[ResourceClaim], error: AllocationError
) -> str:
    """What the allocator raised, with the request whose selectors, or its class's, raise just that on some device."""
    rules, budget = allocator.rules, allocator.budget.part(allocator.seconds)
    planner = Planner(rules.features, rules.tier, allocator.classes, lambda _: ())
    try:
        plan = [planner.plan(number, claim) for number, claim in enumerate(claims)]
        requests = [one for planned in plan for many in planned.requests for one in many]
        for node in nodes:
            pools = gather_pools(allocator.slices, node, rules.features, rules.tier, rules.profile)
            candidates = allocator.candidates(pools, node, budget)
            for request in requests:
                if any(_raises(candidates, request, one, str(error)) for one in candidates.devices):
                    text = str(error).removeprefix(f"claim {request.claim_name}: ")
                    return f"claim {request.claim_name}, request {request.full_name}: {text}"
    except (AllocationError, NodeAllocationError):
        pass
    return str(error)


def _raises(candidates: Candidates, request: Request, candidate: Candidate, text: str) -> bool:
    try:
        candidates.rejected_by(request, candidate)
    except AllocationError as error:
        return str(error) == text
    return False


def _count_devices(allocator: Allocator) -> int:
    """All devices of the cluster, without those of outdated slices."""
    return sum(len(one.spec.devices or ()) for one in current(allocator.slices.every))


def kept_away_by(request: Request, candidate: Candidate) -> tuple[DeviceTaint, ...]:
    """The device's taints that the request does not tolerate."""
    return untolerated(candidate.device.taints, request.wish.tolerations)


def first_check(call: Call, request: Request, candidate: Candidate) -> Check | None:
    """The first check that removes the device when the request is asked alone; None where it may have it."""
    try:
        if own := call.candidates.rejected_by(request, candidate):
            return Check(own)
    except AllocationError:
        return Check.ERROR
    return next(iter(state_checks(call, request, candidate)), None)


def state_checks(call: Call, request: Request, candidate: Candidate) -> Iterable[Check]:
    """All checks that remove a device its selectors accept, in order."""
    ledger = call.ledger
    if ledger.is_tainted(request, candidate):
        yield Check.TAINT
    if ledger.blocked(request) >> candidate.slot & 1:
        yield Check.IN_USE
    try:
        has_capacity = ledger.fits_capacity(request, candidate)
    except AllocationError:
        has_capacity = False
    if not has_capacity:
        yield Check.CAPACITY
    if not ledger.has_counters_left(candidate):
        yield Check.COUNTERS
    if not ledger.allows(request, candidate):
        yield Check.CONSTRAINT
