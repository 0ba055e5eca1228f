"""Strict semantic versions (semver 2.0.0), as DRA's version attributes carry and compare them.

Build metadata is read but takes no part in equality, hash or order. Numbers stop at 2^64-1, as in the library the
Kubernetes parts compare with: such a text passes `is_semver`, like the API server's check, but cannot be parsed.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import msgspec

from dray.errors import InvalidError

_NUMBER: Final = "(0|[1-9][0-9]*)"
_PRE: Final = "(?:0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)(?=[.+]|$)"
_BUILD: Final = "[0-9a-zA-Z-]+"
_SHAPE: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
    rf"(?:-({_PRE}(?:\.{_PRE})*))?"
    rf"(?:\+({_BUILD}(?:\.{_BUILD})*))?"
)
_UINT64: Final = range(2**64)

NOT_SEMVER: Final = "must be a string compatible with semver.org spec 2.0.0"

_Identifier = tuple[int, int, str]


class SemVer(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One version. Use `SemVer.parse`; `pre` and `build` are the identifiers behind `-` and `+`."""

    major: int
    minor: int
    patch: int
    pre: tuple[str, ...] = ()
    build: tuple[str, ...] = ()
    key: tuple[int, int, int, bool, tuple[_Identifier, ...]] = (0, 0, 0, True, ())

    @staticmethod
    def parse(text: str) -> SemVer:
        """Read a version; recent ones are remembered."""
        return _remembered(text) if len(text) <= 256 else _parse(text)

    @staticmethod
    def parse_lenient(text: str) -> SemVer:
        """Read a version that may have a leading `v`, leading zeros, or no minor and patch (CEL's `normalize`)."""
        parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
        if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
            raise InvalidError(f"{text!r}: short version cannot contain PreRelease/Build meta data")
        return _parse(".".join(parts + ["0"] * (3 - len(parts))))

    def compare(self, other: SemVer) -> int:
        """-1, 0 or 1 by precedence."""
        return (self.key > other.key) - (self.key < other.key)

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if other.__class__ is SemVer else NotImplemented

    def __lt__(self, other: SemVer) -> bool:
        return self.key < other.key if other.__class__ is SemVer else NotImplemented

    def __le__(self, other: SemVer) -> bool:
        return self.key <= other.key if other.__class__ is SemVer else NotImplemented

    def __gt__(self, other: SemVer) -> bool:
        return self.key > other.key if other.__class__ is SemVer else NotImplemented

    def __ge__(self, other: SemVer) -> bool:
        return self.key >= other.key if other.__class__ is SemVer else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        pre = "-" + ".".join(self.pre) if self.pre else ""
        build = "+" + ".".join(self.build) if self.build else ""
        return f"{self.major}.{self.minor}.{self.patch}{pre}{build}"


def is_semver(text: str) -> bool:
    """The API server's check of a version attribute (length aside)."""
    return _SHAPE.fullmatch(text) is not None


def _parse(text: str) -> SemVer:
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise InvalidError(f"{text!r} {NOT_SEMVER}")
    major, minor, patch = (_number(digits, text) for digits in match.group(1, 2, 3))
    pre = tuple(match[4].split(".")) if match[4] else ()
    build = tuple(match[5].split(".")) if match[5] else ()
    key = (major, minor, patch, not pre, tuple(_identifier(part, text) for part in pre))
    return SemVer(major, minor, patch, pre, build, key)


_remembered: Final = lru_cache(maxsize=4096)(_parse)


def _number(digits: str, text: str) -> int:
    number = int(digits) if len(digits) <= 20 else 2**64
    if number not in _UINT64:
        raise InvalidError(f"{text!r}: numbers must be less than 2^64")
    return number


def _identifier(part: str, text: str) -> _Identifier:
    """Numbers order before words, by value; words by ASCII."""
    return (0, _number(part, text), "") if part.isdecimal() else (1, 0, part)


def _without_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    rest = part.lstrip("0")
    return rest if rest[:1].isdecimal() and rest[:1].isascii() else "0" + rest
