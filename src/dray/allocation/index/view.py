"""A node as the index keeps it: its devices with a slot each, and bit sets over the slots (bit n stands for slot n)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from dray.allocation.candidates import Candidate, CounterKey, DeviceList, counters_of, devices_of
from dray.allocation.capacity import Amounts
from dray.allocation.constraints import Constraint
from dray.allocation.counters import Counters, _PoolCounters
from dray.allocation.faults import AllocationError
from dray.allocation.features import Tier
from dray.allocation.index.matches import Matcher, Matchers, is_sound
from dray.allocation.ledger import Ledger
from dray.allocation.pools import Pool, PoolID, device_is_for
from dray.allocation.requests import Request
from dray.allocation.selector import CompiledSelectors
from dray.allocation.state import DeviceID, Rules
from dray.api.core.node import Node
from dray.api.resource.slice import Device, ResourceSlice, ResourceSliceSpec
from dray.api.taints import untolerated

KEPT_CHANCES: Final = 256
"""Kinds of requests that a view remembers."""


@dataclass(frozen=True, slots=True)
class Chances:
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
        matchers: Matchers,
        selectors: CompiledSelectors,
    ) -> None:
        self.node = node
        self.pools = pools
        self.rules = rules
        self._matchers = matchers
        self._selectors = selectors
        found: list[Candidate] = []
        for pool in pools:
            if pool.is_usable:
                found.extend(devices_of(pool, len(found), rules.features))
        self.devices: tuple[Candidate, ...] = tuple(found)
        self.slots = {one.id: one.slot for one in found}
        self.is_invalid = any(pool.invalid for pool in pools)
        self.may_lack_result = any(_has_terms(one) for pool in pools for one in pool.slices)
        in_use, holding = rules.allocated.devices, rules.allocated.capacity
        self.in_use = self.holding = self.whole = self.consuming = 0
        lists = rules.features.list_type_attributes
        self._sound: list[bool] = []
        bit = 1
        for one in found:
            self._sound.append(is_sound(one.device, lists=lists))
            if one.id in in_use:
                self.in_use |= bit
            if one.id in holding:
                self.holding |= bit
            if _is_whole(one):
                self.whole |= bit
            if one.consumes:
                self.consuming |= bit
            bit <<= 1
        self._chances: dict[tuple[Matcher, Hashable], Chances] = {}
        self._counters: dict[PoolID, _RunningSums] = {}

    def plain(self) -> DeviceList:
        """The view without an index, for errors with their texts and for explanations. It is for one question."""
        rules = self.rules
        return DeviceList(self.pools, self.node, self._selectors, rules.features, rules.profile)

    def touch(self, device: DeviceID) -> None:
        """What is in use of the device is another thing now."""
        rules, slot = self.rules, self.slots.get(device)
        if slot is not None:
            bit = 1 << slot
            self.in_use = self.in_use | bit if device in rules.allocated.devices else self.in_use & ~bit
            self.holding = self.holding | bit if device in rules.allocated.capacity else self.holding & ~bit
        sums = self._counters.get(PoolID(device.driver, device.pool))
        if sums is not None:
            sums.touch(device)

    def chances(self, request: Request) -> Chances:
        """Worked out once for requests with the same selectors and tolerations."""
        matcher, tolerations = self._matchers.of(request), request.wish.tolerations
        found = self._chances.get((matcher, tolerations))
        if found is None:
            if len(self._chances) >= KEPT_CHANCES:
                self._chances.clear()
            found = self._chances[matcher, tolerations] = self._new_chances(matcher, request)
        return found

    def _new_chances(self, matcher: Matcher, request: Request) -> Chances:
        has_binding = self.rules.features.device_binding_and_status
        accepted = failed = barred = 0
        bit = 1
        answer: bool | None
        for one, sound in zip(self.devices, self._sound, strict=True):
            device = one.device
            if device.binding_conditions and not has_binding:
                answer = False
            else:
                answer = matcher.of(one.id.driver, device, sound)
                if answer and one.spec.per_device_node_selection:
                    answer = self._is_for(device)
            if answer:
                accepted |= bit
                if (device.taints or one.consumes) and self._is_barred(request, one):
                    barred |= bit
            elif answer is None:
                failed |= bit
            bit <<= 1
        return Chances(accepted, failed, accepted & ~barred)

    def _is_for(self, device: Device) -> bool | None:
        try:
            return device_is_for(self.node, device)
        except AllocationError:
            return None

    def _is_barred(self, request: Request, one: Candidate) -> bool:
        features = self.rules.features
        if one.consumes and not features.partitionable_devices:
            return True
        return features.device_taints and bool(untolerated(one.device.taints, request.wish.tolerations))

    def left(self, pool: Pool) -> dict[CounterKey, int]:
        """What is left of the pool's counters: a running sum."""
        sums = self._counters.get(pool.id)
        if sums is None:
            known = [one for one in self.devices if one.consumes and one.pool is pool]
            sums = self._counters[pool.id] = _RunningSums(pool, known, self.rules)
        return sums.left


