"""Nodes that are alike to some claims: what is found out for one of them is true for all, names aside.

A fleet has few kinds of nodes, but each has serial numbers and names of its own. So a node is known by what these claims
can see of its devices: what their selectors and constraints read, amounts, taints, and what is in use. A node of which
that is not sure is like no other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter

from dray.allocation.allocator import Allocator
from dray.allocation.explanation.refusal import Explainer, Holder, Holders, Refusal
from dray.allocation.explanation.sight import Sight, number_in
from dray.allocation.faults import AllocationError
from dray.allocation.features import Tier
from dray.allocation.pools import Slices, slice_is_for
from dray.allocation.state import DeviceID, Rules
from dray.api.core.node import Node
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.slice import ResourceSlice
from dray.semantics.pools import PoolID, duplicate_name, is_complete, newest, pool_of


@dataclass(frozen=True, slots=True)
class Likeness:
    """Nodes with equal keys are alike. `names` are the node's own and those of its pools.

    `kinds` are the kinds of those devices in these pools that somebody has: those of one kind pass and fail the same
    checks, on all nodes that are alike.
    """

    key: int
    names: tuple[str, ...]
    kinds: Mapping[DeviceID, int]

    def is_named_in(self, text: str) -> bool:
        """Whether a text may be about this node and not about others that are alike."""
        return any(name in text for name in self.names)


class Alike:
    """For the claims of one question; what it knows of an allocator's slices is gathered once."""

    def __init__(self, allocator: Allocator, sight: Sight, holders: Holders) -> None:
        self._allocator = allocator
        self._is_stable = allocator.tier is Tier.STABLE
        self._sight = sight
        self._pools = _Pools.of(allocator.slices)
        self._states = _states(allocator.rules, holders)
        self._kinds: dict[Hashable, int] = {}
        self._keys: dict[Hashable, int] = {}
        self._known: dict[str, Likeness] = {}

    def is_for(self, other: Allocator) -> bool:
        """Whether another allocator over the same objects sees the same devices in the same use: then it serves both."""
        mine = self._allocator
        if (mine.tier is Tier.STABLE) != (other.tier is Tier.STABLE):
            return False
        if mine.rules.allocated != other.rules.allocated:
            return False
        one, two = mine.slices.every, other.slices.every
        return len(one) == len(two) and all(a is b or a == b for a, b in zip(one, two, strict=True))

    def of(self, node: Node) -> Likeness:
        """The node's likeness to others, worked out once."""
        found = self._known.get(node.metadata.name)
        if found is None:
            found = self._known[node.metadata.name] = self._find(node)
        return found

    def _find(self, node: Node) -> Likeness:
        name = node.metadata.name
        own = self._pools.own.get(name, ())
        names = (name, *[one.pool for one in own])
        try:
            selected = [one for one in self._pools.selective if slice_is_for(node, one)]
        except AllocationError:
            return self._alone(name, names)
        if name in self._pools.odd or any(one.spec.per_device_node_selection for one in selected):
            return self._alone(name, names)
        kinds: dict[DeviceID, int] = {}
        parts: list[tuple[PoolID, Hashable]] = [(pool, self._pool(pool, kinds)) for pool in own]
        parts += ((pool_of(one), ("shared", id(one))) for one in (*self._pools.everywhere, *selected))
        parts.sort(key=itemgetter(0))
        return Likeness(number_in(self._keys, tuple([part for _, part in parts])), names, kinds)

    def _alone(self, name: str, names: tuple[str, ...]) -> Likeness:
        return Likeness(number_in(self._keys, ("only", name)), names, {})

    def _pool(self, pool: PoolID, kinds: dict[DeviceID, int]) -> Hashable:
        """In the order in which devices are tried. Neighbours that differ only in their state may change places."""
        states = self._states.get(pool, {})
        slices = self._pools.newest[pool]
        if not self._is_stable:
            slices = sorted(slices, key=lambda one: one.metadata.name)
        found = list[tuple[int, int]]()
        for one in slices:
            for device, seen in zip(one.spec.devices or (), self._sight.of(one), strict=True):
                taints = tuple([(each.key, each.value, each.effect) for each in device.taints])
                state = states.get(device.name)
                kind = number_in(self._kinds, (seen, taints, state))
                if state is not None:
                    kinds[DeviceID(pool.driver, pool.pool, device.name)] = kind
                found.append((seen, kind))
        runs = [tuple(sorted(run)) for _, run in groupby(found, key=itemgetter(0))]
        return pool.driver, tuple(runs), tuple(map(_amounts, slices))


