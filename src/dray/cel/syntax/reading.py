"""A place in the tokens, and what is read from a single one of them: literals and names of fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isinf

from dray.cel.ast import Expr, Literal
from dray.cel.faults import CelError
from dray.cel.syntax.builder import Builder
from dray.cel.syntax.lexer import BYTES, ESCAPED, FLOAT, INT, NAME, tokenize
from dray.cel.syntax.macros import Macro, MacroKey
from dray.cel.syntax.unescape import unescape_bytes, unescape_string
from dray.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint, Value

DEPTH_LIMIT = 250
NUMBERS = frozenset([INT, FLOAT])
WORDS: dict[str, Value] = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class ParseOptions:
    """What an environment adds to the language: its macros, `.?` and `[?`, and names in backquotes."""

    macros: Mapping[MacroKey, Macro] = field(default_factory=dict)
    optional_syntax: bool = True
    escaped_names: bool = False


class Reader(Builder):
    """`at` is the next token. `height` is that of the expression read last, in levels that count against the limit."""

    __slots__ = ("at", "height", "kinds", "options", "positions", "texts")

    def __init__(self, text: str, options: ParseOptions) -> None:
        super().__init__()
        self.kinds, self.texts, self.positions = tokenize(text)
        self.options = options
        self.at = 0
        self.height = 0

    def grow(self, height: int, position: int) -> None:
        """One level more than the height given."""
        self.height = height + 1
        if height >= DEPTH_LIMIT:
            raise CelError("max recursion depth exceeded", position=position)

    def signed(self) -> Expr:
        """A minus directly before a number belongs to it."""
        if self.kinds[self.at + 1] not in NUMBERS:
            raise self.unexpected("an operand")
        return self.read_number()

    def read_number(self) -> Expr:
        """An int or a double."""
        position = self.positions[self.at]
        is_negative = self.kinds[self.at] == "-"
        self.at += is_negative
        kind, text = self.kinds[self.at], self.texts[self.at]
        self.at += 1
        self.number += 1
        self.height = 0
        if kind == FLOAT:
            value = float(text)
            if isinf(value):
                raise CelError("invalid double literal", position=position)
            return Literal(self.number, position, -value if is_negative else value)
        whole = _integer(text)
        whole = -whole if is_negative else whole
        if not INT_MIN <= whole <= INT_MAX:
            raise CelError("invalid int literal", position=position)
        return Literal(self.number, position, whole)

    def unsigned(self) -> Expr:
        """A uint."""
        value = _integer(self.texts[self.at][:-1])
        if value > UINT_MAX:
            raise CelError("invalid uint literal", position=self.positions[self.at])
        return self.read_literal(Uint(value))

    def quoted(self) -> Expr:
        """A string or bytes."""
        token = self.texts[self.at]
        try:
            value: Value = (
                unescape_bytes(token[1:]) if self.kinds[self.at] == BYTES else unescape_string(token)
            )
        except ValueError as fault:
            raise CelError(str(fault), position=self.positions[self.at]) from None
        return self.read_literal(value)

    def word(self) -> Expr:
        """true, false or null."""
        return self.read_literal(WORDS[self.kinds[self.at]])

    def read_literal(self, value: Value) -> Expr:
        """The node of a literal that is one token."""
        position = self.positions[self.at]
        self.at += 1
        self.number += 1
        self.height = 0
        return Literal(self.number, position, value)

    def field_name(self) -> tuple[str, int]:
        """What follows a dot or stands before a colon, and where."""
        kind, name, position = self.kinds[self.at], self.texts[self.at], self.positions[self.at]
        if kind == ESCAPED:
            if not self.options.escaped_names:
                raise CelError("unsupported syntax: '`'", position=position)
            name = name[1:-1]
        elif kind != NAME:
            raise self.unexpected("IDENTIFIER")
        self.at += 1
        return name, position

    def skip_mark(self, shown: str, position: int) -> bool:
        """Whether a question mark stood here."""
        if self.kinds[self.at] != "?":
            return False
        if not self.options.optional_syntax:
            raise CelError(f"unsupported syntax '{shown}'", position=position)
        self.at += 1
        return True

    def has_more(self, end: str, items: Sequence[object]) -> bool:
        """Steps over the comma between items and the one that may follow the last, and over the end."""
        kinds = self.kinds
        if items and kinds[self.at] not in (",", end):
            raise self.unexpected(f"'{end}', ','")
        if kinds[self.at] == "," and (items or kinds[self.at + 1] == end):
            self.at += 1
        if kinds[self.at] == end:
            self.at += 1
            return False
        return True

    def expect(self, kind: str) -> int:
        """Steps over this token and says where it stood."""
        if self.kinds[self.at] != kind:
            raise self.unexpected(f"'{kind}'")
        self.at += 1
        return self.positions[self.at - 1]

    def unexpected(self, wanted: str) -> CelError:
        """For the next token."""
        found = self.texts[self.at] or "<EOF>"
        shown = found if len(found) <= 40 else f"{found[:40]}…"
        message = f"Syntax error: mismatched input '{shown}' expecting {wanted}"
        return CelError(message, position=self.positions[self.at])


def _integer(text: str) -> int:
    """Numbers too long for 64 bits stay too large, without the time that a conversion of theirs would take."""
    digits = text.removeprefix("0x")
    base = 10 if len(digits) == len(text) else 16
    significant = digits.lstrip("0")
    return UINT_MAX + 1 if len(significant) > 20 else int(significant or "0", base)
