"""What a call did cost, by the values it was made with. The counterpart of `cost`; formulas are cel-go's and Kubernetes'."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dray.cel.costs.cost import REGEX_FACTOR, STRING_FACTOR
from dray.cel.faults import EvaluationError
from dray.cel.values import Opaque, Optional, Value, is_list, is_map

_SIMPLE = frozenset({bool, int, float, type(None), EvaluationError})
Count = Callable[[Sequence[Value], Value], int]


def actual_size(value: Value) -> int:
    """Characters, bytes, items or entries; 1 for what has no size, and for errors."""
    kind = value.__class__
    if kind is str or kind is bytes or is_list(value) or is_map(value):
        return len(value)
    if kind in _SIMPLE:
        return 1
    if isinstance(value, Opaque) and hasattr(value, "__len__"):
        return len(value)
    if value.__class__ is Optional and value.has_value:
        return actual_size(value.content)
    return 1


def string_cost(size: int, times: float = 1) -> int:
    """For walking over so many characters."""
    return math.ceil(size * times * STRING_FACTOR)


def regex_cost(size: int, pattern_size: int) -> int:
    """For running a pattern over so many characters; an empty string counts as one."""
    return math.ceil((1.0 + size) * STRING_FACTOR) * math.ceil(pattern_size * REGEX_FACTOR)


def of_first(arguments: Sequence[Value], _: Value) -> int:
    """A walk over the first argument."""
    return string_cost(actual_size(arguments[0]))


def of_smaller(arguments: Sequence[Value], _: Value) -> int:
    """A walk over the smaller of two."""
    return string_cost(min(actual_size(arguments[0]), actual_size(arguments[1])))


def of_both(arguments: Sequence[Value], _: Value) -> int:
    """A walk over two."""
    return string_cost(actual_size(arguments[0]) + actual_size(arguments[1]))


def of_product(arguments: Sequence[Value], _: Value) -> int:
    """Each part of one against each of the other."""
    return string_cost(actual_size(arguments[0])) * string_cost(actual_size(arguments[1]))


def of_pattern(arguments: Sequence[Value], _: Value) -> int:
    """A pattern, the second, over the first."""
    return regex_cost(actual_size(arguments[0]), actual_size(arguments[1]))


def of_items(arguments: Sequence[Value], _: Value) -> int:
    """Every item of the second, a list."""
    return actual_size(arguments[1])