@dataclass(frozen=True, slots=True)
class _Pools:
    """`own` are pools of which every slice is of that node; `odd` are nodes with pools that are not, or not sound. Of each
    pool only the newest generation counts. `everywhere` and `selective` are slices for all and for some nodes."""

    own: Mapping[str, Sequence[PoolID]]
    odd: frozenset[str]
    newest: Mapping[PoolID, Sequence[ResourceSlice]]
    everywhere: Sequence[ResourceSlice]
    selective: Sequence[ResourceSlice]

    @staticmethod
    def of(slices: Slices) -> _Pools:
        own: dict[str, list[PoolID]] = {}
        counting: dict[PoolID, Sequence[ResourceSlice]] = {}
        odd, everywhere = set[str](), list[ResourceSlice]()
        for pool, every in slices.by_pool.items():
            nodes = {one.spec.node_name or "" for one in every}
            counting[pool] = newest(every)
            if len(nodes) > 1 or not _is_sound(counting[pool]):
                odd |= nodes
                # Where counters belong to every node, so do the faults of their pools, each at its place in the order.
                everywhere += [one for one in every if one.spec.node_name and one.spec.shared_counters]
            for name in nodes:
                own.setdefault(name, []).append(pool)
        shared = [one for one in slices.shared if not one.spec.node_name]
        everywhere += [one for one in shared if one.spec.all_nodes]
        selective = [one for one in shared if not one.spec.all_nodes]
        return _Pools(own, frozenset(odd), counting, everywhere, selective)


def _is_sound(slices: Sequence[ResourceSlice]) -> bool:
    """Whether all slices of the pool are there, and each is simply devices or counters."""
    names = [device.name for one in slices for device in one.spec.devices or ()]
    return duplicate_name(names) is None and all(
        is_complete(slices, one.spec.pool)
        and not one.spec.per_device_node_selection
        and not (one.spec.devices and one.spec.shared_counters)
        for one in slices
    )


def _amounts(one: ResourceSlice) -> Hashable:
    """The counters that a slice declares."""
    return tuple(
        (each.name, tuple(sorted((name, counter.value.nano) for name, counter in each.counters.items())))
        for each in one.spec.shared_counters or ()
    )


def _states(rules: Rules, holders: Holders) -> dict[PoolID, dict[str, Hashable]]:
    """Of each device that somebody has: whether it is given, shared, how much of it is taken, and whether it is known by whom."""
    allocated = rules.allocated
    found: dict[PoolID, dict[str, Hashable]] = {}
    for one in {*allocated.devices, *rules.shared, *allocated.capacity, *holders}:
        amounts = allocated.capacity.get(one)
        taken = amounts and tuple(sorted((name, amount.nano) for name, amount in amounts.items()))
        state = (one in allocated.devices, one in rules.shared, amounts is not None, taken, one in holders)
        found.setdefault(PoolID(one.driver, one.pool), {})[one.device] = state
    return found


class AlikeRefusals:
    """Why nodes refuse, found out once for all that are alike."""

    def __init__(self, explainer: Explainer, holders: Holders, alike: Alike) -> None:
        self._explainer = explainer
        self._holders = holders
        self._alike = alike
        self._known: dict[Hashable, tuple[Likeness, Refusal]] = {}

    def of(self, node: Node, claims: Sequence[ResourceClaim]) -> Refusal:
        """As `Explainer.explain`; always with the same claims."""
        likeness = self._alike.of(node)
        known = self._known.get(likeness.key)
        if known is not None:
            return self._moved(*known, likeness, node.metadata.name)
        refusal = self._explainer.explain(node, claims)
        if not any(map(likeness.is_named_in, (refusal.reason, *(refusal.unusable_pools or {})))):
            self._known[likeness.key] = likeness, refusal
        return refusal

    def _moved(self, first: Likeness, refusal: Refusal, likeness: Likeness, name: str) -> Refusal:
        """What was found on another node, with the holders of this one's devices."""
        requests = tuple(
            [
                replace(one, held_by=self._held(one.held_by, first, likeness)) if one.held_by else one
                for one in refusal.requests
            ]
        )
        return replace(refusal, node=name, requests=requests)

    def _held(self, there: Iterable[Holder], first: Likeness, likeness: Likeness) -> tuple[Holder, ...]:
        found, kinds = set[Holder](), set[int]()
        for holder in there:
            if holder.device in first.kinds:
                kinds.add(first.kinds[holder.device])
            else:
                found.add(holder)
        for device, kind in likeness.kinds.items():
            if kind in kinds:
                found.update(self._holders.get(device, ()))
        return tuple(sorted(found))
