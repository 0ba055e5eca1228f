"""cel-go's optional values. `or`, `orValue`, `.?` and `[?]` are evaluated in place, because they evaluate only what they
need, and stand here for their types."""

from __future__ import annotations

from collections.abc import Sequence

from dray.cel import types as t
from dray.cel.ast import INDEX, OPTIONAL_INDEX, OPTIONAL_SELECT
from dray.cel.faults import EvaluationError
from dray.cel.functions import Library, Overload
from dray.cel.syntax.macros import OPTIONAL
from dray.cel.values import NONE, Duration, Optional, Timestamp, Value, is_list, is_map, text_of

_K, _V = t.variable("K"), t.variable("V")
_OPTIONAL = t.optional_of(_V)
_FIRST_MOMENT = -62_135_596_800 * 10**9
"""The start of the year 1: a timestamp that nobody has set."""
_LIST, _MAP, _OPTIONALS = t.list_of(_V), t.map_of(_K, _V), t.list_of(_OPTIONAL)


def _in_place(*_: Value) -> Value:
    raise EvaluationError("no such overload")


def _is_zero(value: Value) -> bool:
    if is_list(value) or is_map(value):
        return not value
    if value.__class__ is Duration:
        return bool(value.nanoseconds == 0)
    if value.__class__ is Timestamp:
        return bool(value.nanoseconds == _FIRST_MOMENT)
    return value is None or (isinstance(value, bool | int | float | str | bytes) and not value)


def _of_non_zero(value: Value) -> Value:
    return NONE if _is_zero(value) else Optional(value)


def _none() -> Value:
    return NONE


def _value(optional: Optional) -> Value:
    return optional.value()


def _has_value(optional: Optional) -> Value:
    return optional.has_value


def _first(items: Sequence[Value]) -> Value:
    return Optional(items[0]) if items else NONE


def _last(items: Sequence[Value]) -> Value:
    return Optional(items[len(items) - 1]) if items else NONE


def _unwrap(items: Sequence[Value]) -> Value:
    for item in items:
        if item.__class__ is not Optional:
            raise EvaluationError(f"value {text_of(item)} is not optional")
    return tuple(item.content for item in items if item.has_value)


LIBRARY = Library(
    name="cel.lib.optional",
    types=(_OPTIONAL,),
    macros=OPTIONAL,
    overloads=(
        Overload("optional_of", "optional.of", (_V,), _OPTIONAL, Optional),
        Overload("optional_ofNonZeroValue", "optional.ofNonZeroValue", (_V,), _OPTIONAL, _of_non_zero),
        Overload("optional_none", "optional.none", (), _OPTIONAL, _none),
        Overload("optional_value", "value", (_OPTIONAL,), _V, _value, is_member=True),
        Overload("optional_hasValue", "hasValue", (_OPTIONAL,), t.BOOL, _has_value, is_member=True),
        Overload("optional_or_optional", "or", (_OPTIONAL, _OPTIONAL), _OPTIONAL, _in_place, is_member=True),
        Overload("optional_orValue_value", "orValue", (_OPTIONAL, _V), _V, _in_place, is_member=True),
        Overload("select_optional_field", OPTIONAL_SELECT, (t.DYN, t.STRING), _OPTIONAL, _in_place),
        Overload("list_optindex_optional_int", OPTIONAL_INDEX, (_LIST, t.INT), _OPTIONAL, _in_place),
        Overload(
            "optional_list_optindex_optional_int",
            OPTIONAL_INDEX,
            (t.optional_of(_LIST), t.INT),
            _OPTIONAL,
            _in_place,
        ),
        Overload("map_optindex_optional_value", OPTIONAL_INDEX, (_MAP, _K), _OPTIONAL, _in_place),
        Overload(
            "optional_map_optindex_optional_value",
            OPTIONAL_INDEX,
            (t.optional_of(_MAP), _K),
            _OPTIONAL,
            _in_place,
        ),
        Overload("optional_list_index_int", INDEX, (t.optional_of(_LIST), t.INT), _OPTIONAL, _in_place),
        Overload("optional_map_index_value", INDEX, (t.optional_of(_MAP), _K), _OPTIONAL, _in_place),
        Overload("list_last", "last", (_LIST,), _OPTIONAL, _last, is_member=True),
        Overload("list_first", "first", (_LIST,), _OPTIONAL, _first, is_member=True),
        Overload("optional_unwrap", "optional.unwrap", (_OPTIONALS,), _LIST, _unwrap),
        Overload("optional_unwrapOpt", "unwrapOpt", (_OPTIONALS,), _LIST, _unwrap, is_member=True),
    ),
)
