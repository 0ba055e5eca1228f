"""How many more of the same claims a cluster takes, where they go, and what runs out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dray.allocation.allocator import Allocation, Allocator
from dray.allocation.cluster.situation import Situation, in_use, joined, with_allocated
from dray.allocation.cluster.workloads import Workload
from dray.allocation.explanation.explain import group_refusals
from dray.allocation.explanation.refusal import Check, Refusal, RequestRefusal
from dray.allocation.faults import NodeAllocationError
from dray.allocation.policies import Placement, Policy, put
from dray.api.core.node import Node
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.claim_status import ResourceClaimStatus

_SCARCE = (Check.IN_USE, Check.COUNTERS, Check.CAPACITY, Check.TAINT, Check.CONSTRAINT)
_MOST_NAMES = 3
Progress = Callable[[int], None]
"""Told how many were placed, after each."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """What a node lacks for one more: `left` of `wanted` devices for the request, most others removed by `check`.

    `check` is None where each request could be served alone, but not all of them together.
    """

    claim: str
    request: str
    wanted: int
    left: int
    check: Check | None
    removed: int = 0
    lacking: tuple[str, ...] = ()
    reason: str = ""

    def __str__(self) -> str:
        if self.reason:
            return self.reason
        short = f"request {self.request} wants {self.wanted}, {self.left} left"
        if self.check is None:
            return f"{short}, but not all together"
        lacks = f": {', '.join(self.lacking)}" if self.lacking else ""
        return f"{short}: {self.removed} {_WORDS[self.check]}{lacks}"


_WORDS = {
    Check.NODE: "on other nodes",
    Check.POOL: "in a pool that cannot be used",
    Check.FEATURE: "with a feature that is off",
    Check.CLASS: "of another class",
    Check.SELECTOR: "not selected",
    Check.ERROR: "on which the selector fails",
    Check.TAINT: "tainted",
    Check.IN_USE: "in use",
    Check.CAPACITY: "without enough capacity",
    Check.COUNTERS: "without enough counters",
    Check.CONSTRAINT: "ruled out by a constraint",
}


@dataclass(frozen=True, slots=True)
class NodeOutcome:
    """How many went to the node, and why not one more; None where nobody asked for more."""

    node: str
    fits: int
    shortage: Shortage | None


@dataclass(frozen=True, slots=True)
class Simulation:
    """`first` is what ran out first: the shortage of the node that was full before the others."""

    asked: int
    fits: int
    nodes: tuple[NodeOutcome, ...]
    first: NodeOutcome | None


def simulate(
    situation: Situation,
    workload: Workload,
    nodes: Sequence[Node],
    number: int,
    policy: Policy = Policy.FIRST_FIT,
    progress: Progress = lambda placed: None,
) -> Simulation:
    """Places one copy of the workload after another, up to `number`. Raises AllocationError where none can be."""
    run = _Run(situation, workload, nodes, policy)
    while run.placed.total() < number and run.step():
        progress(run.placed.total())
    return run.outcome(number)


class _Run:
    def __init__(
        self, situation: Situation, workload: Workload, nodes: Sequence[Node], policy: Policy
    ) -> None:
        self._situation = situation
        self._workload = workload
        self._nodes = nodes
        self._policy = policy
        self._allocator = situation.allocator
        self._open = [node for node in nodes if not workload.barred_from(node)]
        self._full: list[str] = []
        self._known: dict[str, Placement] = {}
        # What one node gets changes nothing for the others, unless they draw on the same pools.
        self._is_local = all(one.spec.node_name for one in situation.cluster.slices)
        self.placed = Counter[str]()

    def step(self) -> bool:
        """Place one more. What did not fit on a node will not fit later, since nothing is given back."""
        while self._open:
            found = self._next()
            if found is not None:
                self._take(found)
                return True
        return False

    def _next(self) -> Placement | None:
        """The next place by the policy; None where a node turned out to be full, which is then closed."""
        if self._policy is Policy.FIRST_FIT:
            return self._look(self._open[0])
        found = [one for node in list(self._open) if (one := self._look(node)) is not None]
        return max(found, key=lambda one: one.rank, default=None)

    def _look(self, node: Node) -> Placement | None:
        name = node.metadata.name
        if name in self._known:
            return self._known[name]
        try:
            found = put(self._allocator, node, self._workload.pending, self._policy)
        except NodeAllocationError:
            found = None
        if found is None:
            self._open.remove(node)
            self._full.append(name)
        else:
            self._known[name] = found
        return found

    def _take(self, found: Placement) -> None:
        name = found.node.metadata.name
        self.placed[name] += 1
        self._allocator = _with(self._allocator, found.allocation)
        if self._is_local:
            del self._known[name]
        else:
            self._known.clear()

    def outcome(self, asked: int) -> Simulation:
        fits = self.placed.total()
        shortages: dict[str, Shortage] = {}
        if fits < asked:
            now = replace(self._situation, allocator=self._allocator)
            refusing = [(node, self._workload.barred_from(node)) for node in self._nodes]
            for group in group_refusals(now, self._workload, refusing):
                shortages |= dict.fromkeys(group.nodes, shortage_of(group.refusal))
        nodes = tuple(
            NodeOutcome(name, self.placed[name], shortages.get(name))
            for name in (node.metadata.name for node in self._nodes)
        )
        return Simulation(asked, fits, nodes, self._first(nodes))

    def _first(self, nodes: Sequence[NodeOutcome]) -> NodeOutcome | None:
        """Nodes that took some count before those that never did, in the order in which they were filled."""
        short = [one for one in nodes if one.shortage is not None]
        order = {name: number for number, name in enumerate(self._full)}
        return min(short, key=lambda one: (not one.fits, order.get(one.node, 0)), default=None)


def shortage_of(refusal: Refusal) -> Shortage:
    """The request that lacks most, and the check that removed most of the devices of the right kind."""
    if refusal.reason or not refusal.requests:
        return Shortage("", "", 0, 0, None, reason=refusal.reason or "no request")
    worst = min(refusal.requests, key=lambda one: one.left - one.wanted)
    check = _scarce(worst) if worst.is_short else None
    removed = worst.removed.get(check, 0) if check is not None else 0
    return Shortage(
        worst.claim, worst.request, worst.wanted, worst.left, check, removed, _lacking(worst, check)
    )


def _lacking(one: RequestRefusal, check: Check | None) -> tuple[str, ...]:
    """The amounts that most devices lack, where it is amounts that are short."""
    if check not in (Check.CAPACITY, Check.COUNTERS):
        return ()
    return tuple(sorted(one.lacking, key=lambda name: (-one.lacking[name], name))[:_MOST_NAMES])


def _scarce(one: RequestRefusal) -> Check:
    """Devices that are right but taken count before those of other kinds."""
    scarce = [check for check in _SCARCE if one.removed.get(check)]
    others = [check for check in one.removed if check not in scarce and check is not Check.NODE]
    found = scarce or others or [Check.NODE]
    return max(found, key=lambda check: one.removed.get(check, 0))


def _with(allocator: Allocator, allocation: Allocation) -> Allocator:
    claims = [ResourceClaim(status=ResourceClaimStatus(allocation=result)) for result in allocation.results]
    rules = allocator.rules
    return with_allocated(allocator, joined(rules.allocated, in_use(claims, rules.features)))
