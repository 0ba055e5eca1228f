from __future__ import annotations

from typing import Any

import pytest

from dray.apiserver.patching.documents import copied, is_deeper, is_same


def test_a_copy_shares_no_container() -> None:
    value: dict[str, Any] = {"a": [{"b": []}]}
    copy = copied(value)
    copy["a"][0]["b"].append(1)
    assert (value, copy) == ({"a": [{"b": []}]}, {"a": [{"b": [1]}]})


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (1, 1, True),
        (1, 1.0, False),
        (1, True, False),
        (None, None, True),
        (None, {}, False),
        ([1, [2]], [1, [2]], True),
        ([1], [1, 2], False),
        ([[1]], [[True]], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": None}, {"b": None}, False),
        ({"a": {"b": 0}}, {"a": {"b": False}}, False),
    ],
)
def test_equality_is_that_of_json(left: Any, right: Any, expected: bool) -> None:
    assert is_same(left, right) is expected
    assert is_same(right, left) is expected


def test_depth_counts_containers() -> None:
    assert not is_deeper("x", 0)
    assert is_deeper([], 0)
    assert not is_deeper([], 1)
    assert not is_deeper({"a": [1, "x"]}, 2)
    assert is_deeper({"b": 1, "a": [[]]}, 2)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert is_deeper(deep, 50_000)
