"""Tokens: every kind, what ends an expression, and texts that would make a pattern go back and forth."""

from __future__ import annotations

import contextlib
import re

import pytest

from dray.cel.faults import CelError
from dray.cel.syntax.lexer import _TOKEN, BYTES, END, ESCAPED, FLOAT, INT, NAME, STRING, UINT, tokenize
from tests.cel.counting import Backtracking, is_linear


def kinds(text: str) -> list[str]:
    return tokenize(text).kinds


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("abc", NAME),
        ("_a1", NAME),
        ("r", NAME),
        ("inside", NAME),
        ("`a-b/c.d e`", ESCAPED),
        ("0", INT),
        ("0x1Fa", INT),
        ("007", INT),
        ("1u", UINT),
        ("0xFU", UINT),
        ("1.5", FLOAT),
        ("1e5", FLOAT),
        ("1.5E-3", FLOAT),
        (".5", FLOAT),
        ('"a"', STRING),
        ("'it\\'s'", STRING),
        ('"""a"b\n"""', STRING),
        ("'''a''b'''", STRING),
        ('r"\\"', STRING),
        ("R'''\\'''", STRING),
        ('"\\u00e9\\U0001F600\\x41\\101\\?\\`"', STRING),
        ('b"a"', BYTES),
        ("BR'\\'", BYTES),
        ("in", "in"),
        ("true", "true"),
        ("null", "null"),
        ("&&", "&&"),
        ("<=", "<="),
    ],
)
def test_a_token_is_of_its_kind(text: str, kind: str) -> None:
    tokens = tokenize(text)
    assert tokens.kinds == [kind, END]
    assert tokens.texts == [text, ""]


def test_the_longest_token_wins_and_positions_count_characters() -> None:
    tokens = tokenize(' "é" + a<=b\t//c\n.5')
    assert tokens.texts == ['"é"', "+", "a", "<=", "b", ".5", ""]
    assert tokens.positions == [1, 5, 7, 8, 10, 16, 18]


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("1.a", ["1", ".", "a"]),
        ("1.e3", ["1", ".", "e3"]),
        ("0xg", ["0", "xg"]),
        ("1ux", ["1u", "x"]),
        ("a.5", ["a", ".5"]),
        ('rb""', ["rb", '""']),
        ("a// b\r\nc", ["a", "c"]),
    ],
)
def test_where_a_token_ends(text: str, texts: list[str]) -> None:
    assert tokenize(text).texts == [*texts, ""]


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ('"abc', 0),
        ("a + 'abc", 4),
        ('"a\nb"', 0),
        ('"\\q"', 0),
        ('"\\400"', 0),
        ('"\\u12"', 0),
        ('"\\x1g"', 0),
        ("a = b", 2),
        ("a !== b", 4),
        ('"""""""', 6),
        ("a & b", 2),
        ("a | b", 2),
        ("#", 0),
        ("a\x0bb", 1),
        ("a\u00a0b", 1),
        ("`a$`", 0),
        ("``", 0),
        ("\\", 0),
        ("é", 0),
        ("١", 0),
    ],
)
def test_what_is_no_token_is_named_with_its_place(text: str, position: int) -> None:
    with pytest.raises(CelError, match="token recognition error") as caught:
        tokenize(text)
    assert caught.value.position == position


@pytest.mark.parametrize(
    ("head", "repeated", "tail"),
    [
        ('"', "a", ""),
        ('"""', '"a', ""),
        ("'''", "\\'", ""),
        ('r"""', '""a', ""),
        ("", '"\\n', ""),
        ("", "'''\\q", ""),
        ("b'", "\\x41a", "\\x4"),
        ('"', "\\u0041", "\n"),
        ("`", "a", ""),
        ("", "1", "e"),
        ("1.", "1", "e+"),
        ("", "/", ""),
        ("", " ", ""),
        ("", "0x", ""),
        ("", "rR", ""),
    ],
)
def test_a_long_text_takes_one_pass(head: str, repeated: str, tail: str) -> None:
    def steps(count: int) -> int:
        return Backtracking(_TOKEN).scan(head + repeated * count + tail, "unknown")

    assert is_linear(steps, 100)
    with contextlib.suppress(CelError):
        tokenize(head + repeated * (99_000 // len(repeated)) + tail)


def test_a_pattern_that_goes_back_and_forth_is_seen() -> None:
    """What the test above would find: two ways to divide a run among two stars, and a run that is tried again and again."""
    for pattern in (r"(?:[a-z]*,?)*;", r"(?:a*b?)*[a-z]*;"):
        count = Backtracking(re.compile(pattern))
        assert not is_linear(lambda size, count=count: count.scan("a" * size), 5)  # type: ignore[misc]


def test_nothing_is_only_the_end() -> None:
    assert kinds("") == kinds(" \t\r\n\f// a comment") == [END]
