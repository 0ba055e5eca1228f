"""`+ - * / %` and unary `-`: 64 bits, with cel-go's errors. Each takes what comes and finds the operation by the kinds."""

from __future__ import annotations

import math

from dray.cel import times
from dray.cel.faults import EvaluationError
from dray.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, Timestamp, Uint, Value, is_list, join_lists


def check_int(number: int) -> int:
    """The number as an int, or an overflow."""
    if INT_MIN <= number <= INT_MAX:
        return number
    raise EvaluationError("integer overflow")


def check_uint(number: int) -> Uint:
    """The number as a uint, or an overflow."""
    if 0 <= number <= UINT_MAX:
        return Uint(number)
    raise EvaluationError("unsigned integer overflow")


def _no_overload(function: str, left: Value, supported: tuple[type, ...]) -> EvaluationError:
    """cel-go names the function only if the first operand knows no such operation at all."""
    known = left.__class__ in supported or (function == "_+_" and is_list(left))
    return EvaluationError("no such overload" if known else f"no such overload: {function}")


_ADD = (int, Uint, float, str, bytes, Duration, Timestamp)
_SUBTRACT = (int, Uint, float, Duration, Timestamp)
_MULTIPLY = (int, Uint, float)
_MODULO = (int, Uint)


def add(left: Value, right: Value) -> Value:
    """`left + right`."""
    kind, other = left.__class__, right.__class__
    if kind is other:
        if kind is int:
            return check_int(left + right)
        if kind is str or kind is float or kind is bytes:
            return left + right
        if kind is Uint:
            return check_uint(int(left) + int(right))
        if kind is Duration:
            return Duration(check_int(left.nanoseconds + right.nanoseconds))
    if is_list(left) and is_list(right):
        return join_lists(left, right)
    if kind is Timestamp and other is Duration:
        return times.shift(left, right.nanoseconds)
    if kind is Duration and other is Timestamp:
        return times.shift(right, left.nanoseconds)
    raise _no_overload("_+_", left, _ADD)


def subtract(left: Value, right: Value) -> Value:
    """`left - right`."""
    kind, other = left.__class__, right.__class__
    if kind is other:
        if kind is int:
            return check_int(left - right)
        if kind is float:
            return left - right
        if kind is Uint:
            return check_uint(int(left) - int(right))
        if kind is Duration:
            return Duration(check_int(left.nanoseconds - right.nanoseconds))
        if kind is Timestamp:
            return Duration(check_int(left.nanoseconds - right.nanoseconds))
    if kind is Timestamp and other is Duration:
        return times.shift(left, check_int(-right.nanoseconds))
    raise _no_overload("_-_", left, _SUBTRACT)


def multiply(left: Value, right: Value) -> Value:
    """`left * right`."""
    kind = left.__class__
    if kind is right.__class__:
        if kind is int:
            return check_int(left * right)
        if kind is float:
            return left * right
        if kind is Uint:
            return check_uint(int(left) * int(right))
    raise _no_overload("_*_", left, _MULTIPLY)


def divide(left: Value, right: Value) -> Value:
    """`left / right`; integers are cut towards zero."""
    kind = left.__class__
    if kind is right.__class__ and kind in _MULTIPLY:
        if kind is float:
            return _divide_doubles(left, right)
        if right == 0:
            raise EvaluationError("division by zero")
        quotient = abs(int(left)) // abs(int(right))
        return (
            Uint(quotient)
            if kind is Uint
            else check_int(quotient if (left < 0) == (right < 0) else -quotient)
        )
    raise _no_overload("_/_", left, _MULTIPLY)


def _divide_doubles(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or left != left:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def modulo(left: Value, right: Value) -> Value:
    """`left % right`, with the sign of the left one."""
    kind = left.__class__
    if kind is right.__class__ and kind in _MODULO:
        if right == 0:
            raise EvaluationError("modulus by zero")
        if left == INT_MIN and right == -1:
            raise EvaluationError("integer overflow")
        rest = abs(int(left)) % abs(int(right))
        return Uint(rest) if kind is Uint else (-rest if left < 0 else rest)
    raise _no_overload("_%_", left, _MODULO)


def negate(value: Value) -> Value:
    """`-value`."""
    kind = value.__class__
    if kind is int:
        return check_int(-value)
    if kind is float:
        return -value
    if kind is Duration:
        return Duration(check_int(-value.nanoseconds))
    raise EvaluationError("no such overload" if kind is bool else "no such overload: -_")
