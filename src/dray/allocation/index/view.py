"""A node as the index keeps it: its devices with a slot each, and bit sets over the slots (bit n stands for slot n)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from dray.allocation.budget import Spending
from dray.allocation.candidates import Candidate, CounterKey, DeviceList, devices_of
from dray.allocation.capacity import Amounts
from dray.allocation.constraints import Constraint
from dray.allocation.counters import Counters, PoolCounters
from dray.allocation.faults import AllocationError
from dray.allocation.index.columns import Columns, Group, bits_of
from dray.allocation.index.matches import Matcher, Matchers
from dray.allocation.index.sums import RunningSums
from dray.allocation.ledger import Ledger, bits
from dray.allocation.pools import Pool, device_is_for
from dray.allocation.requests import Request
from dray.allocation.selector import CompiledSelectors
from dray.allocation.state import DeviceID, Rules
from dray.api.core.node import Node
from dray.api.resource.slice import Device, ResourceSlice
from dray.api.selectors.types import NodeSelector
from dray.api.taints import untolerated
from dray.semantics.pools import PoolID

KEPT_CHANCES: Final = 256
"""Kinds of requests that a view remembers."""
_CHANCES: Final = 200
"""Bytes of one, without its bits."""


class Chances(NamedTuple):
    """For one kind of request: the slots that selectors accept, those on which they fail, and of the accepted ones
    those without a taint or a gate in the way.
    """

    accepted: int
    failed: int
    able: int


class NodeView:
    """Made from the node's pools, and good until they change. `touch` keeps it up with what is in use."""

    def __init__(
        self,
        node: Node,
        pools: Sequence[Pool],
        rules: Rules,
        columns: Columns,
        matchers: Matchers,
        selectors: CompiledSelectors,
    ) -> None:
        self.node = node
        self.pools = pools
        self.rules = rules
        self.matchers = matchers
        self._selectors = selectors
        self.is_invalid = any(pool.invalid for pool in pools)
        self.may_lack_result = any(_has_terms(one) for pool in pools for one in pool.slices)
        self.in_use = self.holding = self.partial = self.consuming = 0
        self._tainted = self._for_some_nodes = 0
        self._groups: list[tuple[int, Group]] = []
        found: list[Candidate] = []
        for pool in pools:
            if pool.is_usable and (more := devices_of(pool, len(found), rules.features)):
                group = columns.group(pool.id.driver, [one.device for one in more])
                self._groups.append((len(found), group))
                self.partial |= group.partial << len(found)
                found.extend(more)
        self.devices: tuple[Candidate, ...] = tuple(found)
        self._slots: dict[DeviceID, int] | None = None
        self._note(found)
        self._chances: dict[Matcher, Chances] = {}
        self._counters: dict[PoolID, RunningSums] = {}

    def _note(self, found: Sequence[Candidate]) -> None:
        allocated = self.rules.allocated
        identities = [one.id for one in found]
        if not allocated.devices.isdisjoint(identities):
            self.in_use = bits_of([one in allocated.devices for one in identities])
        if not allocated.capacity.keys().isdisjoint(identities):
            self.holding = bits_of([one in allocated.capacity for one in identities])
        self.consuming = bits_of([bool(one.device.consumes_counters) for one in found])
        self._tainted = bits_of([one.device.taints != () for one in found])
        self._for_some_nodes = bits_of([one.spec.per_device_node_selection is True for one in found])

    def plain(self, budget: Spending) -> DeviceList:
        """The view without an index, for errors with their texts and for explanations. It is for one question."""
        rules = self.rules
        return DeviceList(self.pools, self.node, self._selectors, rules.features, rules.profile, budget)

    def touch(self, device: DeviceID) -> None:
        """What is in use of the device is another thing now."""
        if self._slots is None:
            self._slots = {one.id: one.slot for one in self.devices}
        rules, slot = self.rules, self._slots.get(device)
        if slot is not None:
            bit = 1 << slot
            self.in_use = self.in_use | bit if device in rules.allocated.devices else self.in_use & ~bit
            self.holding = self.holding | bit if device in rules.allocated.capacity else self.holding & ~bit
        sums = self._counters.get(PoolID(device.driver, device.pool))
        if sums is not None:
            sums.touch(device)

    def forget(self) -> None:
        """See `matches.Holder`; called by the index, which is the holder for all its views."""
        self._chances.clear()

    def chances(self, matcher: Matcher, budget: Spending) -> Chances:
        """Worked out once for each; that is charged to the budget."""
        found = self._chances.get(matcher)
        if found is None:
            if len(self._chances) >= KEPT_CHANCES:
                self._chances.clear()
            found = self._chances[matcher] = self._new_chances(matcher, budget)
            self.matchers.kept.take(_CHANCES + len(self.devices) // 2)
        return found

    def _new_chances(self, matcher: Matcher, budget: Spending) -> Chances:
        accepted = failed = 0
        for first, group in self._groups:
            budget.charge(len(group.devices))
            some, fails = matcher.of(group)
            accepted |= some << first
            failed |= fails << first
        for slot in bits(accepted & self._for_some_nodes):
            budget.charge()
            if not (is_for := self._is_for(self.devices[slot].device)):
                accepted ^= 1 << slot
                failed |= (is_for is None) << slot
        return Chances(accepted, failed, accepted & ~self._barred(matcher, accepted))

    def _is_for(self, device: Device) -> bool | None:
        try:
            return device_is_for(self.node, device)
        except AllocationError:
            return None

    def _barred(self, matcher: Matcher, accepted: int) -> int:
        """Those with a taint or a gate in the way."""
        features = self.rules.features
        barred = 0 if features.partitionable_devices else self.consuming
        if self._tainted and features.device_taints:
            for slot in bits(accepted & self._tainted):
                if untolerated(self.devices[slot].device.taints, matcher.tolerations):
                    barred |= 1 << slot
        return barred

    def left(self, pool: Pool) -> dict[CounterKey, int]:
        """What is left of the pool's counters: a running sum."""
        sums = self._counters.get(pool.id)
        if sums is None:
            known = [one for one in self.devices if one.device.consumes_counters and one.pool is pool]
            sums = self._counters[pool.id] = RunningSums(pool, known, self.rules)
        return sums.left


class NodeCandidates:
    """The search's `Candidates`, from a view's bit sets. For one question."""

    def __init__(self, view: NodeView, budget: Spending) -> None:
        self._view = view
        self.budget = budget
        self._known: dict[int, Chances] = {}
        self._plain: DeviceList | None = None
        self.devices: Sequence[Candidate] = view.devices

    def next_match(self, request: Request, start: int, skip: int) -> int:
        """See `Candidates`."""
        known = self._chances(request)
        wanted = (known.accepted | known.failed) & ~skip >> start << start
        if not wanted:
            return -1
        lowest = wanted & -wanted
        slot = lowest.bit_length() - 1
        if known.failed & lowest:
            self.rejected_by(request, self.devices[slot])
        return slot

    def peek(self, request: Request, slot: int) -> bool | None:
        """See `Candidates`."""
        known = self._chances(request)
        if known.accepted >> slot & 1:
            return True
        return None if known.failed >> slot & 1 else False

    def matches(self, request: Request, candidate: Candidate) -> bool:
        """See `Candidates`."""
        known = self._chances(request)
        if known.failed >> candidate.slot & 1:
            return not self.rejected_by(request, candidate)
        return bool(known.accepted >> candidate.slot & 1)

    def rejected_by(self, request: Request, candidate: Candidate) -> str:
        """See `Candidates`."""
        if self._plain is None:
            self._plain = self._view.plain(self.budget)
        return self._plain.rejected_by(request, candidate)

    def _chances(self, request: Request) -> Chances:
        known = self._known.get(request.ordinal)
        if known is None:
            known = self._known[request.ordinal] = self._view.chances(
                self._view.matchers.of(request), self.budget
            )
        return known


class NodeCounters(Counters):
    """Counters that begin with a view's running sums."""

    def __init__(self, view: NodeView) -> None:
        super().__init__(view.rules)
        self._view = view

    def _pool(self, pool: Pool) -> PoolCounters:
        known = self._pools.get(pool.id)
        if known is None:
            known = self._pools[pool.id] = PoolCounters(dict(self._view.left(pool)))
        return known


class NodeLedger(Ledger):
    """A ledger that begins with a view's bit set of what is in use, and knows which devices are given whole."""

    def __init__(
        self,
        view: NodeView,
        constraints: Sequence[tuple[Constraint, ...]],
        only: frozenset[DeviceID] | None = None,
    ) -> None:
        """With `only` all other devices are as if they were in use."""
        super().__init__(view.rules, (), constraints)
        self._in_use = view.in_use
        if only is not None:
            self._in_use |= bits_of([one.id not in only for one in view.devices])
        self._whole = ~(view.partial | view.holding)
        self._counters = NodeCounters(view)

    def fits_capacity(self, request: Request, candidate: Candidate) -> bool:
        """See `Ledger`. A device that is given whole has all of its capacity left."""
        if self._whole >> candidate.slot & 1 and request.wish.capacity is None:
            return True
        return super().fits_capacity(request, candidate)

    def _amounts_at_commit(self, request: Request, candidate: Candidate) -> Amounts | None:
        if self._whole >> candidate.slot & 1 and request.wish.capacity is None:
            return {}
        return super()._amounts_at_commit(request, candidate)


def _has_terms(one: ResourceSlice) -> bool:
    """Whether there is a node selector of several terms, with which no result can be made."""
    if one.spec.per_device_node_selection:
        return any(_is_of_several(device.node_selector) for device in one.spec.devices or ())
    return _is_of_several(one.spec.node_selector)


def _is_of_several(selector: NodeSelector | None) -> bool:
    return selector is not None and len(selector.node_selector_terms) > 1
