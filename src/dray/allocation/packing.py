"""Whether what is left of the shared counters has room for everything that is still wanted.

A *part* is a set of devices that draw on the same counters: a GPU and all that it can be cut into. What a part can serve
does not depend on other parts, so the question falls into two exact ones:

- for each part its *front*: the numbers of devices it can give to each demand at once, as far as none is beaten by
  another. Parts that look the same (same devices wanted by the same demands, same amounts left) share one, so that eight
  equal GPUs cost as much as one;
- whether one choice from each front adds up to what is wanted. The sets of demands that may be left open are kept as one
  bit each, so that a part is a few shifts, and alternatives of a request are simply several sets to begin with.

Where that would be too much (`_STATES` in `fronts.py`, `_CELLS` in `demands.py`), a front is replaced by what each demand could have alone, and demands
are added up to one for what either accepts. Both only ever allow more. So do the rules left out: whatever else forbids a
device, and all devices without counters, which everybody may count on. A `False` is therefore certain; the proof is in
tests/allocation/test_packing.py, against trying everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dray.allocation.budget import Spending
from dray.allocation.candidates import Candidate, CounterKey
from dray.allocation.constraints import MISSING, UNKNOWN, Constraint, Value
from dray.allocation.demands import Demands, Want, Wants
from dray.allocation.fronts import Front, Shape, front_of, most_alone, usable_in
from dray.allocation.ledger import Ledger
from dray.semantics.pools import PoolID

_MEMORY: Final = 20_000
"""Answers and fronts that are remembered."""

Place = tuple[PoolID, CounterKey]


@dataclass(frozen=True, slots=True)
class _Part:
    """Devices that draw on the same counters. `shape` is all of it but where it lies; `needs` are by device and place."""

    mask: int
    low: int
    places: tuple[Place, ...]
    left: tuple[int, ...]
    shape: int


class Packing:
    """For one search."""

    def __init__(
        self,
        devices: Sequence[Candidate],
        ledger: Ledger,
        apart: Sequence[Constraint],
        budget: Spending,
    ) -> None:
        self._ledger = ledger
        self._budget = budget
        self._parts: list[_Part] = []
        self._shapes: dict[Shape, int] = {}
        self._part_of: dict[Place, int] = {}
        self._fronts: dict[tuple[object, ...], int] = {}
        self._known_fronts: list[Front] = []
        self._answers: dict[tuple[object, ...], bool] = {}
        self.counted = 0
        self.is_loose = False
        self._build(devices, apart)

    @property
    def constraints(self) -> frozenset[int]:
        """The constraints that count here, by identity: those of which no value occurs in two parts."""
        return self._apart

    def is_possible(self, wanted: Iterable[Wants], forced: int, *, at_first: bool) -> bool:
        """Whether all that is wanted fits at once, with `forced` devices taken before."""
        if len(self._known_fronts) > _MEMORY or len(self._answers) > _MEMORY:
            self._fronts.clear()
            self._known_fronts.clear()
            self._answers.clear()
        lefts = self._lefts(forced, at_first)
        if lefts is None:
            return False
        groups = Demands(one for one in map(self._of_counters, wanted) if one)
        if not groups.masks:
            return True
        groups.simplify(self._budget)
        fronts = self._fronts_for(groups, lefts, forced)
        key = (groups.key(), tuple(sorted(fronts.items())))
        known = self._answers.get(key)
        if known is None:
            chosen = [(self._known_fronts[front], number) for front, number in fronts.items()]
            known = self._answers[key] = groups.are_covered_by(chosen, self._budget)
        return known

    def _of_counters(self, wants: Wants) -> Wants:
        """What is to be had from parts; () where other devices suffice."""
        found = []
        for one in wants:
            number = one.number - (one.devices & ~self.counted).bit_count()
            if number <= 0:
                return ()
            found.append(Want(one.devices & self.counted, number, one.apart & self._apart))
        return tuple(found)

    def _lefts(self, forced: int, at_first: bool) -> dict[int, tuple[int, ...]] | None:
        """What is left of the parts that picks or `forced` devices draw on; None where that is less than nothing."""
        taken: Mapping[Place, int] = {} if at_first else self._ledger.counters_taken()
        touched = {self._part_of[place] for place in taken if place in self._part_of}
        forced &= self.counted
        if forced:
            self._budget.charge(len(self._parts))
            touched |= {number for number, part in enumerate(self._parts) if part.mask & forced}
        found = {}
        for number in touched:
            part = self._parts[number]
            left = [
                amount - taken.get(place, 0) for place, amount in zip(part.places, part.left, strict=True)
            ]
            for distance, needs in self._shape(part).needs if part.mask & forced else ():
                if forced >> part.low + distance & 1:
                    left = [amount - need for amount, need in zip(left, needs, strict=True)]
                    # What nobody here consumes may be below zero, and harms nobody.
                    if any(amount < 0 < need for amount, need in zip(left, needs, strict=True)):
                        return None
            found[number] = tuple(left)
            self._budget.charge(len(left))
        return found

    def _shape(self, part: _Part) -> Shape:
        return self._shape_list[part.shape]

    def _fronts_for(
        self, demands: Demands, lefts: Mapping[int, tuple[int, ...]], forced: int
    ) -> Counter[int]:
        """By front, how many parts have it. Parts without a device for anybody are left out."""
        found: Counter[int] = Counter()
        every = demands.every & ~forced
        for number, part in enumerate(self._parts):
            if not part.mask & every:
                continue
            self._budget.charge(len(demands.masks))
            here = part.mask & ~forced
            members = tuple([(mask & here) >> part.low for mask in demands.masks])
            caps = tuple(
                [min(bits.bit_count(), top) for bits, top in zip(members, demands.tops, strict=True)]
            )
            left = lefts.get(number, part.left)
            key = (part.shape, left, members, caps, demands.aparts)
            front = self._fronts.get(key)
            if front is None:
                made = self._front(self._shape(part), left, members, caps, self._rows(demands))
                front = self._fronts[key] = len(self._known_fronts)
                self._known_fronts.append(made)
            found[front] += 1
        return found

    def _front(
        self,
        shape: Shape,
        left: Sequence[int],
        members: Sequence[int],
        caps: Sequence[int],
        rows: Sequence[Sequence[int]],
    ) -> Front:
        exact = front_of(shape, left, members, caps, rows, self._budget)
        if exact is not None:
            return exact
        self.is_loose = True
        return (most_alone(usable_in(shape, left, members), left, caps),)

    def _rows(self, demands: Demands) -> list[list[int]]:
        """By demand: which rows of a shape's `values` its devices have to keep apart."""
        order = {id(one): row for row, one in enumerate(self._order)}
        return [sorted(order[one] for one in apart) for apart in demands.aparts]

    def _build(self, devices: Sequence[Candidate], apart: Sequence[Constraint]) -> None:
        # Who consumes less than nothing makes room for others; shares of a device are charged once.
        odd = {one.pool.id for one in devices if any(amount < 0 for _, amount in one.consumes)}
        groups = _Groups()
        members: list[tuple[Candidate, dict[Place, int]]] = []
        for one in devices:
            self._budget.charge()
            needs: dict[Place, int] = {}
            if not one.is_shareable and one.pool.id not in odd:
                for key, amount in one.consumes:
                    if amount:
                        needs[one.pool.id, key] = needs.get((one.pool.id, key), 0) + amount
            if needs:
                members.append((one, needs))
                groups.join(needs)
        by_part: dict[Place, list[tuple[Candidate, dict[Place, int]]]] = {}
        for member in members:
            by_part.setdefault(groups.of(next(iter(member[1]))), []).append(member)
        self._order = [one for one in apart if self._is_local(one, by_part.values())]
        self._apart = frozenset(map(id, self._order))
        for some in by_part.values():
            self._add(some)
        self._shape_list = list(self._shapes)

    def _is_local(
        self, constraint: Constraint, parts: Iterable[Sequence[tuple[Candidate, dict[Place, int]]]]
    ) -> bool:
        """Whether no value occurs in two parts, so that keeping devices apart concerns each part alone."""
        seen: set[Value] = set()
        for some in parts:
            values = {value for one, _ in some for value in _values(constraint, one)}
            self._budget.charge(len(some))
            if not seen.isdisjoint(values):
                return False
            seen |= values
        return True

    def _add(self, some: Sequence[tuple[Candidate, dict[Place, int]]]) -> None:
        low = min(one.slot for one, _ in some)
        places = sorted({place for _, needs in some for place in needs}, key=_by_counter)
        first = {one.pool.id: one.pool for one, _ in some}
        left = {pool: self._ledger.counters_at_first(known) for pool, known in first.items()}
        needs = tuple(
            [
                (one.slot - low, tuple([needs.get(place, 0) for place in places]))
                for one, needs in sorted(some, key=lambda member: member[0].slot)
            ]
        )
        slots = sorted((one for one, _ in some), key=lambda one: one.slot)
        values = tuple([_numbered([_values(one, device) for device in slots]) for one in self._order])
        shape = self._shapes.setdefault(Shape(needs, values), len(self._shapes))
        mask = sum(1 << one.slot for one in slots)
        self._budget.charge(len(some) * (1 + len(places)))
        for place in places:
            self._part_of[place] = len(self._parts)
        amounts = tuple([left[pool].get(key, 0) for pool, key in places])
        self._parts.append(_Part(mask, low, tuple(places), amounts, shape))
        self.counted |= mask


