"""Costs of the libraries' functions: estimates before a call, and what a call did cost. Formulas are cel-go's and Kubernetes'."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dray.cel.costs.actual_cost import actual_size, string_cost
from dray.cel.costs.cost import (
    LIST_COST,
    ONE,
    STRING_FACTOR,
    CallEstimate,
    EstimateCall,
    Range,
    SizedNode,
    Sizes,
    fixed,
)
from dray.cel.functions import ActualCost
from dray.cel.values import EvaluationCancelledError, Value, is_list, is_map

_STEPS = 10_000_000
"""Values looked at for one cost: lists that hold a list twice, which holds one twice, … are exponentially large."""


def walk(times: int = 1, *, keeps_size: bool = False) -> EstimateCall:
    """Over the first argument, so many times. The result is as large where `keeps_size`."""

    def estimate(sizes: Sizes, _: SizedNode | None, arguments: Sequence[SizedNode]) -> CallEstimate | None:
        if not arguments:
            return None
        size = sizes.size(arguments[0])
        return CallEstimate(size.scaled(times * STRING_FACTOR), size if keeps_size else None)

    return estimate


def walk_target(times: int = 1, *, keeps_size: bool = False) -> EstimateCall:
    """As `walk`, over the target."""

    def estimate(sizes: Sizes, target: SizedNode | None, _: Sequence[SizedNode]) -> CallEstimate | None:
        if target is None:
            return None
        size = sizes.size(target)
        return CallEstimate(size.scaled(times * STRING_FACTOR), size if keeps_size else None)

    return estimate


def walked(times: int = 1) -> ActualCost:
    """Over the first of the values, so many times."""
    return lambda values, _: string_cost(actual_size(values[0]), times)


def search_items(sizes: Sizes, target: SizedNode | None, _: Sequence[SizedNode]) -> CallEstimate | None:
    """Each item of the target once; of a string, which has no items, each character."""
    if target is None:
        return None
    size, item = sizes.size(target), sizes.items(target)
    if item is None:
        return CallEstimate(size.scaled(STRING_FACTOR))
    once = ONE
    if item.type.name in ("string", "bytes"):
        once = once.plus(sizes.size(item).scaled(STRING_FACTOR))
    return CallEstimate(size.times(once))


def searched(values: Sequence[Value], _: Value) -> int:
    """Everything within the first value."""
    left = [_STEPS]
    return _traversal(values[0], left)


def _traversal(value: Value, left: list[int]) -> int:
    """Cut, not rounded up, as Kubernetes does it here."""
    left[0] -= 1
    if left[0] < 0:
        raise EvaluationCancelledError("operation cancelled: too many nested values")
    if value.__class__ is str:
        return int(len(value.encode(errors="replace")) * STRING_FACTOR)
    if value.__class__ is bytes:
        return int(len(value) * STRING_FACTOR)
    if is_list(value):
        return sum(_traversal(item, left) for item in value)
    if is_map(value):
        return sum(_traversal(key, left) + _traversal(item, left) for key, item in value.items())
    return 1


def new_list(factor: float, size: Range) -> CallEstimate:
    """A call that makes a list of that size, with so much work an item."""
    return CallEstimate(size.scaled(factor).plus(ONE).plus(fixed(LIST_COST)), size)


def made_list(factor: float, size: int) -> int:
    """The counterpart of `new_list`."""
    return math.trunc(size * factor) + 1 + LIST_COST
