"""What one part can give: the numbers of devices for each demand at once, of which none is beaten by another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import gcd
from typing import Final, NamedTuple

from dray.allocation.budget import Spending

_STATES: Final = 3_000
"""Ways to use one part that are kept apart."""

Front = tuple[tuple[int, ...], ...]
Usable = tuple[int, tuple[int, ...], list[int]]
"""A device of a part by its place there, what it needs, and which demands accept it."""


class Shape(NamedTuple):
    """Devices by their distance from the first: what each needs, and its values for each constraint, by number."""

    needs: tuple[tuple[int, tuple[int, ...]], ...]
    values: tuple[tuple[tuple[int, ...], ...], ...]


def front_of(
    shape: Shape,
    left: Sequence[int],
    members: Sequence[int],
    caps: Sequence[int],
    rows: Sequence[Sequence[int]],
    budget: Spending,
) -> Front | None:
    """What a part can give to the demands at once, no more than `caps` to each; None where that is too much work.

    All ways to use the part are walked through device by device. A way is one number: how much each demand still may
    have and what is left of each counter, in fields with a bit on top of each that is lost where a field goes below zero.
    """
    fields = _Fields()
    demands = [fields.add(cap, cap) for cap in caps]
    usable = usable_in(shape, left, members)
    budget.charge(len(shape.needs))
    takes = [0] * len(usable)
    for column, amount in _columns([needs for _, needs, _ in usable], left).items():
        unit = fields.add(amount, sum(column))
        for number, need in enumerate(column):
            takes[number] += need * unit
    apart = _apart_fields(fields, shape, usable, rows)
    options: Counter[tuple[int, ...]] = Counter()
    for number, (place, _, kinds) in enumerate(usable):
        options[
            tuple(sorted(takes[number] + demands[kind] + apart.get((place, kind), 0) for kind in kinds))
        ] += 1
    ways = _ways(fields, options, budget)
    if ways is None:
        return None
    low, guards = fields.below(len(caps))
    found: list[int] = []
    for way in sorted({way & low for way in ways}):
        budget.charge(1 + len(found) // 8)
        if not any(way - (better ^ guards) & guards == guards for better in found):
            found.append(way)
    return tuple([tuple(fields.given(way, caps)) for way in found])


def usable_in(shape: Shape, left: Sequence[int], members: Sequence[int]) -> list[Usable]:
    """The devices that some demand accepts and for which there is enough left."""
    found = []
    for place, (distance, needs) in enumerate(shape.needs):
        kinds = [kind for kind, bits in enumerate(members) if bits >> distance & 1]
        if kinds and all(need <= amount or not need for need, amount in zip(needs, left, strict=True)):
            found.append((place, needs, kinds))
    return found


class _Fields:
    """Amounts packed into one number, each with a guard bit on top."""

    def __init__(self) -> None:
        self.start = 0
        self.guards = 0
        self._offsets: list[int] = []
        self._size = 0

    def add(self, amount: int, most: int) -> int:
        """One more, that begins with `amount` and of which no more than `most` is ever taken; what 1 of it is."""
        unit = 1 << self._size
        width = max(amount, most).bit_length()
        self.start += amount * unit
        self.guards |= unit << width
        self._offsets.append(self._size)
        self._size += width + 1
        return unit

    def below(self, number: int) -> tuple[int, int]:
        """All bits of the first fields, and their guards."""
        end = self._offsets[number] if number < len(self._offsets) else self._size
        bits = (1 << end) - 1
        return bits, self.guards & bits

    def given(self, way: int, caps: Sequence[int]) -> list[int]:
        """What a way gives to each demand."""
        plain = way & ~self.guards
        ends = [*self._offsets[1:], self._size]
        return [
            cap - (plain >> start & (1 << end - start) - 1)
            for cap, start, end in zip(caps, self._offsets, ends, strict=False)
        ]


def _columns(needs: Sequence[Sequence[int]], left: Sequence[int]) -> dict[tuple[int, ...], int]:
    """What the devices need of each counter, in units, by what is left of it. Counters that suffice for all are left out."""
    found: dict[tuple[int, ...], int] = {}
    for place, amount in enumerate(left):
        column = tuple([row[place] for row in needs])
        if not any(column) or sum(column) <= amount:
            continue
        unit = gcd(*column)
        scaled = tuple([need // unit for need in column])
        found[scaled] = min(amount // unit, found.get(scaled, amount // unit))
    return found


def _apart_fields(
    fields: _Fields, shape: Shape, usable: Sequence[Usable], rows: Sequence[Sequence[int]]
) -> dict[tuple[int, int], int]:
    """By device and demand: what it takes of the values that may be had once."""
    units: dict[tuple[int, int], int] = {}
    found: dict[tuple[int, int], int] = {}
    for place, _, kinds in usable:
        for kind in kinds:
            for row in rows[kind]:
                for value in shape.values[row][place]:
                    if (row, value) not in units:
                        units[row, value] = fields.add(1, 1)
                    found[place, kind] = found.get((place, kind), 0) + units[row, value]
    return found


def _ways(fields: _Fields, options: Mapping[tuple[int, ...], int], budget: Spending) -> set[int] | None:
    """All ways to use a part; None where there are too many."""
    guards = fields.guards
    ways = {fields.start | guards}
    for takes, number in options.items():
        fresh = set(ways)
        for _ in range(number):
            budget.charge(len(fresh) * len(takes) // 4)
            fresh = {
                after for way in fresh for take in takes if (after := way - take) & guards == guards
            } - ways
            ways |= fresh
            if len(ways) > _STATES:
                return None
            if not fresh:
                break
    return ways


def most_alone(usable: Sequence[Usable], left: Sequence[int], caps: Sequence[int]) -> tuple[int, ...]:
    """The most that each demand could have if it were alone, one counter at a time."""
    found = []
    for kind, cap in enumerate(caps):
        most = cap
        mine = [needs for _, needs, kinds in usable if kind in kinds]
        for place, amount in enumerate(left):
            number = 0
            for need in sorted(needs[place] for needs in mine):
                amount -= need
                if amount < 0 < need:
                    break
                number += 1
            most = min(most, number)
        found.append(most)
    return tuple(found)
