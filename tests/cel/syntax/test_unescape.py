"""Quoted literals to values."""

from __future__ import annotations

import pytest

from dray.cel.syntax.unescape import unescape_bytes, unescape_string


@pytest.mark.parametrize(
    ("token", "value"),
    [
        ('""', ""),
        ("''", ""),
        ('""""""', ""),
        ("'a\"b'", 'a"b'),
        ('"a\\"b"', 'a"b'),
        ('"""a""b"""', 'a""b'),
        ("'''\n'''", "\n"),
        ('"""a\r\nb\rc"""', "a\nb\nc"),
        ('r"\\n"', "\\n"),
        ("R'''a'b\\'''", "a'b\\"),
        ('"\\a\\b\\f\\n\\r\\t\\v\\\\\\\'\\"\\`\\?"', "\a\b\f\n\r\t\v\\'\"`?"),
        ('"\\x41\\X42\\103"', "ABC"),
        ('"\\xff\\377"', "ÿÿ"),
        ('"\\u00e9\\U0001F600"', "é😀"),
        ('"é😀"', "é😀"),
        ('"\\\\n"', "\\n"),
    ],
)
def test_strings(token: str, value: str) -> None:
    assert unescape_string(token) == value


@pytest.mark.parametrize(
    ("token", "value"),
    [
        ('""', b""),
        ('"\\xff\\000\\377"', b"\xff\x00\xff"),
        ("'é'", b"\xc3\xa9"),
        ("'é\\n'", b"\xc3\xa9\n"),
        ('r"\\xff"', b"\\xff"),
        ("'''a\r\n\\'b'''", b"a\n'b"),
    ],
)
def test_bytes(token: str, value: bytes) -> None:
    assert unescape_bytes(token) == value


@pytest.mark.parametrize("token", ['"\\ud800"', '"\\uDFFF"', '"\\U00110000"', '"\\Uffffffff"'])
def test_numbers_that_are_no_character(token: str) -> None:
    with pytest.raises(ValueError, match="invalid unicode code point"):
        unescape_string(token)


@pytest.mark.parametrize("token", ['"\\u0041"', "'\\U00000041'"])
def test_bytes_know_no_characters_by_number(token: str) -> None:
    with pytest.raises(ValueError, match="unable to unescape"):
        unescape_bytes(token)
