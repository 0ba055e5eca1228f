from __future__ import annotations

import json
from typing import Any

import pytest

from dray.apiserver.patching.list_order import (
    arranged,
    check_order,
    element_type,
    partitioned,
    strike,
    token,
)
from dray.apiserver.patching.refusal import PatchError


def arrange(merged: str, order: str, before: str) -> str:
    return "".join(arranged(partitioned([*merged], [*order], ""), [*order], [*before], "", str))


@pytest.mark.parametrize(
    ("merged", "order", "before", "expected"),
    [
        ("abc", "", "abc", "abc"),
        ("abc", "cba", "abc", "cba"),
        ("abxc", "abc", "axbc", "axbc"),
        ("abx", "ba", "axb", "xba"),
        ("axy", "a", "xay", "xay"),
        ("xyn", "n", "xy", "nxy"),
        ("ab", "abz", "ba", "ab"),
    ],
)
def test_the_order_of_a_merged_list(merged: str, order: str, before: str, expected: str) -> None:
    assert arrange(merged, order, before) == expected


def test_new_items_under_an_empty_order_come_last_first_as_in_go() -> None:
    assert arrange("abxy", "", "ab") == "yxab"
    assert arrange("xab", "", "ab") == "abx"
    many = [f"{number:02}" for number in range(30)]
    assert sorted(arranged(([], many), [], many[:5], "", str)) == many


def test_struck_items_are_gone_but_the_last_ones_still_fill_the_list() -> None:
    items: list[Any] = [{"name": name} for name in "abca"]
    live = strike(items, [token("a")], "name")
    assert "".join(one["name"] for one in live) == "bc"
    assert "".join(one["name"] for one in items) == "bcaa"


def test_nothing_to_strike_leaves_the_list_as_it_is() -> None:
    items: list[Any] = [{"name": "a"}, {}]
    assert strike(items, [], "name") == [{"name": "a"}, {}]
    assert strike(items, [token("x")], "name") == items == [{"name": "a"}, {}]


def test_elements_are_of_one_type() -> None:
    assert element_type([1], [2]) is int
    assert element_type([], [{}]) is dict
    mixed: list[list[Any]] = [[], [1, 1.0], [True, 1], [None], [[]], [{}, []], [1, None]]
    for wrong in mixed:
        with pytest.raises(PatchError):
            element_type(wrong)


def test_the_patch_keeps_to_the_order() -> None:
    check_order([*"ac"], [*"abc"], "")
    check_order([], [*"abc"], "")
    check_order([*"ac"], [], "")
    check_order([{"name": "x", "$patch": "delete"}, {"name": "a"}], [{"name": "a"}], "name")
    for patch, order, key in (
        ([*"ca"], [*"abc"], ""),
        ([*"ad"], [*"abc"], ""),
        ([{"name": "a"}], ["a"], "name"),
        ([{"name": "a"}], [{}], "name"),
        (["a"], [{"name": "a"}], "name"),
    ):
        with pytest.raises(PatchError):
            check_order(patch, order, key)


def test_only_plain_values_are_compared() -> None:
    assert len({token(1), token(True), token(1.0), token("1"), token(None)}) == 5
    for wrong in ("{}", "[]"):
        with pytest.raises(PatchError, match="must be a string, number or boolean"):
            token(json.loads(wrong))
