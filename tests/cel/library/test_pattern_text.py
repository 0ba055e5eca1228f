from __future__ import annotations

import pytest

from dray.cel.library import patterns
from dray.cel.library.pattern_text import MOST, TOO_LARGE, preview
from tests.campaign import campaign, seeded

ATOMS = (
    *(
        "a",
        "é",
        "ſ",
        "ß",
        "😀",
        ".",
        "^",
        "$",
        r"\b",
        r"\w",
        r"\W",
        r"\D",
        r"\S",
        r"\x61",
        r"\x{10FFFF}",
        r"\n",
    ),
    *("[a-z]", "[^a]", "[^k-ſ]", "[]a]", "[^]a]", "[[:word:]]", "[[:^alpha:]]", r"[\]]", r"[^\pN]", "[[]"),
    *(
        r"\pL",
        r"\PL",
        r"\p{Greek}",
        r"\p{Han}",
        r"\Qa.b\E",
        "(?:x)",
        "(y)",
        "(?P<n>z)",
        "a{3}",
        "(?:b{3}){4}",
    ),
    *("a*", "b+?", "c?", "d|", r"\pL{3}", "{", "{,3}", "a{2,}", "a{0}"),
)


@pytest.mark.parametrize("flags", ["", "(?i)", "(?s)"])
def test_the_size_ahead_is_not_below_what_is_compiled(flags: str) -> None:
    """What a selector pays for a pattern before it is compiled."""
    chance, compiled = seeded(f"size ahead {flags}"), 0
    for _ in range(campaign(300, 20_000)):
        pattern = flags + "".join(chance.choice(ATOMS) for _ in range(chance.randint(1, 8)))
        if patterns.fault(pattern) is None:
            compiled += 1
            assert patterns.program_size(pattern) <= preview(pattern).size + 12, pattern
    assert compiled > 100


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        (r"a\C", r"invalid escape sequence: `\C`"),
        (r"\\C", ""),
        (r"\Q\C\E", ""),
        (r"\Q\C", ""),
        (r"\Q\C\E\C", r"invalid escape sequence: `\C`"),
        ("(" * 999 + ")" * 999, ""),
        ("()" * 2000, ""),
        ("(?:" * 2000, ""),
        ("[()]" * 2000, ""),
        ("(?P<a>" * 1000, "expression nests too deeply: `(?P<a>"),
        ("(" * 1000, "expression nests too deeply: `((("),
        (r"\pL" * 129, TOO_LARGE),
        ("a{1000}" * 101, TOO_LARGE),
        ("^{1000}" * 101, ""),
        ("[a{1000}]" * 101, ""),
        (r"\x{1000}" * 101, ""),
    ],
)
def test_what_go_refuses_and_re2_does_not(pattern: str, fault: str) -> None:
    assert preview(pattern).fault[: len(fault) or 1] == fault


@pytest.mark.parametrize("end", ["", "]", "\\", "[:a", "x]"])
@pytest.mark.parametrize(
    "piece", ["[", "[^", "[:a", "[[:alpha:", "[\\", "(?", "\\Q", "\\x{", "\\p{", "{1", "a{1,"]
)
def test_a_long_text_is_read_once(piece: str, end: str) -> None:
    """Without a limit of time: a pattern that looks to the end from every bracket would take hours here."""
    text = piece * (50_000 // len(piece)) + end
    assert preview.__wrapped__(text).size <= MOST
