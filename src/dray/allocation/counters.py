"""Shared counters: what the devices of a pool draw on together. Amounts are in billionths."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from dray.allocation.candidates import Candidate, CounterKey, counters_of
from dray.allocation.features import Tier
from dray.allocation.pools import Pool
from dray.allocation.state import DeviceID, Rules
from dray.semantics.pools import PoolID


class PoolCounters:
    """What is left of one pool's counters; may be below zero where more was given than there is."""

    __slots__ = ("is_overdrawn", "left")

    def __init__(self, left: dict[CounterKey, int]) -> None:
        self.left = left
        self.is_overdrawn = any(amount < 0 for amount in left.values())


class Counters:
    """The counters of all pools in one search. `take` and `give_back` come in pairs, last in first out."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._pools: dict[PoolID, PoolCounters] = {}
        self._taken: dict[tuple[PoolID, CounterKey], int] = {}

    def take(self, candidate: Candidate) -> bool:
        """Reserve what the device consumes, unless some counter has not enough left."""
        pool = self._pool(candidate.pool)
        if pool.is_overdrawn and self._rules.profile.overdrawn_counter_blocks_pool:
            return False
        left = pool.left
        self._move(candidate, 1)
        if all(left[key] >= 0 for key, _ in candidate.consumes):
            return True
        self.give_back(candidate)
        return False

    def give_back(self, candidate: Candidate) -> None:
        """Undo a `take`."""
        self._move(candidate, -1)

    def taken(self) -> Mapping[tuple[PoolID, CounterKey], int]:
        """What the picks so far took."""
        return self._taken

    def state(self) -> Hashable:
        """What the picks so far took, to compare and to keep."""
        return frozenset(self._taken.items())

    def left(self, pool: Pool) -> Mapping[CounterKey, int]:
        """What is left of a pool's counters now; it changes with what is taken."""
        return self._pool(pool).left

    def _move(self, candidate: Candidate, sign: int) -> None:
        left, taken = self._pool(candidate.pool).left, self._taken
        for key, amount in candidate.consumes:
            left[key] -= sign * amount
            place = (candidate.pool.id, key)
            now = taken.get(place, 0) + sign * amount
            if now:
                taken[place] = now
            else:
                taken.pop(place, None)

    def _pool(self, pool: Pool) -> PoolCounters:
        known = self._pools.get(pool.id)
        if known is None:
            known = self._pools[pool.id] = PoolCounters(counters_left(pool, self._rules))
        return known


def counters_left(pool: Pool, rules: Rules) -> dict[CounterKey, int]:
    """What devices that are in use leave of a pool's counters; below zero where more was given than there is."""
    left = dict(pool.counters)
    for key, amount in _consumed(pool, rules):
        if key in left:
            left[key] -= amount
    return left


def _consumed(pool: Pool, rules: Rules) -> Iterator[tuple[CounterKey, int]]:
    """What devices that are in use take, here and on other nodes. The stable tier does not know of shares."""
    for one in (*pool.slices, *pool.elsewhere):
        for device in one.spec.devices or ():
            if not device.consumes_counters:
                continue
            identity = DeviceID(pool.id.driver, pool.id.pool, device.name)
            is_shared = rules.tier is not Tier.STABLE and (
                identity in rules.shared or identity in rules.allocated.capacity
            )
            if is_shared or identity in rules.allocated.devices:
                yield from counters_of(device)