class NodeCandidates:
    """The search's `Candidates`, from a view's bit sets. For one question."""

    def __init__(self, view: NodeView) -> None:
        self._view = view
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
            self._plain = self._view.plain()
        return self._plain.rejected_by(request, candidate)

    def _chances(self, request: Request) -> Chances:
        known = self._known.get(request.ordinal)
        if known is None:
            known = self._known[request.ordinal] = self._view.chances(request)
        return known


class _RunningSums:
    """What is left of one pool's counters, with everything in use taken off."""

    def __init__(self, pool: Pool, here: Sequence[Candidate], rules: Rules) -> None:
        self._rules = rules
        self._consumed = {one.id: one.consumes for one in here}
        self._charged: set[DeviceID] = set()
        self.left = dict(pool.counters)
        for one in pool.elsewhere:
            for device in one.spec.devices or ():
                if device.consumes_counters:
                    identity = DeviceID(pool.id.driver, pool.id.pool, device.name)
                    self._consumed[identity] = (*self._consumed.get(identity, ()), *counters_of(device))
        for identity in self._consumed:
            self.touch(identity)

    def touch(self, device: DeviceID) -> None:
        """Charge the device, or stop to, if that is not what is done already."""
        is_held = self._is_held(device)
        if is_held is (device in self._charged):
            return
        (self._charged.add if is_held else self._charged.discard)(device)
        for key, amount in self._consumed.get(device, ()):
            if key in self.left:
                self.left[key] -= amount if is_held else -amount

    def _is_held(self, device: DeviceID) -> bool:
        rules = self._rules
        if device in rules.allocated.devices:
            return True
        return rules.tier is not Tier.STABLE and (
            device in rules.shared or device in rules.allocated.capacity
        )


class NodeCounters(Counters):
    """Counters that begin with a view's running sums."""

    def __init__(self, view: NodeView) -> None:
        super().__init__(view.rules)
        self._view = view

    def _pool(self, pool: Pool) -> _PoolCounters:
        known = self._pools.get(pool.id)
        if known is None:
            known = self._pools[pool.id] = _PoolCounters(dict(self._view.left(pool)))
        return known


class NodeLedger(Ledger):
    """A ledger that begins with a view's bit set of what is in use, and knows which devices are given whole."""

    def __init__(self, view: NodeView, constraints: Sequence[tuple[Constraint, ...]]) -> None:
        super().__init__(view.rules, (), constraints)
        self._in_use = view.in_use
        self._whole = view.whole & ~view.holding
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
    sources: Iterable[ResourceSliceSpec | Device] = (one.spec,)
    if one.spec.per_device_node_selection:
        sources = one.spec.devices or ()
    return any(
        source.node_selector is not None and len(source.node_selector.node_selector_terms) > 1
        for source in sources
    )


def _is_whole(candidate: Candidate) -> bool:
    """Whether capacity cannot keep the device from a request that names no amounts: it is given as a whole."""
    if candidate.is_shareable:
        return False
    for one in candidate.device.capacity.values():
        if one.request_policy is not None or one.value.nano < 0:
            return False
    return True
