"""Where to put claims when several places fit: Kubernetes' first fit, or the fit that leaves the most for others.

Best fit tries devices in another order, inside each pool: those first whose loss costs the other devices least. It fits
where first fit does and nowhere else.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from dray.allocation.allocator import Allocation, Allocator, Call
from dray.allocation.budget import Spending
from dray.allocation.candidates import Candidate, Candidates, CounterKey
from dray.allocation.cluster.situation import in_use, joined
from dray.allocation.constraints import Value, attribute_of, scalar
from dray.allocation.counters import Counters, counters_left
from dray.allocation.faults import AllocationError, NodeAllocationError
from dray.allocation.ledger import Ledger
from dray.allocation.pools import Pool
from dray.allocation.requests import Request
from dray.allocation.state import DeviceID, Rules
from dray.api.core.node import Node
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.claim_status import ResourceClaimStatus

GROUPS: Final = ("resource.kubernetes.io/numaNode", "resource.kubernetes.io/pcieRoot")
"""Devices that share one of these belong together; the wider group first."""
BEST_SCORE: Final = 100


class Policy(StrEnum):
    """First fit is the exact order of Kubernetes."""

    FIRST_FIT = "first-fit"
    BEST_FIT = "best-fit"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where claims go. `rank` orders placements by best fit: the score, then the fewer devices stay free the better."""

    node: Node
    allocation: Allocation
    rank: tuple[int, int] = (0, 0)


def place(
    allocator: Allocator, nodes: Iterable[Node], claims: Sequence[ResourceClaim], policy: Policy
) -> Placement | None:
    """First fit: the first node that fits. Best fit: the one with the highest score, of equal ones the fullest.

    Nodes that cannot be judged are passed over. Raises AllocationError where no node can help.
    """
    best: Placement | None = None
    for node in nodes:
        try:
            found = put(allocator, node, claims, policy)
        except NodeAllocationError:
            continue
        if found is None:
            continue
        if policy is Policy.FIRST_FIT:
            return found
        if best is None or found.rank > best.rank:
            best = found
    return best


def put(
    allocator: Allocator, node: Node, claims: Sequence[ResourceClaim], policy: Policy
) -> Placement | None:
    """One node by a policy, with a rank for best fit."""
    allocation = allocate(allocator, node, claims, policy)
    if allocation is None:
        return None
    if policy is Policy.FIRST_FIT:
        return Placement(node, allocation)
    before, after = _loss(allocator, node, allocation)
    return Placement(node, allocation, (_score(before, after), -len(after.free)))


def allocate(
    allocator: Allocator, node: Node, claims: Sequence[ResourceClaim], policy: Policy
) -> Allocation | None:
    """As `Allocator.allocate`, by a policy. First fit decides whether it fits and what is an error, because the mistakes
    of some profiles depend on the order of devices."""
    plain = allocator.allocate(node, claims)
    if policy is Policy.FIRST_FIT or plain is None:
        return plain
    try:
        best = in_best_fit_order(allocator).allocate(node, claims)
    except (AllocationError, NodeAllocationError):
        return plain
    return plain if best is None else best


def score(allocator: Allocator, node: Node, allocation: Allocation) -> int:
    """For a scheduler: 0 to 100, what share of the node's other free devices the allocation leaves as useful as before.

    A device is lost when its counters are used up by a neighbour, and loses half when its NUMA node or PCIe root was
    all free and is not any more.
    """
    return _score(*_loss(allocator, node, allocation))


@dataclass(frozen=True, slots=True)
class _Free:
    free: frozenset[DeviceID]
    whole: frozenset[DeviceID]
    picked: frozenset[DeviceID] = frozenset()


def _score(before: _Free, after: _Free) -> int:
    others = before.free - before.picked
    if not others:
        return BEST_SCORE
    lost = len(others - after.free)
    broken = len((others & before.whole & after.free) - after.whole)
    return BEST_SCORE - BEST_SCORE * (2 * lost + broken) // (2 * len(others))


def _loss(allocator: Allocator, node: Node, allocation: Allocation) -> tuple[_Free, _Free]:
    devices = Call(allocator, node, ()).candidates.devices
    claims = [ResourceClaim(status=ResourceClaimStatus(allocation=result)) for result in allocation.results]
    rules = allocator.rules
    state = joined(rules.allocated, in_use(claims, rules.features))
    after = replace(rules, allocated=state, shared=state.shared_devices())
    picked = frozenset(
        DeviceID(one.driver, one.pool, one.device)
        for result in allocation.results
        for one in result.devices.results
    )
    return replace(_look(devices, rules), picked=picked), _look(devices, after)


def _look(devices: Sequence[Candidate], rules: Rules) -> _Free:
    free = _free(devices, rules)
    ids = frozenset(one.id for one in devices if one.slot in free)
    sizes, left = Counter[Value](), Counter[Value]()
    for one in devices:
        for group in _groups(one):
            sizes[group] += 1
            left[group] += one.slot in free
    whole = frozenset(
        one.id for one in devices if (groups := _groups(one)) and all(left[g] == sizes[g] for g in groups)
    )
    return _Free(ids, whole)


