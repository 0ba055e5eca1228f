from __future__ import annotations

import re

import pytest
import re2  # type: ignore[import-untyped]

from dray.cel.faults import EvaluationError
from dray.cel.library import patterns
from dray.cel.values import EvaluationCancelledError
from tests.campaign import campaign, seeded


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"\Qa.b\E", "xa.b", "a.b"),
        (r"\pN+", "a٣4", "٣4"),
        (r"(?P<name>b+)", "abbc", "bb"),
        (r"(?i)É", "é", "é"),
        (r"a$", "a\n", ""),
        (r"a\z", "ba", "a"),
        (r"(?U)a+", "aaa", "a"),
        (r"a|ab", "ab", "a"),
        (r"\bb", "a b", "b"),
        (r"x*", "aaa", ""),
    ],
)
def test_go_syntax(pattern: str, text: str, found: str) -> None:
    assert patterns.find(pattern, text) == found


def test_a_pattern_of_hundreds_of_classes_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading 700 of them takes a quarter of a second, whatever becomes of the pattern."""
    monkeypatch.setattr(patterns, "_made", lambda pattern, memory: "wrong")
    assert patterns.fault(r"[^\pL\PN\pP]" * 43) == "error parsing regexp: expression too large"
    assert patterns.fault(r"[^\pL\PN\pP]" * 42) == "error parsing regexp: wrong"


def test_a_pattern_that_no_selector_could_hold_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_made", lambda pattern, memory: "wrong")
    expected = "error parsing regexp: expression too large: a pattern has at most 10240 bytes"
    assert patterns.fault("k" * 10_241) == patterns.fault("é" * 5_121) == expected
    assert patterns.fault("k" * 10_240) == patterns.fault("é" * 5_120) == "error parsing regexp: wrong"
    assert patterns.size_ahead("k" * 10_241) == 1


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("[0-9]*", "1a22", ("1", "22")),
        ("", "aé", ("", "", "")),
        ("a*", "baac", ("", "aa", "")),
        ("^a", "aaa", ("a",)),
        (r"\b", "ab c", ("", "", "", "")),
        ("é", "éaé", ("é", "é")),
    ],
)
def test_all_matches_as_go_finds_them(pattern: str, text: str, found: tuple[str, ...]) -> None:
    assert patterns.find_all(pattern, text) == found
    assert patterns.find_all(pattern, text, 1) == found[:1]
    assert patterns.find_all(pattern, text, 0) == ()


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("a(b", "missing closing ): `a(b`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        (r"\Z", r"invalid escape sequence: `\Z`"),
        (r"\C", r"invalid escape sequence: `\C`"),
        ("(" * 1000 + ")" * 1000, "expression nests too deeply"),
        ("a\\", "trailing backslash at end of expression: ``"),
        (r"\pL" * 3000, "expression too large"),
    ],
)
def test_what_is_wrong_is_said_in_go_words(pattern: str, message: str) -> None:
    assert (patterns.fault(pattern) or "").startswith(f"error parsing regexp: {message}")
    with pytest.raises(EvaluationError):
        patterns.search(pattern, "a")


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("(x+x+)+y", "x" * 20_000, False),
        ("(a|aa)+$", "a" * 20_000 + "b", False),
        ("(.*)*b", "a" * 20_000, False),
        ("(?:a?){1000}a{1000}", "a" * 999, False),
        ("(?:a?){1000}a{1000}", "a" * 1000, True),
        ("(a|b|c)" * 1400 + "x", "abc" * 3000, False),
        ("[^a-c]" * 1400, "d" * 9000 + "a", True),
    ],
)
def test_time_grows_with_the_text_only(pattern: str, text: str, found: bool) -> None:
    """Whoever goes back and forth never ends here. RE2 does not, and its machine has bounds."""
    assert patterns.search(pattern, text) is found
    compiled = patterns._compile(pattern)
    assert isinstance(compiled, re2._Regexp)
    assert compiled.options.max_mem <= 1 << 20 and compiled.options.never_capture


def test_matches_that_look_at_the_whole_text_each_are_cut_off() -> None:
    with pytest.raises(EvaluationCancelledError):
        patterns.find_all(".*y|", "a" * 100_000)


def test_short_texts_are_remembered_and_long_ones_are_not() -> None:
    before = patterns._remembered_search.cache_info()
    for _ in range(3):
        assert patterns.search("^remembered$", "remembered")
        assert not patterns.search("^remembered$", "r" * 1000)
    after = patterns._remembered_search.cache_info()
    assert (after.hits - before.hits, after.misses - before.misses) == (2, 1)


def test_the_same_as_python_where_both_have_the_same_syntax() -> None:
    chosen = seeded(3)
    pieces = ["a", "b", "[ab]", "[^a]", ".", "a*?", "b+", "(ab)", "(?:a|b)", "c{1,2}", "é", "$", "^"]
    for _ in range(campaign(300, 20_000)):
        pattern = "".join(chosen.choices(pieces, k=chosen.randint(1, 5)))
        text = "".join(chosen.choices("abcé", k=chosen.randint(0, 12)))
        found = re.search(pattern, text)
        assert patterns.search(pattern, text) is (found is not None), (pattern, text)
        assert patterns.find(pattern, text) == (found[0] if found else ""), (pattern, text)
