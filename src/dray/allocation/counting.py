"""Whether there are devices enough for several requests at once, each device for one of them.

Bit sets are ints: bit n stands for slot n.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dray.allocation.budget import Spending
from dray.allocation.candidates import Candidate, CounterKey
from dray.allocation.ledger import Ledger
from dray.allocation.pools import Pool
from dray.semantics.pools import PoolID


class Matching:
    """Devices set aside for demands, one demand after another. Earlier ones move to other devices where that helps."""

    def __init__(self, budget: Spending) -> None:
        self._budget = budget
        self._wanted: list[int] = []
        self._held: list[int] = []
        self._used = 0

    def add(self, devices: int, number: int) -> bool:
        """Set `number` of `devices` aside for one more demand; False where all demands together want too much."""
        if devices.bit_count() < number:
            return False
        taken = highest(devices & ~self._used, number)
        self._used |= taken
        self._wanted.append(devices)
        self._held.append(taken)
        return all(self._one_more() for _ in range(number - taken.bit_count()))

    def _one_more(self) -> bool:
        """A device more for the last demand: breadth first over who could give one away and take another instead."""
        last = len(self._held) - 1
        came = {last: (-1, 0)}
        queue = [last]
        for one in queue:
            self._budget.charge(1 + len(self._held))
            free = self._wanted[one] & ~self._used
            if free:
                self._move(one, free & -free, came)
                return True
            for other, held in enumerate(self._held):
                given = held & self._wanted[one]
                if given and other not in came:
                    came[other] = (one, given & -given)
                    queue.append(other)
        return False

    def _move(self, one: int, slot: int, came: dict[int, tuple[int, int]]) -> None:
        self._used |= slot
        while one >= 0:
            before, given = came[one]
            self._held[one] = (self._held[one] | slot) & ~given
            one, slot = before, given


def highest(devices: int, number: int) -> int:
    """At most so many of the devices, those that first-fit comes to last."""
    if devices.bit_count() <= number:
        return devices
    left = devices
    for _ in range(number):
        left ^= 1 << (left.bit_length() - 1)
    return devices ^ left


class CounterRoom:
    """How many devices cannot be had together because the counters of their pools do not suffice for all."""

    def __init__(self, devices: Sequence[Candidate], ledger: Ledger, budget: Spending) -> None:
        self._ledger = ledger
        self._budget = budget
        self._gone_at_first: int | None = None
        self._pools: dict[PoolID, Pool] = {}
        self._consumers: dict[tuple[PoolID, CounterKey], list[tuple[int, int]]] = {}
        self._left: dict[PoolID, Mapping[CounterKey, int]] = {}
        # Who consumes less than nothing makes room for others; shares of a device are charged once.
        odd = {one.pool.id for one in devices if any(amount < 0 for _, amount in one.consumes)}
        for one in devices:
            budget.charge(1 + len(one.consumes))
            if one.is_shareable or one.pool.id in odd:
                continue
            for key, amount in one.consumes:
                if amount:
                    self._pools[one.pool.id] = one.pool
                    self._consumers.setdefault((one.pool.id, key), []).append((amount, one.slot))
        for consumers in self._consumers.values():
            consumers.sort()

    def gone(self, *, at_first: bool = False) -> int:
        """The devices of which each alone wants more than is left: a bit set."""
        if self._gone_at_first is None:
            self._gone_at_first = self._gone_from(dict.fromkeys(self._consumers, 0))
        if at_first:
            return self._gone_at_first
        # Only what was drawn on has less than it had.
        return self._gone_at_first | self._gone_from(self._ledger.counters_taken())

    def _gone_from(self, taken: Mapping[tuple[PoolID, CounterKey], int]) -> int:
        found = 0
        for place, amounts in taken.items():
            consumers = self._consumers.get(place, ())
            left = self._at_first(*place) - amounts if consumers else 0
            for amount, slot in reversed(consumers):
                if amount <= left:
                    break
                found |= 1 << slot
            self._budget.charge()
        return found

    def lost(self, devices: int, *, at_first: bool = False) -> int:
        """Of the devices at least so many are out of reach, with the counters as they stand or `at_first`."""
        taken = {} if at_first else self._ledger.counters_taken()
        found = []
        for place, consumers in self._consumers.items():
            self._budget.charge(len(consumers))
            left = self._at_first(*place) - taken.get(place, 0)
            concerned, number = 0, 0
            for amount, slot in consumers:
                if devices >> slot & 1:
                    concerned |= 1 << slot
                    left -= amount
                    number += left < 0
            if number:
                found.append((number, concerned))
        total, seen = 0, 0
        for number, concerned in sorted(found, reverse=True):
            if not concerned & seen:
                total += number
                seen |= concerned
        return total

    def _at_first(self, pool: PoolID, key: CounterKey) -> int:
        known = self._left.get(pool)
        if known is None:
            known = self._left[pool] = self._ledger.counters_at_first(self._pools[pool])
        return known.get(key, 0)
