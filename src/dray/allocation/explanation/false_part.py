"""Which part of a selector was false for a device, and what it saw there. Only on request: the parts are compiled one by one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dray.allocation.device_values import DeviceValue, places_of
from dray.allocation.features import Features
from dray.allocation.selector import Selector, compile_part
from dray.cel.budget import Budget, BudgetSpentError
from dray.cel.faults import CelError, EvaluationError
from dray.cel.program import Program
from dray.cel.syntax.lexer import Tokens, tokenize
from dray.cel.values import MISSING, Value

_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")
_BIND: Final = ["cel", ".", "bind", "("]
_WORK: Final = 8_000_000
"""For all parts together: each brings along what is bound around it. What is not narrowed down then is shown whole."""
_COMPILING: Final = 100
"""The work of compiling a character, about."""


@dataclass(frozen=True, slots=True)
class FalsePart:
    """A part of the text, from character `position` on, that is false by itself. `saw` are the values it went by, as texts."""

    text: str
    position: int
    saw: Mapping[str, str]

    def __str__(self) -> str:
        saw = ", ".join(f"{place} is {value}" for place, value in self.saw.items())
        return f"{self.text} is false" + (f": {saw}" if saw else "")


def find_false_part(selector: Selector, device: DeviceValue, features: Features) -> FalsePart:
    """The smallest term of `&&` that is false, for a selector that is false for the device."""
    search = _Search(selector.expression, device, features)
    span, program = search.narrow(_Span(0, len(search.tokens.kinds) - 1), selector.program)
    saw = {
        str(place): shown
        for place in places_of(program.reads)
        if not place.is_test and (shown := _shown(place.find(device)))
    }
    tests = {
        str(place): "set" if place.find(device) else "not set"
        for place in places_of(program.reads)
        if place.is_test
    }
    start, end = search.bounds(span)
    return FalsePart(search.text[start:end], start, tests | saw)


def _shown(value: Value) -> str:
    """As it would stand in an expression; whole maps are too much to show."""
    if value is MISSING:
        return "not set"
    if isinstance(value, dict):
        return ""
    if isinstance(value, str | bool):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, tuple):
        return f"[{', '.join(map(_shown, value))}]"
    return str(value)


@dataclass(frozen=True, slots=True)
class _Span:
    """Tokens from `first` up to `end`, with the `cel.bind(…, ` around them and how many brackets close it."""

    first: int
    end: int
    around: str = ""
    brackets: int = 0


class _Search:
    def __init__(self, text: str, device: DeviceValue, features: Features) -> None:
        self.text = text
        self.tokens: Tokens = tokenize(text)
        self._device = device
        self._features = features
        self._budget = Budget(_WORK)

    def bounds(self, span: _Span) -> tuple[int, int]:
        """Where in the text it starts and ends."""
        last = span.end - 1
        end = self.tokens.positions[last] + len(self.tokens.texts[last])
        return self.tokens.positions[span.first], end

    def narrow(self, span: _Span, program: Program) -> tuple[_Span, Program]:
        """The smallest false span within one that is false."""
        while True:
            span = self._unwrapped(span)
            terms = self._terms(span)
            if len(terms) == 1:
                return span, program
            found = self._first_false(terms)
            if found is None:
                return span, program
            span, program = found

    def _first_false(self, terms: list[_Span]) -> tuple[_Span, Program] | None:
        for term in terms:
            start, end = self.bounds(term)
            text = f"{term.around}{self.text[start:end]}{')' * term.brackets}"
            try:
                self._budget.charge(_COMPILING * len(text))
                program = compile_part(text, self._features, stored=True)
                if program.evaluate_within({"device": self._device.value}, self._budget) is False:
                    return term, program
            except BudgetSpentError:
                return None
            except (CelError, EvaluationError):
                continue
        return None

    def _unwrapped(self, span: _Span) -> _Span:
        """Without brackets around all of it, and within `cel.bind`."""
        kinds, texts = self.tokens.kinds, self.tokens.texts
        while True:
            first, end = span.first, span.end
            if kinds[first] == "(" and self._closing(first) == end - 1:
                span = _Span(first + 1, end - 1, span.around, span.brackets)
            elif texts[first : first + 4] == _BIND and self._closing(first + 3) == end - 1:
                body = self._split(first + 4, end - 1, ",")[-1][0]
                around = self.text[self.tokens.positions[first] : self.tokens.positions[body]]
                span = _Span(body, end - 1, span.around + around, span.brackets + 1)
            else:
                return span

    def _terms(self, span: _Span) -> list[_Span]:
        """The operands of `&&`; the whole where another operator binds less."""
        if len(self._split(span.first, span.end, "||")) > 1 or self._has_choice(span):
            return [span]
        parts = self._split(span.first, span.end, "&&")
        return [_Span(first, end, span.around, span.brackets) for first, end in parts]

    def _has_choice(self, span: _Span) -> bool:
        """`?:` outside of brackets; the question mark of `a.?b` is another one."""
        kinds, depth = self.tokens.kinds, 0
        for at in range(span.first, span.end):
            depth += (kinds[at] in _OPENING) - (kinds[at] in _CLOSING)
            if depth == 0 and kinds[at] == "?" and kinds[at - 1] != ".":
                return True
        return False

    def _split(self, first: int, end: int, separator: str) -> list[tuple[int, int]]:
        parts, depth, start = [], 0, first
        for at in range(first, end):
            kind = self.tokens.kinds[at]
            depth += (kind in _OPENING) - (kind in _CLOSING)
            if depth == 0 and kind == separator:
                parts.append((start, at))
                start = at + 1
        return [*parts, (start, end)]

    def _closing(self, opening: int) -> int:
        """Where the bracket is closed again: in a text that compiles it is."""
        depth, at = 0, opening
        while True:
            kind = self.tokens.kinds[at]
            depth += (kind in _OPENING) - (kind in _CLOSING)
            if depth == 0:
                return at
            at += 1
