"""Field selectors: `metadata.name=x,spec.nodeName!=y`. Values may hold `\\,`, `\\=` and `\\\\`.

The matcher compares strings only; which fields a kind offers is for its server to say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from dray.errors import InvalidError

_TERM: Final = re.compile(r"((?:\\.|[^\\,])*\\?)(,|\Z)", re.DOTALL)
_SIGN: Final = re.compile(r"!=|==|=")
_VALUE: Final = re.compile(r"(?:\\[\\,=]|[^\\,=])*")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_SPECIAL: Final = re.compile(r"[\\,=]")


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One comparison with one value."""

    field: str
    value: str
    equals: bool = True

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether the comparison holds; an absent field counts as empty."""
        return (fields.get(self.field, "") == self.value) is self.equals

    def __str__(self) -> str:
        value = _SPECIAL.sub(r"\\\g<0>", self.value)
        return f"{self.field}{'=' if self.equals else '!='}{value}"


@dataclass(frozen=True, slots=True)
class FieldMatcher:
    """Matches objects whose fields meet every term."""

    terms: tuple[FieldTerm, ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether these fields, given by their paths, meet all terms."""
        return all(term.matches(fields) for term in self.terms)

    def required_value(self, field: str) -> str | None:
        """The one value `field` must have, if the selector pins it: for index lookups."""
        return next((term.value for term in self.terms if term.field == field and term.equals), None)

    def __bool__(self) -> bool:
        """Whether it narrows anything down."""
        return bool(self.terms)

    def __str__(self) -> str:
        return ",".join(str(term) for term in self.terms)


def parse_field_selector(text: str) -> FieldMatcher:
    """The matcher that `text` describes; empty matches everything. An error names the character it stopped at."""
    return _remembered(text) if len(text) <= 1000 else _parse(text)


def _parse(text: str) -> FieldMatcher:
    parts = []
    position = 0
    while position <= len(text):
        found = _TERM.match(text, position)
        assert found is not None, "the pattern matches at every position"
        if found[1]:
            parts.append((found[1], position))
        position = found.end() if found[2] else len(text) + 1
    terms = [_term(text, part, position) for part, position in sorted(parts)]
    return FieldMatcher(tuple(term for term in terms if term.field or term.value))


_remembered: Final = lru_cache(maxsize=1024)(_parse)


def _term(text: str, term: str, position: int) -> FieldTerm:
    sign = _SIGN.search(term)
    if sign is None:
        raise InvalidError(
            f"field selector {text!r}: {term!r} at character {position + 1} has no =, == or != in it"
        )
    raw = term[sign.end() :]
    good = _VALUE.match(raw)
    if good is not None and good.end() < len(raw):
        place = position + sign.end() + good.end() + 1
        raise InvalidError(
            f"field selector {text!r}: character {place} must be escaped in a value: write \\\\, \\, or \\="
        )
    return FieldTerm(term[: sign.start()], _ESCAPED.sub(r"\1", raw), sign[0] != "!=")
