"""Kubernetes' functions on lists: isSorted, sum, min, max, indexOf, lastIndexOf."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from dray.cel import types as t
from dray.cel.equality import compare, equal
from dray.cel.exact.arithmetic import add
from dray.cel.faults import EvaluationError
from dray.cel.functions import Implementation, Library, Overload
from dray.cel.library.costs import search_items, searched
from dray.cel.types import Type
from dray.cel.values import Duration, Uint, Value

_LIST_A = t.list_of(t.A)
_SUMMED = {
    "int": (t.INT, 0),
    "uint": (t.UINT, Uint(0)),
    "double": (t.DOUBLE, 0.0),
    "duration": (t.DURATION, Duration(0)),
}
_COMPARED = {
    "int": t.INT,
    "uint": t.UINT,
    "double": t.DOUBLE,
    "bool": t.BOOL,
    "duration": t.DURATION,
    "timestamp": t.TIMESTAMP,
    "string": t.STRING,
    "bytes": t.BYTES,
}


def _order(left: Value, right: Value) -> int:
    """As `compare`; where there is no order (NaN), neither is larger."""
    try:
        return compare(left, right)
    except EvaluationError:
        return 0


def _is_sorted(items: Sequence[Value]) -> Value:
    return all(_order(one, other) <= 0 for one, other in pairwise(items))


def _sum(zero: Value) -> Implementation:
    def total(items: Sequence[Value]) -> Value:
        result = zero
        for item in items:
            result = add(result, item)
        return result

    return total


def _extreme(function: str, replaced_if: int) -> Implementation:
    """The first of the items that no other beats."""

    def find(items: Sequence[Value]) -> Value:
        if not items:
            raise EvaluationError(f"{function} called on empty list")
        best = items[0]
        for item in items:
            if _order(best, item) == replaced_if:
                best = item
        return best

    return find


def _index_of(items: Sequence[Value], wanted: Value) -> Value:
    return next((at for at, item in enumerate(items) if equal(item, wanted)), -1)


def _last_index_of(items: Sequence[Value], wanted: Value) -> Value:
    found = -1
    for at, item in enumerate(items):
        if equal(item, wanted):
            found = at
    return found


def _member(
    name: str, function: str, parameters: tuple[Type, ...], result: Type, call: Implementation
) -> Overload:
    return Overload(
        name, function, parameters, result, call, is_member=True, estimate=search_items, cost=searched
    )


_MIN, _MAX = _extreme("min", 1), _extreme("max", -1)

LIBRARY = Library(
    name="kubernetes.lists",
    overloads=(
        *(
            _member(f"list_{name}_is_sorted_bool", "isSorted", (t.list_of(item),), t.BOOL, _is_sorted)
            for name, item in _COMPARED.items()
        ),
        *(
            _member(f"list_{name}_sum_{name}", "sum", (t.list_of(item),), item, _sum(zero))
            for name, (item, zero) in _SUMMED.items()
        ),
        *(
            _member(f"list_{name}_max_{name}", "max", (t.list_of(item),), item, _MAX)
            for name, item in _COMPARED.items()
        ),
        *(
            _member(f"list_{name}_min_{name}", "min", (t.list_of(item),), item, _MIN)
            for name, item in _COMPARED.items()
        ),
        _member("list_a_index_of_int", "indexOf", (_LIST_A, t.A), t.INT, _index_of),
        _member("list_a_last_index_of_int", "lastIndexOf", (_LIST_A, t.A), t.INT, _last_index_of),
    ),
)