def _free(devices: Sequence[Candidate], rules: Rules) -> set[int]:
    """The slots that could be given alone, as far as use and counters go."""
    ledger = Ledger(rules, devices, [])
    return {
        one.slot
        for one in devices
        if one.id not in rules.allocated.devices
        and not (one.id in rules.shared and not one.is_shareable)
        and ledger.has_counters_left(one)
        and _share_left(one, rules) > 0
    }


def _share_left(one: Candidate, rules: Rules) -> int:
    """Of a device that is given in parts: per mille that is left of its scarcest capacity; 1000 for others."""
    left = 1000
    for name, used in rules.allocated.capacity.get(one.id, {}).items():
        has = one.device.capacity[name].value.nano if name in one.device.capacity else 0
        left = min(left, _per_mille(has - used.nano, has))
    return left


def _groups(one: Candidate) -> tuple[Value, ...]:
    found = []
    for name in GROUPS:
        attribute = attribute_of(one, name)
        if attribute is not None:
            kind, value = scalar(attribute)
            found.append((name, (one.id.driver, kind, value)))
    return tuple(found)


def in_best_fit_order(allocator: Allocator) -> Allocator:
    """The allocator with devices in best-fit order. In a profile that makes no mistakes it fits whenever the plain one does."""
    changed = copy.copy(allocator)

    def candidates(pools: Sequence[Pool], node: Node, budget: Spending) -> Candidates:
        return _Reordered(allocator.candidates(pools, node, budget), allocator.rules)

    changed.candidates = candidates
    return changed


class _Reordered:
    """Another view's devices with other slots. Pools stay in their order, for `All` requests walk through them."""

    def __init__(self, plain: Candidates, rules: Rules) -> None:
        self._plain = plain
        self.budget = plain.budget
        order = _order(plain.devices, rules)
        self._origin = [plain.devices[slot] for slot in order]
        self.devices: Sequence[Candidate] = tuple(
            replace(one, slot=slot) for slot, one in enumerate(self._origin)
        )

    def next_match(self, request: Request, start: int, skip: int) -> int:
        """See `Candidates`."""
        for slot in range(start, len(self.devices)):
            self.budget.charge()
            if not skip >> slot & 1 and self._plain.matches(request, self._origin[slot]):
                return slot
        return -1

    def peek(self, request: Request, slot: int) -> bool | None:
        """See `Candidates`."""
        return self._plain.peek(request, self._origin[slot].slot)

    def matches(self, request: Request, candidate: Candidate) -> bool:
        """See `Candidates`."""
        return self._plain.matches(request, self._origin[candidate.slot])

    def rejected_by(self, request: Request, candidate: Candidate) -> str:
        """See `Candidates`."""
        return self._plain.rejected_by(request, candidate)


def _order(devices: Sequence[Candidate], rules: Rules) -> list[int]:
    """Slots by pool, then by what taking the device costs: neighbours that lose their counters, then how much is free
    of what it draws on or belongs to (little is better), then how much it takes."""
    free = _free(devices, rules)
    blocked = _blocked(devices, free, rules)
    sizes, first = Counter[Value](), dict[Value, int]()
    pools: dict[int, int] = {}
    left: dict[int, dict[CounterKey, int]] = {}
    for one in devices:
        pools.setdefault(id(one.pool), len(pools))
        if one.consumes and id(one.pool) not in left:
            left[id(one.pool)] = counters_left(one.pool, rules)
        for group in _groups(one):
            sizes[group] += one.slot in free
            first.setdefault(group, one.slot)

    def cost(one: Candidate) -> tuple[int | tuple[tuple[int, int], ...], ...]:
        groups = tuple((sizes[group], first[group]) for group in _groups(one))
        rest, every = left.get(id(one.pool), {}), one.pool.counters
        counters = min(
            (_per_mille(rest.get(key, 0), every.get(key, 0)) for key, _ in one.consumes), default=0
        )
        takes = max((_per_mille(amount, every.get(key, 0)) for key, amount in one.consumes), default=0)
        share = _share_left(one, rules)
        return pools[id(one.pool)], blocked[one.slot], share, counters, takes, groups, one.slot

    return [one.slot for one in sorted(devices, key=cost)]


def _per_mille(part: int, whole: int) -> int:
    return 1000 * part // whole if whole > 0 else 0


def _blocked(devices: Sequence[Candidate], free: set[int], rules: Rules) -> Counter[int]:
    """For each device how many others that are free now cannot be given once it is."""
    found = Counter[int]()
    if not rules.features.partitionable_devices:
        return found
    neighbours: dict[tuple[int, tuple[str, str]], list[Candidate]] = {}
    for one in devices:
        for key, _ in one.consumes:
            if one.slot in free:
                neighbours.setdefault((id(one.pool), key), []).append(one)
    counters = Counters(rules)
    for one in devices:
        if one.slot not in free or not one.consumes or not counters.take(one):
            continue
        near = {other.slot: other for key, _ in one.consumes for other in neighbours[id(one.pool), key]}
        for other in near.values():
            if other is one or rules.is_shared(other.id):
                continue
            if counters.take(other):
                counters.give_back(other)
            else:
                found[one.slot] += 1
        counters.give_back(one)
    return found