class _Groups:
    """Places that some device needs together, directly or by way of others."""

    def __init__(self) -> None:
        self._leader: dict[Place, Place] = {}

    def of(self, place: Place) -> Place:
        """The same for all of a group."""
        leader = self._leader
        leader.setdefault(place, place)
        while leader[place] != place:
            leader[place] = place = leader[leader[place]]
        return place

    def join(self, places: Iterable[Place]) -> None:
        """Make one group of those of the places."""
        leaders = [self.of(place) for place in places]
        for one in leaders:
            self._leader[one] = leaders[0]


def _by_counter(place: Place) -> tuple[str, str, PoolID]:
    """Counters of one name come together, so that sets of the same counters are alike."""
    pool, (counter_set, name) = place
    return name, counter_set, pool


def _values(constraint: Constraint, candidate: Candidate) -> tuple[Value, ...]:
    """Those that another device must not have where they are to be kept apart."""
    value = constraint.value(candidate)
    return () if value in (MISSING, UNKNOWN) else constraint.elements(value)


def _numbered(values: Sequence[Sequence[Value]]) -> tuple[tuple[int, ...], ...]:
    """Equal values get equal numbers, in order."""
    numbers: dict[Value, int] = {}
    return tuple([tuple([numbers.setdefault(one, len(numbers)) for one in some]) for some in values])
