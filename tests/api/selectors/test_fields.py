"""Field selectors. That they mean the same as in Go is shown by the corpus in test_values."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api.selectors import FieldMatcher, FieldTerm, parse_field_selector
from dray.errors import InvalidError
from tests.campaign import campaign


def test_matching() -> None:
    matcher = parse_field_selector("metadata.name=x,spec.nodeName!=y")
    assert matcher.matches({"metadata.name": "x", "spec.nodeName": "z"})
    assert matcher.matches({"metadata.name": "x"})
    assert not matcher.matches({"metadata.name": "x", "spec.nodeName": "y"})
    assert not matcher.matches({"spec.nodeName": "z"})
    assert (matcher.required_value("metadata.name"), matcher.required_value("spec.nodeName")) == ("x", None)


def test_an_absent_field_counts_as_empty() -> None:
    assert parse_field_selector("spec.nodeName=").matches({})
    assert not parse_field_selector("spec.nodeName!=").matches({})


def test_empty_matches_everything() -> None:
    for text in ("", ",", ",,"):
        assert not parse_field_selector(text)
        assert parse_field_selector(text).matches({})


def test_escapes() -> None:
    matcher = parse_field_selector(r"a=x\,y\=z\\")
    assert matcher.terms == (FieldTerm("a", "x,y=z\\"),)
    assert str(matcher) == r"a=x\,y\=z\\"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=b,c", "'c' at character 5 has no ="),
        ("a=b=c", "character 4 must be escaped"),
        ("a=\\x", "character 3 must be escaped"),
        ("x=1,a=b\\", "character 8 must be escaped"),
    ],
)
def test_errors_name_the_character(text: str, message: str) -> None:
    with pytest.raises(InvalidError) as caught:
        parse_field_selector(text)
    assert message in str(caught.value)


@settings(max_examples=campaign(200, 20_000))
@given(st.dictionaries(st.from_regex(r"[a-z.]{1,8}", fullmatch=True), st.text(max_size=8), max_size=3))
def test_any_value_can_be_asked_for(fields: dict[str, str]) -> None:
    asked = FieldMatcher(tuple(FieldTerm(name, value) for name, value in sorted(fields.items())))
    again = parse_field_selector(str(asked))
    assert sorted(again.terms, key=str) == sorted(asked.terms, key=str)
    assert again.matches(fields)


@settings(max_examples=campaign(200, 50_000))
@given(st.text(alphabet="ab=!,\\ \n", max_size=20))
def test_any_text_is_a_selector_or_invalid(text: str) -> None:
    try:
        matcher = parse_field_selector(text)
    except InvalidError:
        return
    assert parse_field_selector(str(matcher)).terms == tuple(sorted(matcher.terms, key=str))
