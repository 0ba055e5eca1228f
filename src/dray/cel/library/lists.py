"""cel-go's functions on lists (version 3): slice, flatten, sort, sortBy, distinct, reverse, lists.range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cmp_to_key

from dray.cel import types as t
from dray.cel.ast import SORT_BY_KEYS, Literal
from dray.cel.costs.actual_cost import actual_size
from dray.cel.costs.cost import MAXIMUM, STRING_FACTOR, CallEstimate, EstimateCall, SizedNode, Sizes, fixed
from dray.cel.equality import COMPARABLE, compare, equal
from dray.cel.faults import EvaluationError
from dray.cel.functions import Library, Overload
from dray.cel.library.costs import made_list, new_list
from dray.cel.syntax.macros import SORT_BY
from dray.cel.types import Type
from dray.cel.values import LIST_LIMIT, EvaluationCancelledError, Value, is_list, type_name

_T = t.variable("T")
_LIST, _LISTS, _LIST_DYN = t.list_of(_T), t.list_of(t.list_of(_T)), t.list_of(t.DYN)
_COMPARED = (t.INT, t.UINT, t.DOUBLE, t.BOOL, t.DURATION, t.TIMESTAMP, t.STRING, t.BYTES)
_TEXTS = (t.STRING, t.BYTES)
_SQUARE_LIMIT = 2000
"""Items of a list whose items are all compared with each other; their cost is above any limit, but counted too late."""


def _check_square(count: int) -> None:
    if count > _SQUARE_LIMIT:
        raise EvaluationCancelledError("operation cancelled: actual cost limit exceeded")


def _check_length(count: int) -> None:
    if count > LIST_LIMIT:
        raise EvaluationCancelledError(f"operation cancelled: list of more than {LIST_LIMIT} items")


def _slice(items: Sequence[Value], start: int, end: int) -> Value:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
    if len(items) < end:
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return tuple(items[start:end])


def _flatten(items: Value, depth: int = 1) -> Value:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    found: list[Value] = []
    for item in _flattened(items, depth):
        found.append(item)
        _check_length(len(found))
    return tuple(found)


def _flattened(items: Sequence[Value], depth: int) -> Iterator[Value]:
    """Without recursion in Python's sense: lists may be nested deeper than Python calls."""
    open_lists: list[tuple[Iterator[Value], int]] = [(iter(items), depth)]
    steps = 0
    while open_lists:
        current, left = open_lists[-1]
        for item in current:
            steps += 1
            _check_length(steps)
            if left > 0 and is_list(item):
                open_lists.append((iter(item), left - 1))
                break
            yield item
        else:
            open_lists.pop()


def _sort(items: Sequence[Value]) -> Value:
    return _sort_by_keys(items, items)


def _sort_by_keys(items: Sequence[Value], keys: Sequence[Value]) -> Value:
    if len(items) != len(keys):
        raise EvaluationError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, "
            f"but got {len(items)} and {len(keys)} elements respectively"
        )
    if not items:
        return items
    _check_square(len(items))
    kind = keys[0].__class__
    if kind not in COMPARABLE:
        raise EvaluationError("list elements must be comparable")
    if any(key.__class__ is not kind for key in keys):
        raise EvaluationError("list elements must have the same type")
    ordered = sorted(zip(keys, items, strict=True), key=cmp_to_key(_order_pairs))
    return tuple(item for _, item in ordered)


def _order(left: Value, right: Value) -> int:
    try:
        return compare(left, right)
    except EvaluationError:
        return 0  # NaN: neither comes first.


def _order_pairs(one: tuple[Value, Value], other: tuple[Value, Value]) -> int:
    return _order(one[0], other[0])


def _distinct(items: Sequence[Value]) -> Value:
    _check_square(len(items))
    found: list[Value] = []
    for item in items:
        if not any(equal(item, other) for other in found):
            found.append(item)
    return tuple(found)


def _reverse(items: Sequence[Value]) -> Value:
    return tuple(items)[::-1]


def _range(count: int) -> Value:
    _check_length(count)
    return tuple(range(count))


# Estimates.


def _literal_int(node: SizedNode, otherwise: int) -> int:
    if isinstance(node.expr, Literal) and node.expr.value.__class__ is int:
        return max(int(node.expr.value), 0)
    return otherwise


def _estimate_slice(
    sizes: Sizes, target: SizedNode | None, arguments: Sequence[SizedNode]
) -> CallEstimate | None:
    if target is None or len(arguments) != 2:
        return None
    start = _literal_int(arguments[0], 0)
    end = _literal_int(arguments[1], sizes.size(target).max)
    return new_list(1, fixed(end - start & MAXIMUM))


