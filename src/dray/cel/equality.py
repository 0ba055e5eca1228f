"""When values are equal, which is smaller, and what is found in a list or map. Across numeric types, as cel-go does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dray.cel.faults import EvaluationError
from dray.cel.types import Type
from dray.cel.values import (
    MISSING,
    DefaultMap,
    Duration,
    EvaluationCancelledError,
    MixedMap,
    Opaque,
    Optional,
    Timestamp,
    Uint,
    Value,
    is_list,
    is_map,
    text_of,
    type_name,
)

_PLAIN = frozenset({str, int, bool, bytes, type(None), Uint, Duration, Timestamp})
_NUMBERS = frozenset({int, Uint, float})
_NESTED_LIMIT = 50_000
"""Comparisons within one `==`: lists that hold a list twice, which holds one twice, … are exponentially large."""


def equal(left: Value, right: Value) -> bool:
    """Whether two values are the same; values of different kinds are just not. What lists and sets look for things by."""
    kind = left.__class__
    if kind is right.__class__ and kind in _PLAIN:
        return bool(left == right)
    if kind is Optional:
        left, right = _contents(left, right)
        kind = left.__class__
    if isinstance(left, Opaque) and (kind is not right.__class__ or right.is_refused):
        return False
    return _equal(left, right, [_NESTED_LIMIT])


def equals(left: Value, right: Value) -> bool:
    """The operator `==`. An opaque value on its left must meet its like, or null unless it is in an optional: Kubernetes'
    own types refuse others."""
    takes_null = left.__class__ is not Optional
    if not takes_null:
        left, right = _contents(left, right)
    if (
        isinstance(left, Opaque)
        and not (takes_null and right is None)
        and (right.__class__ is not left.__class__ or right.is_refused)
    ):
        raise EvaluationError("no such overload")
    return equal(left, right)


def differs(left: Value, right: Value) -> bool:
    """The operator `!=`: what cannot be compared differs."""
    return not equal(left, right)


def _contents(left: Value, right: Value) -> tuple[Value, Value]:
    """What is compared in place of two optionals that both have a value: what they hold."""
    while left.__class__ is Optional and right.__class__ is Optional and left.has_value and right.has_value:
        left, right = left.content, right.content
    return left, right


def _equal(left: Value, right: Value, left_over: list[int]) -> bool:
    kind, other = left.__class__, right.__class__
    if kind is other and kind in _PLAIN:
        return bool(left == right)
    if kind in _NUMBERS and other in _NUMBERS:
        return _number_order(left, right) == 0
    if is_list(left):
        return is_list(right) and _equal_lists(left, right, left_over)
    if is_map(left):
        return is_map(right) and _equal_maps(left, right, left_over)
    if isinstance(left, Opaque):
        # cel-go takes the refusal of an opaque value, within a list or map, for equality.
        return right is not None and (kind is not other or right.is_refused or bool(left == right))
    if kind is not other:
        return False
    if kind is Optional:
        both = left.has_value, right.has_value
        return both == (False, False) or (
            both == (True, True) and _equal(left.content, right.content, left_over)
        )
    if kind is Type:
        return bool(left.name == right.name)
    return bool(left == right)


def _spend(left_over: list[int], count: int) -> None:
    left_over[0] -= count
    if left_over[0] < 0:
        raise EvaluationCancelledError("operation cancelled: too many nested values to compare")


def _equal_lists(left: Sequence[Value], right: Sequence[Value], left_over: list[int]) -> bool:
    if len(left) != len(right):
        return False
    _spend(left_over, len(left))
    return all(_equal(a, b, left_over) for a, b in zip(left, right, strict=True))


def _equal_maps(left: Mapping[Any, Any], right: Mapping[Any, Any], left_over: list[int]) -> bool:
    if len(left) != len(right):
        return False
    _spend(left_over, len(left))
    for key, value in left.items():
        other = find(right, key)
        if other is MISSING or not _equal(value, other, left_over):
            return False
    return True


def _number_order(left: Value, right: Value) -> int:
    """-1, 0, 1; 2 if one is NaN. An int is rounded to a double before it meets one, as cel-go does."""
    if left.__class__ is float or right.__class__ is float:
        left, right = float(left), float(right)
        if left != left or right != right:
            return 2
    return int(left > right) - int(left < right)


def compare(left: Value, right: Value) -> int:
    """-1, 0 or 1; an error where CEL has no order between the two."""
    kind, other = left.__class__, right.__class__
    if kind in _NUMBERS and other in _NUMBERS:
        order = _number_order(left, right)
        if order == 2:
            raise EvaluationError("NaN values cannot be ordered")
        return order
    if kind is not other or kind not in _ORDERED:
        raise EvaluationError("no such overload")
    return int(left > right) - int(left < right)


_ORDERED = frozenset({str, bytes, bool, Duration, Timestamp})
COMPARABLE = _ORDERED | _NUMBERS


def find(container: Mapping[Any, Any], key: Value) -> Value:
    """What a map holds under a key, MISSING if nothing. A `DefaultMap` always holds something."""
    kind = key.__class__
    if isinstance(container, MixedMap):
        return container.find(key)
    if kind is str or kind in _NUMBERS:
        value = container.get(key, MISSING)
        if value is not MISSING and kind is float and key == -(2.0**63):
            value = MISSING
    else:
        value = MISSING
    if value is MISSING and isinstance(container, DefaultMap):
        return container.default
    return value


def contains(value: Value, container: Value) -> bool:
    """CEL's `in`."""
    if is_list(container):
        return any(equal(value, item) for item in container)
    if not is_map(container):
        raise EvaluationError("no such overload")
    if container.__class__ is DefaultMap:
        kind = value.__class__
        return (kind is str or kind in _NUMBERS) and value in container
    return find(container, value) is not MISSING


def index(container: Value, key: Value) -> Value:
    """`container[key]`, also `container.key`."""
    value = find_item(container, key)
    if value is MISSING:
        if is_list(container):
            raise EvaluationError(f"index out of bounds: {text_of(key)}")
        raise EvaluationError(f"no such key: {text_of(key)}")
    return value


def find_item(container: Value, key: Value) -> Value:
    """As `index`, but MISSING where there is nothing; only an index that cannot be one is an error."""
    if key.__class__ not in _KEYS:
        raise EvaluationError(f"invalid qualifier type: {type_name(key)}")
    if is_map(container):
        return find(container, key)
    if is_list(container):
        position = _position(key)
        return container[position] if 0 <= position < len(container) else MISSING
    return MISSING


_KEYS = frozenset({str, int, Uint, bool, float})


def _position(key: Value) -> int:
    if isinstance(key, float):
        if not (key == key and abs(key) < 2.0**63 and key == int(key)):
            raise EvaluationError(f"unsupported index value {key:g} in list")
        return int(key)
    if isinstance(key, int) and not isinstance(key, bool):
        return int(key)
    raise EvaluationError(f"unsupported index type '{type_name(key)}' in list")
