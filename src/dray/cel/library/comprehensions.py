"""cel-go's comprehensions with two variables: macros, and the function by which they build maps."""

from __future__ import annotations

from collections.abc import Mapping

from dray.cel import types as t
from dray.cel.ast import MAP_INSERT
from dray.cel.equality import find
from dray.cel.faults import EvaluationError
from dray.cel.functions import Library, Overload
from dray.cel.syntax.macros import TWO_VARIABLES
from dray.cel.values import MISSING, Value, make_map, text_of

_K, _V = t.variable("K"), t.variable("V")
_MAP = t.map_of(_K, _V)


def _insert(held: Mapping[Value, Value], key: Value, value: Value) -> Value:
    if find(held, key) is not MISSING:
        raise EvaluationError(f"insert failed: key {text_of(key)} already exists")
    return make_map([*held.items(), (key, value)])


def _insert_all(held: Mapping[Value, Value], added: Mapping[Value, Value]) -> Value:
    for key, value in added.items():
        held = _insert(held, key, value)
    return held


LIBRARY = Library(
    name="cel.lib.ext.comprev2",
    macros=TWO_VARIABLES,
    overloads=(
        Overload("@mapInsert_map_key_value", MAP_INSERT, (_MAP, _K, _V), _MAP, _insert),
        Overload("@mapInsert_map_map", MAP_INSERT, (_MAP, _MAP), _MAP, _insert_all),
    ),
)