def _estimate_range(_: Sizes, __: SizedNode | None, arguments: Sequence[SizedNode]) -> CallEstimate | None:
    return new_list(1, fixed(_literal_int(arguments[0], MAXIMUM)))


def _estimate_reverse(sizes: Sizes, target: SizedNode | None, _: Sequence[SizedNode]) -> CallEstimate | None:
    return None if target is None else new_list(1, sizes.size(target))


def _estimate_flatten(
    sizes: Sizes, target: SizedNode | None, arguments: Sequence[SizedNode]
) -> CallEstimate | None:
    if target is None:
        return None
    depth = _literal_int(arguments[0], MAXIMUM) if arguments else 1
    return new_list(float(depth), sizes.size(target))


def _factor(item: Type | None) -> float:
    """Work for a pair of items: two comparisons, and characters are walked over."""
    return 2.0 + STRING_FACTOR if item in _TEXTS else 2.0


def _estimate_square(item: Type | None, argument: int | None = None) -> EstimateCall:
    """Each item against each, of the target or of an argument."""

    def estimate(
        sizes: Sizes, target: SizedNode | None, arguments: Sequence[SizedNode]
    ) -> CallEstimate | None:
        node = target if argument is None else arguments[argument]
        if node is None:
            return None
        size = sizes.size(node)
        return new_list(_factor(item), size.times(size))

    return estimate


# What calls did cost.


def _cost_of_result(_: Sequence[Value], result: Value) -> int:
    return made_list(1, actual_size(result))


def _cost_of_flatten(values: Sequence[Value], _: Value) -> int:
    if len(values) == 2 and values[1].__class__ is not int:
        raise _uncountable(values[1])
    return made_list(float(values[1]) if len(values) == 2 else 1.0, actual_size(values[0]))


def _uncountable(value: Value) -> EvaluationCancelledError:
    """cel-go's count of costs breaks down over what has the wrong type, an error too; nothing absorbs that."""
    cause = value if value.__class__ is EvaluationError else f"unexpected {type_name(value)}"
    return EvaluationCancelledError(f"internal error: {cause}")


def _cost_of_square(items: Value) -> int:
    if not is_list(items):
        raise _uncountable(items)
    if not items:
        return made_list(2.0, 0)
    factor = 2.0 + STRING_FACTOR if items[0].__class__ in (str, bytes) else 2.0
    return made_list(factor, len(items) ** 2)


def _sorts(item: Type) -> tuple[Overload, Overload]:
    items = t.list_of(item)
    return (
        Overload(
            f"list_{item.name}_sort",
            "sort",
            (items,),
            items,
            _sort,
            is_member=True,
            estimate=_estimate_square(item),
            cost=lambda values, _: _cost_of_square(values[0]),
        ),
        Overload(
            f"list_{item.name}_sortByAssociatedKeys",
            SORT_BY_KEYS,
            (_LIST, items),
            _LIST,
            _sort_by_keys,
            is_member=True,
            estimate=_estimate_square(item, 0),
            cost=lambda values, _: _cost_of_square(values[1]),
        ),
    )


LIBRARY = Library(
    name="cel.lib.ext.lists",
    macros=SORT_BY,
    overloads=(
        Overload(
            "list_slice",
            "slice",
            (_LIST, t.INT, t.INT),
            _LIST,
            _slice,
            is_member=True,
            estimate=_estimate_slice,
            cost=_cost_of_result,
        ),
        *(
            Overload(
                name,
                "flatten",
                parameters,
                result,
                _flatten,
                is_member=True,
                estimate=_estimate_flatten,
                cost=_cost_of_flatten,
            )
            for name, parameters, result in (
                ("list_flatten", (_LISTS,), _LIST),
                ("list_flatten_int", (_LIST_DYN, t.INT), _LIST_DYN),
            )
        ),
        *(overload for item in _COMPARED for overload in _sorts(item)),
        Overload(
            "lists_range",
            "lists.range",
            (t.INT,),
            t.list_of(t.INT),
            _range,
            estimate=_estimate_range,
            cost=_cost_of_result,
        ),
        Overload(
            "list_reverse",
            "reverse",
            (_LIST,),
            _LIST,
            _reverse,
            is_member=True,
            estimate=_estimate_reverse,
            cost=_cost_of_result,
        ),
        Overload(
            "list_distinct",
            "distinct",
            (_LIST,),
            _LIST,
            _distinct,
            is_member=True,
            estimate=_estimate_square(None),
            cost=lambda values, _: _cost_of_square(values[0]),
        ),
    ),
)
