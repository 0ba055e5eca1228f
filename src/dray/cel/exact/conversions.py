"""`int()`, `uint()`, `double()`, `string()`, `bytes()`, `bool()`, `duration()`, `timestamp()`: ranges and rounding are cel-go's."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal

from dray.cel import times, types
from dray.cel.exact.arithmetic import check_int, check_uint
from dray.cel.faults import EvaluationError
from dray.cel.types import Type
from dray.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, Timestamp, Uint, Value, type_of

_TRUE, _FALSE = (
    frozenset({"1", "t", "T", "TRUE", "true", "True"}),
    frozenset({"0", "f", "F", "FALSE", "false", "False"}),
)
# No text fits in two ways, so none makes it slow: texts of a million digits may come here.
_INT = re.compile(r"[+-]?[0-9]+")
_UINT = re.compile(r"[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEXADECIMAL = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+")
_MOST_DIGITS = 20
"""Of a whole number within 64 bits."""
_UNDERSCORE = re.compile(r"(?<=[0-9a-fA-FxX])_(?=[0-9a-fA-F])")
_SPECIAL = re.compile(r"[+-]?(?:inf|infinity)|nan", re.IGNORECASE)


def _failed(value: Value, wanted: Type) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{type_of(value).name}' to '{wanted.name}'")


def string_to_int(text: str) -> int:
    """Decimal, with a sign."""
    number = _number(text.lstrip("+-")) if _INT.fullmatch(text) else None
    if number is not None:
        number = -number if text[0] == "-" else number
        if INT_MIN <= number <= INT_MAX:
            return number
    raise _failed(text, types.INT)


def _number(digits: str) -> int | None:
    """None for one that is too large. Python reads no more than some thousand digits, zeros in front included."""
    digits = digits.lstrip("0")
    return int(digits or "0") if len(digits) <= _MOST_DIGITS else None


def string_to_uint(text: str) -> Uint:
    """Decimal, without a sign."""
    number = _number(text) if _UINT.fullmatch(text) else None
    if number is None or number > UINT_MAX:
        raise _failed(text, types.UINT)
    return Uint(number)


def string_to_double(text: str) -> float:
    """Decimal or hexadecimal in Go's notation."""
    if _SPECIAL.fullmatch(text):
        return float(text)
    plain = _UNDERSCORE.sub("", text)
    try:
        if _DECIMAL.fullmatch(plain):
            number = float(plain)
        elif _HEXADECIMAL.fullmatch(plain):
            number = float.fromhex(plain)
        else:
            raise _failed(text, types.DOUBLE)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise _failed(text, types.DOUBLE)
    return number


def string_to_bool(text: str) -> bool:
    """As Go reads one."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _failed(text, types.BOOL)


def string_to_duration(text: str) -> Duration:
    """Go's notation."""
    found = times.parse_duration(text)
    if found is None:
        raise _failed(text, types.DURATION)
    return found


def string_to_timestamp(text: str) -> Timestamp:
    """RFC 3339."""
    found = times.parse_timestamp(text)
    if found is None:
        raise _failed(text, types.TIMESTAMP)
    return found


def int_to_duration(number: int) -> Duration:
    """Declared by cel-go, and always an error there."""
    raise _failed(number, types.DURATION)


def double_to_int(number: float) -> int:
    """Cut towards zero. The ends of the range are already too far: a double does not hit them."""
    if not -(2.0**63) < number < 2.0**63:
        raise EvaluationError("integer overflow")
    return int(number)


def double_to_uint(number: float) -> Uint:
    """Cut towards zero."""
    if not 0 <= number < 2.0**64:
        raise EvaluationError("unsigned integer overflow")
    return Uint(number)


def double_to_string(number: float) -> str:
    """The shortest text that reads as the same number, with an exponent from a million on."""
    if math.isnan(number) or math.isinf(number):
        return "NaN" if math.isnan(number) else "+Inf" if number > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int)
    power = len(digits) - 1 + exponent
    if number == 0 or -4 <= power < 6:
        text = format(Decimal(repr(number)).normalize(), "f")
        return "-0" if number == 0 and sign else text
    rest = "".join(map(str, digits[1:]))
    return f"{'-' * sign}{digits[0]}{'.' + rest if rest else ''}e{'-' if power < 0 else '+'}{abs(power):02}"


def bytes_to_string(data: bytes) -> str:
    """UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def int_to_timestamp(seconds: int) -> Timestamp:
    """Seconds since 1970."""
    return times.timestamp_at(seconds)


def _same(value: Value) -> Value:
    return value


CONVERSIONS: dict[str, tuple[Type, Type, Callable[[Value], Value]]] = {
    "bool_to_bool": (types.BOOL, types.BOOL, _same),
    "string_to_bool": (types.STRING, types.BOOL, string_to_bool),
    "bytes_to_bytes": (types.BYTES, types.BYTES, _same),
    "string_to_bytes": (types.STRING, types.BYTES, str.encode),
    "double_to_double": (types.DOUBLE, types.DOUBLE, _same),
    "int64_to_double": (types.INT, types.DOUBLE, float),
    "string_to_double": (types.STRING, types.DOUBLE, string_to_double),
    "uint64_to_double": (types.UINT, types.DOUBLE, float),
    "duration_to_duration": (types.DURATION, types.DURATION, _same),
    "int64_to_duration": (types.INT, types.DURATION, int_to_duration),
    "string_to_duration": (types.STRING, types.DURATION, string_to_duration),
    "int64_to_int64": (types.INT, types.INT, _same),
    "double_to_int64": (types.DOUBLE, types.INT, double_to_int),
    "duration_to_int64": (types.DURATION, types.INT, lambda value: value.nanoseconds),
    "string_to_int64": (types.STRING, types.INT, string_to_int),
    "timestamp_to_int64": (types.TIMESTAMP, types.INT, lambda value: value.nanoseconds // times.SECOND),
    "uint64_to_int64": (types.UINT, types.INT, lambda value: check_int(int(value))),
    "string_to_string": (types.STRING, types.STRING, _same),
    "bool_to_string": (types.BOOL, types.STRING, lambda value: "true" if value else "false"),
    "bytes_to_string": (types.BYTES, types.STRING, bytes_to_string),
    "double_to_string": (types.DOUBLE, types.STRING, double_to_string),
    "duration_to_string": (types.DURATION, types.STRING, times.write_duration),
    "int64_to_string": (types.INT, types.STRING, str),
    "timestamp_to_string": (types.TIMESTAMP, types.STRING, times.write_timestamp),
    "uint64_to_string": (types.UINT, types.STRING, str),
    "timestamp_to_timestamp": (types.TIMESTAMP, types.TIMESTAMP, _same),
    "int64_to_timestamp": (types.INT, types.TIMESTAMP, int_to_timestamp),
    "string_to_timestamp": (types.STRING, types.TIMESTAMP, string_to_timestamp),
    "uint64_to_uint64": (types.UINT, types.UINT, _same),
    "double_to_uint64": (types.DOUBLE, types.UINT, double_to_uint),
    "int64_to_uint64": (types.INT, types.UINT, check_uint),
    "string_to_uint64": (types.STRING, types.UINT, string_to_uint),
}
"""By cel-go's id: from, to, how."""
