"""The functions and operators every CEL has, with cel-go's ids. `&&`, `||`, `?:`, indexing and selection are evaluated in
place (`dray.cel.exact.closures`) and stand here for their types only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dray.cel import ast, equality, times
from dray.cel import types as t
from dray.cel.costs import actual_cost
from dray.cel.exact import arithmetic
from dray.cel.exact.conversions import CONVERSIONS
from dray.cel.faults import EvaluationError
from dray.cel.functions import ActualCost, Implementation, Library, Overload
from dray.cel.library import patterns
from dray.cel.library import standard_costs as estimates
from dray.cel.syntax.macros import STANDARD
from dray.cel.types import Type
from dray.cel.values import Value, is_list, is_map, type_of

_LIST_A, _MAP_AB = t.list_of(t.A), t.map_of(t.A, t.B)


def _in_place(*_: Value) -> Value:
    raise EvaluationError("no such overload")


def _not(value: Value) -> Value:
    if value.__class__ is not bool:
        raise EvaluationError("no such overload")
    return not value


def _not_strictly_false(value: Value) -> Value:
    return value if value.__class__ is bool else True


def _order(function: str, accepted: tuple[int, ...]) -> Implementation:
    def compare(left: Value, right: Value) -> Value:
        if left.__class__ not in equality.COMPARABLE:
            raise EvaluationError(f"no such overload: {function}")
        return equality.compare(left, right) in accepted

    return compare


def _size(value: Value) -> Value:
    if value.__class__ is str or value.__class__ is bytes or is_list(value) or is_map(value):
        return len(value)
    raise EvaluationError("no such overload: size")


def _of_strings(operation: Callable[[str, str], bool]) -> Implementation:
    def call(text: Value, other: Value) -> Value:
        if text.__class__ is not str or other.__class__ is not str:
            raise EvaluationError("no such overload")
        return operation(text, other)

    return call


def _matches(text: Value, pattern: Value) -> Value:
    if text.__class__ is not str:
        raise EvaluationError("no such overload: matches")
    if pattern.__class__ is not str:
        raise EvaluationError("no such overload")
    return patterns.search(pattern, text)


def _same(value: Value) -> Value:
    return value


_LOGIC = (
    Overload("conditional", ast.CONDITIONAL, (t.BOOL, t.A, t.A), t.A, _in_place),
    Overload("logical_and", ast.AND, (t.BOOL, t.BOOL), t.BOOL, _in_place),
    Overload("logical_or", ast.OR, (t.BOOL, t.BOOL), t.BOOL, _in_place),
    Overload("logical_not", ast.NOT, (t.BOOL,), t.BOOL, _not),
    Overload("not_strictly_false", ast.NOT_STRICTLY_FALSE, (t.BOOL,), t.BOOL, _not_strictly_false),
)


_EQUALITY = (
    Overload(
        "equals",
        ast.EQUALS,
        (t.A, t.A),
        t.BOOL,
        equality.equals,
        estimate=estimates.of_equality,
        cost=actual_cost.of_smaller,
    ),
    Overload(
        "not_equals",
        ast.NOT_EQUALS,
        (t.A, t.A),
        t.BOOL,
        equality.differs,
        estimate=estimates.of_smaller,
        cost=actual_cost.of_smaller,
    ),
)


def _binary(
    function: str, operation: Implementation, rows: dict[str, tuple[Type, Type, Type]]
) -> tuple[Overload, ...]:
    return tuple(
        Overload(name, function, (left, right), result, operation)
        for name, (left, right, result) in rows.items()
    )


def _costing(overload: Overload) -> Overload:
    """Concatenation is the arithmetic whose cost depends on sizes."""
    if overload.id in ("add_string", "add_bytes"):
        return replace(overload, estimate=estimates.of_sum, cost=actual_cost.of_both)
    return replace(overload, estimate=estimates.of_joined_lists) if overload.id == "add_list" else overload


_ARITHMETIC = (
    *map(
        _costing,
        _binary(
            ast.ADD,
            arithmetic.add,
            {
                "add_bytes": (t.BYTES, t.BYTES, t.BYTES),
                "add_double": (t.DOUBLE, t.DOUBLE, t.DOUBLE),
                "add_duration_duration": (t.DURATION, t.DURATION, t.DURATION),
                "add_duration_timestamp": (t.DURATION, t.TIMESTAMP, t.TIMESTAMP),
                "add_timestamp_duration": (t.TIMESTAMP, t.DURATION, t.TIMESTAMP),
                "add_int64": (t.INT, t.INT, t.INT),
                "add_list": (_LIST_A, _LIST_A, _LIST_A),
                "add_string": (t.STRING, t.STRING, t.STRING),
                "add_uint64": (t.UINT, t.UINT, t.UINT),
            },
        ),
    ),
    *_binary(
        ast.DIVIDE,
        arithmetic.divide,
        {
            "divide_double": (t.DOUBLE, t.DOUBLE, t.DOUBLE),
            "divide_int64": (t.INT, t.INT, t.INT),
            "divide_uint64": (t.UINT, t.UINT, t.UINT),
        },
    ),
    *_binary(
        ast.MODULO,
        arithmetic.modulo,
        {"modulo_int64": (t.INT, t.INT, t.INT), "modulo_uint64": (t.UINT, t.UINT, t.UINT)},
    ),
    *_binary(
        ast.MULTIPLY,
        arithmetic.multiply,
        {
            "multiply_double": (t.DOUBLE, t.DOUBLE, t.DOUBLE),
            "multiply_int64": (t.INT, t.INT, t.INT),
            "multiply_uint64": (t.UINT, t.UINT, t.UINT),
        },
    ),
    Overload("negate_double", ast.NEGATE, (t.DOUBLE,), t.DOUBLE, arithmetic.negate),
    Overload("negate_int64", ast.NEGATE, (t.INT,), t.INT, arithmetic.negate),
    *_binary(
        ast.SUBTRACT,
        arithmetic.subtract,
        {
            "subtract_double": (t.DOUBLE, t.DOUBLE, t.DOUBLE),
            "subtract_duration_duration": (t.DURATION, t.DURATION, t.DURATION),
            "subtract_int64": (t.INT, t.INT, t.INT),
            "subtract_timestamp_duration": (t.TIMESTAMP, t.DURATION, t.TIMESTAMP),
            "subtract_timestamp_timestamp": (t.TIMESTAMP, t.TIMESTAMP, t.DURATION),
            "subtract_uint64": (t.UINT, t.UINT, t.UINT),
        },
    ),
)

_ORDER_ROWS = {
    "bool": (t.BOOL, t.BOOL),
    "int64": (t.INT, t.INT),
    "int64_double": (t.INT, t.DOUBLE),
    "int64_uint64": (t.INT, t.UINT),
    "uint64": (t.UINT, t.UINT),
    "uint64_double": (t.UINT, t.DOUBLE),
    "uint64_int64": (t.UINT, t.INT),
    "double": (t.DOUBLE, t.DOUBLE),
    "double_int64": (t.DOUBLE, t.INT),
    "double_uint64": (t.DOUBLE, t.UINT),
    "string": (t.STRING, t.STRING),
    "bytes": (t.BYTES, t.BYTES),
    "timestamp": (t.TIMESTAMP, t.TIMESTAMP),
    "duration": (t.DURATION, t.DURATION),
}


def _orders(prefix: str, function: str, accepted: tuple[int, ...]) -> tuple[Overload, ...]:
    operation = _order(function, accepted)
    plain = (
        Overload(f"{prefix}_{name}", function, row, t.BOOL, operation) for name, row in _ORDER_ROWS.items()
    )
    return tuple(
        replace(overload, estimate=estimates.of_smaller, cost=actual_cost.of_smaller)
        if overload.parameters[0] in (t.STRING, t.BYTES)
        else overload
        for overload in plain
    )


_RELATIONS = (
    *_orders("less", ast.LESS, (-1,)),
    *_orders("less_equals", ast.LESS_EQUALS, (-1, 0)),
    *_orders("greater", ast.GREATER, (1,)),
    *_orders("greater_equals", ast.GREATER_EQUALS, (0, 1)),
)

_COLLECTIONS = (
    Overload("index_list", ast.INDEX, (_LIST_A, t.INT), t.A, equality.index),
    Overload("index_map", ast.INDEX, (_MAP_AB, t.A), t.B, equality.index),
    Overload(
        "in_list",
        ast.IN,
        (t.A, _LIST_A),
        t.BOOL,
        equality.contains,
        estimate=estimates.of_items,
        cost=actual_cost.of_items,
    ),
    Overload("in_map", ast.IN, (t.A, _MAP_AB), t.BOOL, equality.contains),
    *(
        Overload(f"size_{kind.name}", "size", (kind,), t.INT, _size)
        for kind in (t.BYTES, _LIST_A, _MAP_AB, t.STRING)
    ),
    *(
        Overload(f"{kind.name}_size", "size", (kind,), t.INT, _size, is_member=True)
        for kind in (t.BYTES, _LIST_A, _MAP_AB, t.STRING)
    ),
)

_CONVERSION_COSTS: dict[str, tuple[estimates.EstimateCall, ActualCost]] = {
    "string_to_bytes": (estimates.of_string_to_bytes, actual_cost.of_first),
    "bytes_to_string": (estimates.of_bytes_to_string, actual_cost.of_first),
}
_NAMES = {t.DURATION: "duration", t.TIMESTAMP: "timestamp"}


def _conversion(name: str, wanted: Type, result: Type, convert: Implementation) -> Overload:
    estimate, cost = _CONVERSION_COSTS.get(name, (None, None))
    return Overload(
        name, _NAMES.get(result, result.name), (wanted,), result, convert, estimate=estimate, cost=cost
    )


_CONVERTED = (
    Overload("type", "type", (t.A,), t.type_of(t.A), type_of),
    Overload("to_dyn", "dyn", (t.A,), t.DYN, _same),
    *(_conversion(name, *row) for name, row in CONVERSIONS.items()),
)


def _string_test(
    function: str, name: str, operation: Implementation, estimate: estimates.EstimateCall, cost: ActualCost
) -> Overload:
    return Overload(
        name, function, (t.STRING, t.STRING), t.BOOL, operation, is_member=True, estimate=estimate, cost=cost
    )


_STRINGS = (
    _string_test(
        "contains",
        "contains_string",
        _of_strings(lambda text, part: part in text),
        estimates.of_product,
        actual_cost.of_product,
    ),
    _string_test(
        "endsWith", "ends_with_string", _of_strings(str.endswith), estimates.of_argument, actual_cost.of_first
    ),
    _string_test(
        "startsWith",
        "starts_with_string",
        _of_strings(str.startswith),
        estimates.of_argument,
        actual_cost.of_first,
    ),
    Overload("matches", "matches", (t.STRING, t.STRING), t.BOOL, _matches),
    _string_test("matches", "matches_string", _matches, estimates.of_pattern, actual_cost.of_pattern),
)

_GETTERS: dict[str, tuple[str, Implementation]] = {
    "getFullYear": ("year", times.get_full_year),
    "getMonth": ("month", times.get_month),
    "getDayOfYear": ("day_of_year", times.get_day_of_year),
    "getDayOfMonth": ("day_of_month", times.get_day_of_month),
    "getDate": ("day_of_month_1_based", times.get_date),
    "getDayOfWeek": ("day_of_week", times.get_day_of_week),
    "getHours": ("hours", times.get_hours),
    "getMinutes": ("minutes", times.get_minutes),
    "getSeconds": ("seconds", times.get_seconds),
    "getMilliseconds": ("milliseconds", times.get_milliseconds),
}
_SPANS = {
    "hours": 3600 * times.SECOND,
    "minutes": 60 * times.SECOND,
    "seconds": times.SECOND,
    "milliseconds": 1_000_000,
}


def _getters(function: str, unit: str, get: Implementation) -> tuple[Overload, ...]:
    # cel-go's own id for the seconds is spelled unlike the others.
    zoned = "timestamp_to_seconds_tz" if unit == "seconds" else f"timestamp_to_{unit}_with_tz"
    found = (
        Overload(f"timestamp_to_{unit}", function, (t.TIMESTAMP,), t.INT, get, is_member=True),
        Overload(zoned, function, (t.TIMESTAMP, t.STRING), t.INT, get, is_member=True),
    )
    if unit not in _SPANS:
        return found
    span = times.duration_in(_SPANS[unit])
    return (*found, Overload(f"duration_to_{unit}", function, (t.DURATION,), t.INT, span, is_member=True))


_TIMES = tuple(overload for function, row in _GETTERS.items() for overload in _getters(function, *row))

_GUARDED = frozenset(overload.function for overload in (*_CONVERTED, *_TIMES)) - {"dyn", "type"}

LIBRARY = Library(
    name="standard",
    macros=STANDARD,
    overloads=(
        *_LOGIC,
        *_EQUALITY,
        *_ARITHMETIC,
        *_RELATIONS,
        *_COLLECTIONS,
        *_CONVERTED,
        *_STRINGS,
        *_TIMES,
    ),
    types=(
        t.BOOL,
        t.BYTES,
        t.DOUBLE,
        t.DURATION,
        t.INT,
        _LIST_A,
        _MAP_AB,
        t.NULL,
        t.STRING,
        t.TIMESTAMP,
        t.TYPE,
        t.UINT,
    ),
)
IDS = frozenset(overload.id for overload in LIBRARY.overloads)
SELF_CHECKING = frozenset(overload.function for overload in LIBRARY.overloads) - _GUARDED
"""Functions with one implementation for all their overloads, which looks at the kinds of its arguments itself."""
