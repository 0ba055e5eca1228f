"""What an expression may cost: the numbers that estimates are made of, and what a function's own estimate gets and gives.

A cost is what cel-go counts: about one per step and a tenth per character that is walked over. Estimates are ranges, from
what must be paid to what may be; they saturate at 64 bits, as cel-go's do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from dray.cel.ast import Expr
from dray.cel.types import Type

MAXIMUM = 2**64 - 1
SELECT_COST = 1
LIST_COST = 10
MAP_COST = 30
STRUCT_COST = 40
STRING_FACTOR = 0.1
"""Per character, for walking over a string once."""
REGEX_FACTOR = 0.25
"""Per character of a pattern, applied to each unit of the string it runs over."""


class Range(NamedTuple):
    """At least and at most: of a cost, or of a size (characters, bytes, items, entries)."""

    min: int
    max: int

    def plus(self, other: Range) -> Range:
        """The sum."""
        return Range(min(self.min + other.min, MAXIMUM), min(self.max + other.max, MAXIMUM))

    def times(self, other: Range) -> Range:
        """The product."""
        return Range(min(self.min * other.min, MAXIMUM), min(self.max * other.max, MAXIMUM))

    def scaled(self, factor: float) -> Range:
        """Times a cost factor, rounded up."""
        return Range(_scale(self.min, factor), _scale(self.max, factor))

    def union(self, other: Range) -> Range:
        """What covers both."""
        return Range(min(self.min, other.min), max(self.max, other.max))


def _scale(size: int, factor: float) -> int:
    product = float(size) * factor
    return MAXIMUM if product >= 2.0**64 else math.ceil(product)


def fixed(amount: int) -> Range:
    """Exactly that."""
    return Range(amount, amount)


NOTHING = fixed(0)
ONE = fixed(1)
UNKNOWN = Range(0, MAXIMUM)


@dataclass(frozen=True, slots=True)
class SizedNode:
    """An argument as an estimate sees it. `path` leads from a variable through fields, `@items`, `@keys`, `@values`, or is
    empty; `size` is None where the expression itself does not tell; `expr` is None for the items of a list."""

    type: Type
    path: tuple[str, ...] = ()
    expr: Expr | None = None
    size: Range | None = None


class CallEstimate(NamedTuple):
    """The cost of a call without that of its arguments, and the size of its result where it has one and it is known."""

    cost: Range
    result_size: Range | None = None


SizeHint = Callable[[SizedNode], Range | None]
"""Given by whoever declares the variables: how large what lies at a path can be. None where it does not know."""


class Sizes(Protocol):
    """Handed to a function's estimate."""

    def size(self, node: SizedNode) -> Range:
        """How large: by the expression, else by the hint, else unknown."""

    def items(self, node: SizedNode) -> SizedNode | None:
        """Stands for any item of a list; None where the type has no parameter, as for a string."""


EstimateCall = Callable[[Sizes, SizedNode | None, Sequence[SizedNode]], CallEstimate | None]
"""(sizes, target or None, arguments without the target) to an estimate; None stands for a cost of 1."""
