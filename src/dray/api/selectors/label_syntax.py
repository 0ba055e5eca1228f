"""The string form of label selectors: `a=b,c!=d,e in (x,y),f notin (z),g,!h,i>5,j<6`.

Same language as the API server's `labelSelector` parameter: no backtracking, one token of lookahead.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple, NoReturn

from dray.api.field_errors import Path
from dray.api.names import label_key
from dray.api.selectors.labels import LabelMatcher, Operator, Requirement, matcher, require
from dray.errors import InvalidError

_TOKEN: Final = re.compile(r"[ \t\r\n]*(==|!=|[=!()<>,]|[^ \t\r\n=!()<>,]+)")
_SIGNS: Final = frozenset({"==", "!=", "=", "!", "(", ")", "<", ">", ","})
_BINARY: Final = {
    operator.value: operator
    for operator in Operator
    if operator not in (Operator.EXISTS, Operator.DOES_NOT_EXIST)
}


class _Token(NamedTuple):
    text: str
    position: int

    @property
    def is_word(self) -> bool:
        return bool(self.text) and self.text not in _SIGNS


def parse_label_selector(text: str) -> LabelMatcher:
    """The matcher that `text` describes; empty matches everything. An error names the character it stopped at."""
    return _remembered(text) if len(text) <= 1000 else _parse(text)


def _parse(text: str) -> LabelMatcher:
    return matcher(_Parser(text).requirements())


_remembered: Final = lru_cache(maxsize=1024)(_parse)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        # Space that no token follows would be walked over once from each of its characters.
        ended = text.rstrip(" \t\r\n")
        self.tokens = [_Token(found[1], found.start(1)) for found in _TOKEN.finditer(ended)]
        self.tokens.append(_Token("", len(text)))
        self.next = 0

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        if not self.peek().text:
            return found
        while True:
            found.append(self.requirement())
            token = self.take()
            if not token.text:
                return found
            if token.text != ",":
                self.fail(token, "',' or end of string")

    def requirement(self) -> Requirement:
        start = self.peek()
        absent = start.text == "!"
        if absent:
            self.take()
        key = self.take()
        if not key.is_word:
            self.fail(key, "a label key")
        if faults := label_key(key.text):
            raise InvalidError(
                f"label selector {self.text!r}: key {key.text!r} at character {key.position + 1}: {faults[0]}"
            )
        if absent:
            return self.checked(key, Operator.DOES_NOT_EXIST, [], start)
        if self.peek().text in ("", ","):
            return self.checked(key, Operator.EXISTS, [], start)
        sign = self.take()
        operator = _BINARY.get(sign.text)
        if operator is None:
            self.fail(sign, "one of " + ", ".join(_BINARY))
        is_set = operator in (Operator.IN, Operator.NOT_IN)
        return self.checked(key, operator, self.value_set() if is_set else [self.value()], start)

    def checked(self, key: _Token, operator: Operator, values: list[str], start: _Token) -> Requirement:
        result = require(key.text, operator, values, Path())
        if isinstance(result, Requirement):
            return result
        raise InvalidError(
            f"label selector {self.text!r}: requirement at character {start.position + 1}: {result[0]}",
            causes=tuple(result),
        )

    def value(self) -> str:
        """One value; nothing at all stands for the empty value."""
        if self.peek().text in ("", ","):
            return ""
        token = self.take()
        if not token.is_word:
            self.fail(token, "a value")
        return token.text

    def value_set(self) -> list[str]:
        """Values in parentheses; an empty place between commas stands for the empty value."""
        opening = self.take()
        if opening.text != "(":
            self.fail(opening, "'('")
        values = set()
        while True:
            if self.peek().is_word:
                values.add(self.take().text)
            else:
                values.add("")
            token = self.take()
            if token.text == ")":
                return sorted(values)
            if token.text != ",":
                self.fail(token, "',' or ')'")

    def peek(self) -> _Token:
        return self.tokens[self.next]

    def take(self) -> _Token:
        token = self.tokens[self.next]
        self.next = min(self.next + 1, len(self.tokens) - 1)
        return token

    def fail(self, token: _Token, expected: str) -> NoReturn:
        found = f"found {token.text!r}" if token.text else "it ends"
        raise InvalidError(
            f"label selector {self.text!r}: {found} at character {token.position + 1}, expected {expected}"
        )
