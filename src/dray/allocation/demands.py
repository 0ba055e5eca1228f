"""What is wanted of all parts together, and whether what they can give covers it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Final, NamedTuple

from dray.allocation.budget import Spending
from dray.allocation.fronts import Front

_CELLS: Final = 1 << 15
"""Sets of open demands that are kept apart."""
_DEMANDS: Final = 8
"""Demands that are told apart."""


class Want(NamedTuple):
    """So many of the devices, a bit set; `apart` are the distinctAttribute constraints that they have to keep."""

    devices: int
    number: int
    apart: frozenset[int] = frozenset()


Wants = tuple[Want, ...]
"""One of these is to be served."""


class Demands:
    """What is wanted, by kind of device. A group is for one of several kinds, each with its number."""

    def __init__(self, wanted: Iterable[Wants]) -> None:
        kinds: dict[tuple[int, frozenset[int]], int] = {}
        self._groups: list[dict[int, int]] = []
        for wants in wanted:
            group: dict[int, int] = {}
            for one in wants:
                kind = kinds.setdefault((one.devices, one.apart), len(kinds))
                group[kind] = min(one.number, group.get(kind, one.number))
            self._groups.append(group)
        self._kinds = list(kinds)
        self._count()

    def _count(self) -> None:
        self.tops = [sum(group.get(kind, 0) for group in self._groups) for kind in range(len(self._kinds))]
        self.masks = [devices for devices, _ in self._kinds]
        self.aparts = tuple([apart for _, apart in self._kinds])

    @property
    def every(self) -> int:
        """All devices that anybody may have."""
        found = 0
        for mask in self.masks:
            found |= mask
        return found

    def key(self) -> tuple[object, ...]:
        """Equal ones, with equal fronts, have equal answers."""
        return tuple(sorted(tuple(sorted(group.items())) for group in self._groups))

    def simplify(self, budget: Spending) -> None:
        """Add up kinds until there are few enough: whoever wants one kind may then have the other as well."""
        order = sorted(range(len(self._kinds)), key=lambda kind: self._kinds[kind][0])
        merged = [_Kind(*self._kinds[kind], self.tops[kind], (kind,)) for kind in order]
        while len(merged) > 1 and (len(merged) > _DEMANDS or prod(one.top + 1 for one in merged) > _CELLS):
            budget.charge(len(merged))
            at = max(range(len(merged) - 1), key=lambda place: merged[place].likeness(merged[place + 1]))
            merged[at] = merged[at].joined(merged.pop(at + 1))
        if len(merged) == len(self._kinds):
            return
        now = {kind: number for number, one in enumerate(merged) for kind in one.kinds}
        self._kinds = [(one.devices, one.apart) for one in merged]
        self._groups = [_renamed(group, now) for group in self._groups]
        self._count()

    def are_covered_by(self, fronts: Sequence[tuple[Front, int]], budget: Spending) -> bool:
        """Whether one choice from each front (so many times each) leaves nothing open.

        Bit n of `open_` stands for the demands whose numbers, written with one digit a kind, are n. What a part gives
        takes that much from each digit, down to 0.
        """
        steps, size = [], 1
        for top in self.tops:
            steps.append(size)
            size *= top + 1
        zeros = [_zeros(step, top + 1, size) for step, top in zip(steps, self.tops, strict=True)]
        cost = 1 + size // 4096
        open_ = 1
        for group in self._groups:
            open_ = _any(open_ << number * steps[kind] for kind, number in group.items())
        for front, number in fronts:
            for _ in range(number):
                after = 0
                for choice in front:
                    rest = open_
                    for given, top, step, zero in zip(choice, self.tops, steps, zeros, strict=True):
                        for _ in range(min(given, top)):
                            rest = (rest & ~zero) >> step | (rest & zero)
                    after |= rest
                budget.charge(cost * len(front))
                if after == open_:
                    break
                open_ = after
            if open_ & 1:
                return True
        return bool(open_ & 1)


class _Kind(NamedTuple):
    """One or several kinds as one: its devices, what all of them keep apart, and how many may be wanted."""

    devices: int
    apart: frozenset[int]
    top: int
    kinds: tuple[int, ...]

    def likeness(self, other: _Kind) -> float:
        """How many of the devices both accept."""
        both = (self.devices & other.devices).bit_count()
        return both / ((self.devices | other.devices).bit_count() or 1)

    def joined(self, other: _Kind) -> _Kind:
        """What either accepts, for both."""
        return _Kind(
            self.devices | other.devices,
            self.apart & other.apart,
            self.top + other.top,
            self.kinds + other.kinds,
        )


def _renamed(group: Mapping[int, int], names: Mapping[int, int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for kind, number in group.items():
        found[names[kind]] = min(number, found.get(names[kind], number))
    return found


def _any(bits: Iterable[int]) -> int:
    found = 0
    for one in bits:
        found |= one
    return found


def _zeros(step: int, base: int, size: int) -> int:
    """The numbers below `size` whose digit of this step is 0: a bit set."""
    found, length = (1 << step) - 1, step * base
    while length < size:
        found |= found << length
        length *= 2
    return found & ((1 << size) - 1)
