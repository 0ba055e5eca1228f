"""Kubernetes' semantic versions: `semver("1.2.3").isLessThan(semver("v2", true))`, …"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from dray.api.semver import SemVer
from dray.cel import types as t
from dray.cel.faults import EvaluationError
from dray.cel.functions import Implementation, Library, Overload
from dray.cel.library.costs import walk, walked
from dray.cel.quoting import quote_start
from dray.cel.types import Type
from dray.cel.values import Opaque, Value
from dray.errors import InvalidError

SEMVER = t.opaque("kubernetes.Semver")
_REMEMBERED_LENGTH = 64
_WORD = re.compile(r"[0-9A-Za-z-]*")
_NUMBER = re.compile(r"[0-9]*")


@dataclass(frozen=True, slots=True)
class SemverValue(Opaque):
    """A version as a value of CEL."""

    version: SemVer
    cel_type: ClassVar[Type] = SEMVER

    @property
    def weight(self) -> int:
        """Its identifiers are compared one by one."""
        return 8 + len(self.version.pre)

    def __str__(self) -> str:
        return str(self.version)


def parse_semver(text: str, normalize: bool = False) -> SemverValue:
    """With `normalize`, a leading `v`, leading zeros and missing numbers are mended; raises `EvaluationError`. Recent short
    texts are remembered."""
    return _remembered(text, normalize) if len(text) <= _REMEMBERED_LENGTH else _parse(text, normalize)


def _parse(text: str, normalize: bool) -> SemverValue:
    try:
        return SemverValue(SemVer.parse_lenient(text) if normalize else SemVer.parse(text))
    except InvalidError:
        raise EvaluationError(_fault(text, normalize=normalize)) from None


_remembered = lru_cache(maxsize=1024)(_parse)


def _fault(text: str, *, normalize: bool) -> str:
    """What the library that Kubernetes uses says is wrong."""
    if normalize:
        parts = [_mended(part) for part in text.removeprefix("v").split(".", 2)]
        if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
            return "short version cannot contain PreRelease/Build meta data"
        text = ".".join(parts + ["0"] * (3 - len(parts)))
    if not text:
        return "Version string empty"
    parts = text.split(".", 2)
    if len(parts) != 3:
        return "No Major.Minor.Patch elements found"
    rest, _, build = parts[2].partition("+")
    patch, dash, pre = rest.partition("-")
    return (
        _number_fault("Major", parts[0])
        or _number_fault("Minor", parts[1])
        or _number_fault("Patch", patch)
        or _first(_pre_fault(part) for part in (pre.split(".") if dash else ()))
        or _first(_build_fault(part) for part in (build.split(".") if "+" in parts[2] else ()))
        or f"{text} is not a version"
    )


def _mended(part: str) -> str:
    if len(part) < 2:
        return part
    part = part.lstrip("0")
    return part if part[:1] and part[0] in "0123456789" else f"0{part}"


def _first(faults: Iterable[str]) -> str:
    return next((fault for fault in faults if fault), "")


def _number_fault(name: str, digits: str) -> str:
    if not _NUMBER.fullmatch(digits):
        return f"Invalid character(s) found in {name.lower()} number {quote_start(digits)}"
    if len(digits) > 1 and digits[0] == "0":
        return f"{name} number must not contain leading zeroes {quote_start(digits)}"
    return _range_fault(digits)


def _range_fault(digits: str) -> str:
    if not digits:
        return 'strconv.ParseUint: parsing "": invalid syntax'
    too_large = len(digits) > 20 or int(digits) >= 2**64
    return f"strconv.ParseUint: parsing {quote_start(digits)}: value out of range" if too_large else ""


def _pre_fault(part: str) -> str:
    if not part:
        return "Prerelease is empty"
    if _NUMBER.fullmatch(part):
        if len(part) > 1 and part[0] == "0":
            return f"Numeric PreRelease version must not contain leading zeroes {quote_start(part)}"
        return _range_fault(part)
    return "" if _WORD.fullmatch(part) else f"Invalid character(s) found in prerelease {quote_start(part)}"


def _build_fault(part: str) -> str:
    if not part:
        return "Build meta data is empty"
    return (
        "" if _WORD.fullmatch(part) else f"Invalid character(s) found in build meta data {quote_start(part)}"
    )


def _is_semver(text: str, normalize: bool = False) -> Value:
    try:
        parse_semver(text, normalize)
    except EvaluationError:
        return False
    return True


def _signed(number: int) -> int:
    """Go turns 64 bits without a sign into 64 with one."""
    return number if number < 2**63 else number - 2**64


def _major(value: SemverValue) -> Value:
    return _signed(value.version.major)


def _minor(value: SemverValue) -> Value:
    return _signed(value.version.minor)


def _patch(value: SemverValue) -> Value:
    return _signed(value.version.patch)


def _is_greater(value: SemverValue, other: SemverValue) -> Value:
    return value.version > other.version


def _is_less(value: SemverValue, other: SemverValue) -> Value:
    return value.version < other.version


def _compare(value: SemverValue, other: SemverValue) -> Value:
    return value.version.compare(other.version)


def _member(name: str, function: str, result: Type, call: Implementation, *arguments: Type) -> Overload:
    return Overload(name, function, (SEMVER, *arguments), result, call, is_member=True)


def _reader(name: str, function: str, result: Type, call: Implementation, *arguments: Type) -> Overload:
    return Overload(name, function, (t.STRING, *arguments), result, call, estimate=walk(), cost=walked())


LIBRARY = Library(
    name="kubernetes.Semver",
    overloads=(
        _reader("string_to_semver", "semver", SEMVER, parse_semver),
        _reader("string_bool_to_semver", "semver", SEMVER, parse_semver, t.BOOL),
        _reader("is_semver_string", "isSemver", t.BOOL, _is_semver),
        _reader("is_semver_string_bool", "isSemver", t.BOOL, _is_semver, t.BOOL),
        _member("semver_is_greater_than", "isGreaterThan", t.BOOL, _is_greater, SEMVER),
        _member("semver_is_less_than", "isLessThan", t.BOOL, _is_less, SEMVER),
        _member("semver_compare_to", "compareTo", t.INT, _compare, SEMVER),
        _member("semver_major", "major", t.INT, _major),
        _member("semver_minor", "minor", t.INT, _minor),
        _member("semver_patch", "patch", t.INT, _patch),
    ),
)
