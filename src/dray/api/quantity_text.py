"""How a quantity is read and written: suffixes, rounding, caps and the canonical form, as in Kubernetes.

Amounts are ints in billionths. The smallest step is 1n (finer input rounds away from zero) and amounts with a
binary suffix stop at 2^63-1. The canonical form has the largest suffix that keeps the mantissa whole.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache
from typing import Final, NamedTuple

from dray.errors import InvalidError

BILLION: Final = 10**9
MAX_BINARY: Final = (2**63 - 1) * BILLION
INT64: Final = range(-(2**63), 2**63)

# Go keeps small amounts as an int64 and a power of ten, others as a big decimal. CEL's isInteger() shows which,
# so the power is remembered beside the amount; this stands for "a big decimal".
BIG: Final = -100

_MAX_DIGITS: Final = 1000


class Format(StrEnum):
    """Which family of suffixes a quantity is written with. It is kept from the text it was read from."""

    DECIMAL_EXPONENT = "DecimalExponent"
    BINARY_SI = "BinarySI"
    DECIMAL_SI = "DecimalSI"


_SI: Final = Format.DECIMAL_SI
_BINARY: Final = Format.BINARY_SI
_EXPONENT: Final = Format.DECIMAL_EXPONENT

_DECIMAL_UNITS: Final = dict(
    zip(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), range(-9, 19, 3), strict=True)
)
_BINARY_UNITS: Final = dict(zip(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), range(10, 61, 10), strict=True))
_DECIMAL_SUFFIX: Final = {power: suffix for suffix, power in _DECIMAL_UNITS.items()}
_BINARY_SUFFIX: Final = ("", *_BINARY_UNITS)

# Sign, leading zeros, digits, fraction, suffix. No text fits in two ways, so none makes it slow. Like Go's scanner it
# takes a missing number for zero: "Ki", "." and "+" are all 0 (but see `_refuse_without_digits`).
_SHAPE: Final = re.compile(r"([+-]?)0*([1-9][0-9]*|)(?:\.([0-9]*))?((?:[eEinumkKMGTP]+[-+]?|[-+])[0-9]*|)")
_POWER: Final = re.compile(r"[eE]([-+]?[0-9]+)")

BAD_FORMAT: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_NO_NUMBER: Final = "unable to parse numeric part of quantity"
_BAD_SUFFIX: Final = "unable to parse quantity's suffix"
_TOO_LONG: Final = f"quantities must have at most {_MAX_DIGITS} digits and an exponent within ±{_MAX_DIGITS}"


class Kind(NamedTuple):
    """How an amount is written (`form`) and which power of ten Go would keep it at (`scale`)."""

    form: Format
    scale: int


@cache
def kind(form: Format, scale: int) -> Kind:
    """The one object for each kind, so that `is` tells whether two amounts are of the same kind."""
    return Kind(form, scale)


BINARY_0: Final = kind(_BINARY, 0)
DECIMAL_0: Final = kind(_SI, 0)

# Amount, kind, and the text itself where Kubernetes would print it back unchanged.
Reading = tuple[int, Kind, str | None]


def round_away(amount: int, step: int) -> int:
    """`amount / step`, rounded away from zero."""
    return -(-amount // step) if amount >= 0 else amount // step


def read(text: str) -> Reading:
    """Read a quantity; InvalidError carries the API server's words.

    The two common forms, a whole number and one with Ki, Mi, Gi or Ti, go without the pattern: half the time.
    """
    if text.isdecimal() and len(text) <= 18 and text[0] != "0" and text.isascii():
        return int(text) * BILLION, DECIMAL_0, None if text[-3:] == "000" else text
    shift = _BINARY_UNITS.get(text[-2:])
    digits = text[:-2]
    if (
        shift
        and digits.isdecimal()
        and len(digits) + shift * 3 // 10 <= 14
        and digits[0] != "0"
        and text.isascii()
    ):
        number = int(digits)
        return (number << shift) * BILLION, BINARY_0, text if number & 7 else None
    return _read_any(text)


def _read_any(text: str) -> Reading:
    if not text:
        raise InvalidError(BAD_FORMAT)
    if len(text) > _MAX_DIGITS:
        raise InvalidError(_TOO_LONG)
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise InvalidError(BAD_FORMAT)
    sign, whole, fraction, suffix = match.groups()
    if not any(map(str.isdigit, text[: match.start(4)])):
        _refuse_without_digits(suffix)
    whole, fraction = whole or "0", fraction or ""
    power = _DECIMAL_UNITS.get(suffix)
    if power is not None:
        return _read_decimal(text, sign == "-", whole + fraction, power - len(fraction), _SI)
    if suffix in _BINARY_UNITS:
        return _read_binary(text, sign == "-", whole, fraction, _BINARY_UNITS[suffix])
    return _read_decimal(text, sign == "-", whole + fraction, _read_power(suffix) - len(fraction), _EXPONENT)


def _refuse_without_digits(suffix: str) -> None:
    """Go takes a missing number for zero only where its quick way does: not for Pi and Ei, not below 1n."""
    is_far = suffix in ("Pi", "Ei") or (_POWER.fullmatch(suffix) is not None and _read_power(suffix) < -9)
    if is_far:
        raise InvalidError(_NO_NUMBER)


def _read_power(suffix: str) -> int:
    match = _POWER.fullmatch(suffix)
    power = int(match[1]) if match else 2**63
    if power not in INT64:
        raise InvalidError(_BAD_SUFFIX)
    if abs(power) > _MAX_DIGITS:
        raise InvalidError(_TOO_LONG)
    return power


def _read_decimal(text: str, negative: bool, digits: str, scale: int, form: Format) -> Reading:
    number = -int(digits) if negative else int(digits)
    if scale < -9:
        return round_away(number, 10 ** (-9 - scale)), kind(form, BIG), None
    nano = number * 10 ** (scale + 9)
    if len(digits) > 18:
        return nano, kind(form, BIG), None
    # Go's shortcut for "already canonical"; it also lets through "+5" and "1.500".
    as_written = scale % 3 == 0 and digits[0] != "0" and digits[-3:] != "000"
    return nano, kind(form, scale), text if as_written else None


def _read_binary(text: str, negative: bool, whole: str, fraction: str, shift: int) -> Reading:
    number = int(whole + fraction)
    if not fraction and len(whole) + shift * 3 // 10 <= 14:
        nano = (number << shift) * BILLION
        return -nano if negative else nano, BINARY_0, text if number & 7 else None
    nano = min(round_away((number << shift) * BILLION, 10 ** len(fraction)), MAX_BINARY)
    form = _SI if 0 < nano < BILLION else _BINARY
    return -nano if negative else nano, kind(form, BIG), None


def canonical(nano: int, form: Format) -> str:
    """Write an amount. Binary suffixes are only used for whole amounts of 1024 and more, as in Kubernetes."""
    if nano == 0:
        return "0"
    minus = "-" if nano < 0 else ""
    if form is _BINARY:
        whole, rest = divmod(abs(nano), BILLION)
        if whole >= 1024 and rest == 0:
            steps = min(((whole & -whole).bit_length() - 1) // 10, 6)
            return f"{minus}{whole >> 10 * steps}{_BINARY_SUFFIX[steps]}"
        form = _SI
    digits = str(abs(nano))
    mantissa = digits.rstrip("0")
    power = len(digits) - len(mantissa) - 9
    exponent = power - power % 3
    if form is _SI:
        exponent = min(exponent, 18)
        return minus + mantissa + "0" * (power - exponent) + _DECIMAL_SUFFIX[exponent]
    mantissa += "0" * (power - exponent)
    return f"{minus}{mantissa}e{exponent}" if exponent else minus + mantissa
