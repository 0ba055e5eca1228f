"""The clauses of `format`: how `%s`, `%d`, `%f`, … write a value. As cel-go's strings library does up to version 3, with
numbers as en-US writes them: `1,234.500000`, `1.5×10⁰³`."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

from dray.cel.exact.conversions import bytes_to_string, double_to_string
from dray.cel.faults import EvaluationError
from dray.cel.quoting import quote, quote_start
from dray.cel.times import write_duration, write_timestamp
from dray.cel.types import Type
from dray.cel.values import (
    Duration,
    EvaluationCancelledError,
    Timestamp,
    Uint,
    Value,
    is_list,
    is_map,
    type_name,
)

Clause = Callable[[Value], str]
_STRING_RULE = "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
RULES = {
    "s": _STRING_RULE,
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "X": "only integers, byte buffers, and strings can be formatted as hex",
    "o": "octal clause can only be used on integers",
}
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_FLOAT_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
SIZE_LIMIT = 4_000_000
"""Characters written: lists that hold a list twice, which holds one twice, … are exponentially long."""


def misused(verb: str, kind: str) -> EvaluationError:
    """The error where a clause meets a value of a type that it cannot write."""
    return EvaluationError(f"{RULES[verb]}, was given {kind}")


def clause(verb: str, precision: int | None) -> Clause:
    """Writes a value; raises `EvaluationError`."""
    if verb == "f":
        return lambda value: _fixed(_double("f", value), 6 if precision is None else precision)
    if verb == "e":
        return lambda value: _scientific(_double("e", value), 6 if precision is None else precision)
    return _CLAUSES[verb]


def _string(value: Value) -> str:
    return _written(value, [SIZE_LIMIT], is_nested=False)


def _written(value: Value, left: list[int], *, is_nested: bool) -> str:
    if is_list(value):
        text = f"[{', '.join(_written(item, left, is_nested=True) for item in value)}]"
    elif is_map(value):
        pairs = sorted((_key(key), _written(item, left, is_nested=True)) for key, item in value.items())
        text = f"{{{', '.join(f'{key}:{item}' for key, item in pairs)}}}"
    else:
        text = _scalar(value)
        text = _as_literal(value, text) if is_nested else text
    left[0] -= len(text)
    if left[0] < 0:
        raise EvaluationCancelledError("operation cancelled: text is too long")
    return text


def _scalar(value: Value) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str() | int():
            return str(value)
        case float():
            return double_to_string(value)
        case bytes():
            return _bytes(value)
        case Duration():
            return write_duration(value)
        case Timestamp():
            return write_timestamp(value)
        case Type():
            return value.name
        case _:
            raise misused("s", type_name(value))


def _bytes(value: bytes) -> str:
    try:
        return bytes_to_string(value)
    except EvaluationError as error:
        raise EvaluationError(f"could not convert argument {quote_start(str(error))} to string") from None


def _as_literal(value: Value, text: str) -> str:
    """Within a list or map, as CEL would read it."""
    match value:
        case str():
            return quote(text)
        case bytes():
            return f"b{quote(text)}"
        case Duration():
            return f"duration({quote(text)})"
        case Timestamp():
            return f"timestamp({quote(text)})"
        case float() if math.isfinite(value):
            return f"{value:.6f}"
        case float():
            return quote(text)
        case _:
            return text


def _key(key: Value) -> str:
    if not isinstance(key, str | int):
        raise EvaluationError(f"no formatting function for map key of type {type_name(key)}")
    return _as_literal(key, _scalar(key))


def _decimal(value: Value) -> str:
    if value.__class__ not in (int, Uint):
        raise misused("d", type_name(value))
    return str(int(value))


def _binary(value: Value) -> str:
    if not isinstance(value, int):
        raise misused("b", type_name(value))
    return format(int(value), "b")


def _hexadecimal(value: Value) -> str:
    if isinstance(value, str | bytes):
        return (value.encode(errors="replace") if isinstance(value, str) else value).hex()
    if value.__class__ not in (int, Uint):
        raise misused("x", type_name(value))
    return format(int(value), "x")


def _octal(value: Value) -> str:
    if value.__class__ not in (int, Uint):
        raise misused("o", type_name(value))
    return format(int(value), "o")


_CLAUSES: dict[str, Clause] = {
    "s": _string,
    "d": _decimal,
    "b": _binary,
    "x": _hexadecimal,
    "X": lambda value: _hexadecimal(value).upper(),
    "o": _octal,
}


def _double(verb: str, value: Value) -> float:
    if value.__class__ is str and value in _FLOAT_WORDS:
        return _FLOAT_WORDS[value]
    if value.__class__ is not float:
        raise misused(verb, type_name(value))
    return float(value)


def _special(number: float) -> str:
    return "NaN" if math.isnan(number) else "∞" if number > 0 else "-∞"


def _fixed(number: float, precision: int) -> str:
    if not math.isfinite(number):
        return _special(number)
    number = 0.0 if number == 0 else number
    if precision < 256:
        return f"{number:,.{precision}f}"
    # The formatter that cel-go calls counts the digits it must show in one byte.
    exact = Decimal(number)
    places = min(precision, max(-int(exact.as_tuple().exponent), 0))
    whole, _, fraction = f"{exact:,.{places}f}".partition(".")
    fraction = fraction.rstrip("0").ljust(precision % 256, "0")
    return f"{whole}.{fraction}" if fraction else whole


def _scientific(number: float, width: int) -> str:
    """cel-go passes the precision on as the width; six digits are always shown."""
    if math.isfinite(number):
        mantissa, _, exponent = f"{abs(number):.6e}".partition("e")
        power = f"{'-' if exponent[0] == '-' else ''}{abs(int(exponent)):02}".translate(_SUPERSCRIPT)
        text = f"{'-' if number < 0 else ''}{mantissa}×10{power}"
    else:
        text = _special(number)
    return text.rjust(min(width, 0xFFFF))
