"""Text to tokens. The first character that begins no token ends it: an expression is right or it is refused."""

from __future__ import annotations

import re
from typing import NamedTuple

from dray.cel.faults import CelError

NAME, ESCAPED, INT, UINT, FLOAT, STRING, BYTES, END = (
    "name",
    "escaped",
    "int",
    "uint",
    "float",
    "string",
    "bytes",
    "",
)
"""The kinds of tokens; an operator, a bracket and `in`, `true`, `false`, `null` are their own kind."""

_WORDS = frozenset(["in", "true", "false", "null"])

# Each quoted form is a run of plain characters, then any number of (escape or lone quote, run): no two ways to match the same
# text, so a string that does not end fails in one pass.
_HEX = "[0-9a-fA-F]"
_ESCAPE = rf"""\\(?:[abfnrtv"'\\?`]|[xX]{_HEX}{{2}}|u{_HEX}{{4}}|U{_HEX}{{8}}|[0-3][0-7]{{2}})"""
_QUOTED = "|".join(
    [
        rf'"""[^"\\]*(?:(?:{_ESCAPE}|"(?!""))[^"\\]*)*"""',
        rf"'''[^'\\]*(?:(?:{_ESCAPE}|'(?!''))[^'\\]*)*'''",
        rf'"[^"\\\r\n]*(?:{_ESCAPE}[^"\\\r\n]*)*"',
        rf"'[^'\\\r\n]*(?:{_ESCAPE}[^'\\\r\n]*)*'",
    ]
)
_RAW = (
    r'''[rR]"""[^"]*(?:"(?!"")[^"]*)*"""|'''
    r"""[rR]'''[^']*(?:'(?!'')[^']*)*'''|"""
    r"""[rR]"[^"\r\n]*"|[rR]'[^'\r\n]*'"""
)
_EXPONENT = "[eE][-+]?[0-9]+"
_TOKEN = re.compile(
    rf"""[\t\n\f\r ]*(?:
    (?P<{BYTES}>[bB](?:{_QUOTED}|{_RAW}))
    |(?P<{STRING}>{_QUOTED}|{_RAW})
    |(?P<{NAME}>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<{FLOAT}>[0-9]+\.[0-9]+(?:{_EXPONENT})?|[0-9]+{_EXPONENT}|\.[0-9]+(?:{_EXPONENT})?)
    |(?P<{UINT}>(?:0x{_HEX}+|[0-9]+)[uU])
    |(?P<{INT}>0x{_HEX}+|[0-9]+)
    |(?P<comment>//[^\n]*)
    |(?P<sign>[=!<>]=|&&|\|\||[-+*/%<>!?:.,()\[\]{{}}])
    |(?P<{ESCAPED}>`[A-Za-z0-9_./\ -]+`)
    |(?P<end>\Z)
    |(?P<unknown>[\s\S])
    )""",
    re.VERBOSE,
)


class Tokens(NamedTuple):
    """Three lists of one length; the last token is of kind `END`."""

    kinds: list[str]
    texts: list[str]
    positions: list[int]


def tokenize(text: str) -> Tokens:
    """All tokens of a text, without white space and comments."""
    kinds: list[str] = []
    texts: list[str] = []
    positions: list[int] = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        token = match[kind]
        if kind == "sign" or (kind == NAME and token in _WORDS):
            kind = token
        elif kind == "comment":
            continue
        elif kind == "unknown":
            raise _unknown(text, match.start(kind))
        elif kind == "end":
            kind = END
        kinds.append(kind)
        texts.append(token)
        positions.append(match.start(match.lastgroup or ""))
        if kind == END:
            break
    return Tokens(kinds, texts, positions)


def _unknown(text: str, position: int) -> CelError:
    """A quote that is never closed shows what follows it, as far as its line goes."""
    line = text[position:].split("\n", 1)[0][:40]
    shown = line if text[position] in "\"'`" else text[position]
    return CelError(f"Syntax error: token recognition error at: '{shown}'", position=position)
