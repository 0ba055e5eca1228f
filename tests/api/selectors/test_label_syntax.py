"""The string form. That it means the same as in Go is shown by the corpus in test_values."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api.selectors import parse_label_selector
from dray.errors import InvalidError
from tests.campaign import campaign


def test_every_operator() -> None:
    text = "a=b,c!=d,e in (x,y),f notin (z),g,!h,i>5,j<6"
    matcher = parse_label_selector(text)
    assert str(matcher) == text
    labels = {"a": "b", "e": "y", "g": "", "i": "6", "j": "-6"}
    assert matcher.matches(labels)
    for change in ({"a": "c"}, {"c": "d"}, {"e": "z"}, {"f": "z"}, {"h": ""}, {"i": "5"}, {"j": "six"}):
        assert not matcher.matches(labels | change)
    for key in ("a", "e", "g", "i", "j"):
        assert not matcher.matches({name: value for name, value in labels.items() if name != key})


def test_values_are_integers_of_64_bits_for_gt_and_lt() -> None:
    matcher = parse_label_selector("a>5")
    assert [matcher.matches({"a": value}) for value in ("6", "+6", "06", " 6", "6.0", "1_0", "٦", "9" * 40)] == [
        True, True, True, False, False, False, False, False,
    ]  # fmt: skip


def test_empty_and_blank_match_everything() -> None:
    assert parse_label_selector("").matches({})
    assert parse_label_selector(" \t\n").matches({"a": "b"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a in (b", "it ends at character 8, expected ',' or ')'"),
        ("a b", "found 'b' at character 3, expected one of"),
        ("a=(", "found '(' at character 3, expected a value"),
        ("=x", "found '=' at character 1, expected a label key"),
        ("a,", "it ends at character 3, expected a label key"),
        ("a,,b", "found ',' at character 3, expected a label key"),
        ("!", "it ends at character 2, expected a label key"),
        ("!a=b", "found '=' at character 3, expected ',' or end of string"),
        ("a in b", "found 'b' at character 6, expected '('"),
        ("x,-a=b", "key '-a' at character 3"),
        ("x,a=-b", "requirement at character 3"),
        ("a>b", "must be an integer"),
        ("a>", "must be an integer"),
        ("a\x00b", "key"),
    ],
)
def test_errors_name_the_character(text: str, message: str) -> None:
    with pytest.raises(InvalidError) as caught:
        parse_label_selector(text)
    assert message in str(caught.value)
    assert str(caught.value).startswith("label selector ")


@settings(max_examples=campaign(300, 100_000))
@given(st.one_of(st.text(max_size=40), st.text(alphabet="ab in(),=!<>9", max_size=40)))
def test_any_text_is_a_selector_or_invalid(text: str) -> None:
    try:
        matcher = parse_label_selector(text)
    except InvalidError:
        return
    again = parse_label_selector(str(matcher))
    assert str(again) == str(matcher)
    labels = {"a": "b", "b": "", "in": "a", "9": "9"}
    assert again.matches(labels) == matcher.matches(labels)


@pytest.mark.parametrize("text", ["", "a", "a=b,", "a in (x"])
def test_space_at_the_end_is_walked_over_once(text: str) -> None:
    """Without a limit of time: from each of a million spaces it would take hours."""
    space = " \t\r\n" * 250_000
    try:
        expected = str(parse_label_selector(text))
    except InvalidError:
        with pytest.raises(InvalidError):
            parse_label_selector(text + space)
    else:
        assert str(parse_label_selector(text + space)) == expected
