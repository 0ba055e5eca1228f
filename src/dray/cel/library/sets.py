"""cel-go's sets: lists of which only matters what is in them."""

from __future__ import annotations

from collections.abc import Sequence

from dray.cel import types as t
from dray.cel.costs.actual_cost import actual_size
from dray.cel.costs.cost import ONE, CallEstimate, EstimateCall, SizedNode, Sizes
from dray.cel.equality import equal
from dray.cel.functions import ActualCost, Library, Overload
from dray.cel.values import EvaluationCancelledError, Value

_LIST = t.list_of(t.variable("T"))
_COMPARISONS = 4_000_000
"""More than any cost limit allows; counted before the work is done."""


def _check(left: Sequence[Value], right: Sequence[Value]) -> None:
    if len(left) * len(right) > _COMPARISONS:
        raise EvaluationCancelledError("operation cancelled: actual cost limit exceeded")


def _is_in(item: Value, items: Sequence[Value]) -> bool:
    return any(equal(item, other) for other in items)


def _contains(items: Sequence[Value], wanted: Sequence[Value]) -> Value:
    _check(items, wanted)
    return all(_is_in(item, items) for item in wanted)


def _equivalent(left: Sequence[Value], right: Sequence[Value]) -> Value:
    return _contains(left, right) and _contains(right, left)


def _intersects(left: Sequence[Value], right: Sequence[Value]) -> Value:
    _check(left, right)
    return any(_is_in(item, right) for item in left)


def _estimate(factor: int) -> EstimateCall:
    def estimate(sizes: Sizes, _: SizedNode | None, arguments: Sequence[SizedNode]) -> CallEstimate | None:
        if len(arguments) != 2:
            return None
        pairs = sizes.size(arguments[0]).times(sizes.size(arguments[1]))
        return CallEstimate(pairs.scaled(factor).plus(ONE))

    return estimate


def _cost(factor: int) -> ActualCost:
    return lambda values, _: 1 + actual_size(values[0]) * actual_size(values[1]) * factor


LIBRARY = Library(
    name="cel.lib.ext.sets",
    overloads=tuple(
        Overload(
            f"list_sets_{name}_list",
            f"sets.{name}",
            (_LIST, _LIST),
            t.BOOL,
            test,
            estimate=_estimate(factor),
            cost=_cost(factor),
        )
        for name, test, factor in (
            ("contains", _contains, 1),
            ("equivalent", _equivalent, 2),
            ("intersects", _intersects, 1),
        )
    ),
)
