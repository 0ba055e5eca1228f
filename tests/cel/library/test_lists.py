from __future__ import annotations

import pytest

from dray.cel.values import EvaluationCancelledError
from tests.cel.library.answers import complaints, evaluate, failure


def test_lists_answer_as_in_kubernetes() -> None:
    assert complaints("lists") == []


def test_sort_by_keeps_the_order_of_equal_keys() -> None:
    assert evaluate("lists.range(20).sortBy(i, i % 2)") == (*range(0, 20, 2), *range(1, 20, 2))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[1, 2].slice(1, 3)", "cannot slice(1, 3), list is length 2"),
        ("[1].slice(-1, 1)", "cannot slice(-1, 1), negative indexes not supported"),
        (
            "[1].slice(-9223372036854775808, 1)",
            "cannot slice(-9223372036854775808, 1), negative indexes not supported",
        ),
        ("[[1]].flatten(-1)", "level must be non-negative"),
        ("[dyn(1), dyn('a')].sort()", "list elements must have the same type"),
    ],
)
def test_errors(text: str, error: str) -> None:
    assert failure(text) == error


@pytest.mark.parametrize(
    "text",
    [
        "lists.range(1000000000000).size() > 0",
        "lists.range(900000).distinct().size() > 0",
        "lists.range(100000).map(i, -i).sort().size() > 0",
        "cel.bind(a, lists.range(1000), cel.bind(b, a.map(i, a), b.map(i, b).flatten(3).size() > 0))",
    ],
)
def test_work_that_no_limit_would_allow_is_not_begun(text: str) -> None:
    with pytest.raises(EvaluationCancelledError):
        evaluate(text)


def test_lists_nested_deeper_than_python_calls_are_flattened() -> None:
    text = "lists.range(20000).map(i, [i]).flatten().size()"
    assert evaluate(text) == 20000
