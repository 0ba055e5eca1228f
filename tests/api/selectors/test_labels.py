from __future__ import annotations

import pytest

from dray.api.field_errors import Path
from dray.api.selectors import (
    EVERYTHING,
    NOTHING,
    LabelSelector,
    LabelSelectorRequirement,
    compile_label_selector,
    match_labels,
    parse_label_selector,
)
from dray.errors import InvalidError


def expression(key: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector(
        match_expressions=(LabelSelectorRequirement(key=key, operator=operator, values=values),)
    )


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        (expression("a", "In", "x", "y"), {"a": "y"}, True),
        (expression("a", "In", "x", "y"), {"a": "z"}, False),
        (expression("a", "In", "x"), {}, False),
        (expression("a", "In", ""), {"a": ""}, True),
        (expression("a", "In", ""), {}, False),
        (expression("a", "NotIn", "x"), {"a": "x"}, False),
        (expression("a", "NotIn", "x"), {"a": "y"}, True),
        (expression("a", "NotIn", "x"), {}, True),
        (expression("a", "Exists"), {"a": ""}, True),
        (expression("a", "Exists"), {"b": ""}, False),
        (expression("a", "DoesNotExist"), {"a": ""}, False),
        (expression("a", "DoesNotExist"), {}, True),
        (LabelSelector(match_labels={"a": "x", "b": "y"}), {"a": "x", "b": "y", "c": "z"}, True),
        (LabelSelector(match_labels={"a": "x", "b": "y"}), {"a": "x"}, False),
        (LabelSelector(), {}, True),
        (LabelSelector(), {"a": "x"}, True),
    ],
)
def test_matching(selector: LabelSelector, labels: dict[str, str], matches: bool) -> None:
    assert compile_label_selector(selector).matches(labels) is matches


def test_an_absent_selector_matches_nothing() -> None:
    assert compile_label_selector(None) is NOTHING
    assert not NOTHING.matches({})
    assert EVERYTHING.matches({})
    assert not EVERYTHING


def test_both_parts_must_hold_and_the_text_is_sorted() -> None:
    selector = LabelSelector(
        match_labels={"z": "1"}, match_expressions=(LabelSelectorRequirement(key="a", operator="Exists"),)
    )
    matcher = compile_label_selector(selector)
    assert str(matcher) == "a,z=1"
    assert matcher.matches({"a": "", "z": "1"})
    assert not matcher.matches({"z": "1"})
    assert str(parse_label_selector(str(matcher))) == str(matcher)


def test_all_faults_at_once_with_their_places() -> None:
    selector = LabelSelector(
        match_labels={"-bad": "x", "ok": "-"},
        match_expressions=(
            LabelSelectorRequirement(key="a", operator="In"),
            LabelSelectorRequirement(key="a", operator="Exists", values=("x",)),
            LabelSelectorRequirement(key="a", operator="Gt", values=("5",)),
            LabelSelectorRequirement(key="a", operator="Like", values=("5",)),
        ),
    )
    with pytest.raises(InvalidError) as caught:
        compile_label_selector(selector, Path("spec").child("selector"))
    assert [cause.field for cause in caught.value.causes] == [
        "spec.selector.matchLabels[-bad].key",
        "spec.selector.matchLabels[ok].values[0][ok]",
        "spec.selector.matchExpressions[0].values",
        "spec.selector.matchExpressions[1].values",
        "spec.selector.matchExpressions[2].operator",
        "spec.selector.matchExpressions[3].operator",
    ]
    assert "values set can't be empty" in str(caught.value)


def test_plain_labels() -> None:
    matcher = match_labels({"b": "y", "a": "x"})
    assert str(matcher) == "a=x,b=y"
    assert matcher.matches({"a": "x", "b": "y"})
    assert not matcher.matches({"a": "x"})
    assert match_labels({}).matches({})


@pytest.mark.parametrize(
    ("text", "value"), [("a=x", "x"), ("a==x,b", "x"), ("a in (x)", "x"), ("a in (x,y)", None), ("a!=x", None), ("a", None), ("b=x", None)]
)  # fmt: skip
def test_pinned_values(text: str, value: str | None) -> None:
    assert parse_label_selector(text).required_value("a") == value
