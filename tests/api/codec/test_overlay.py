from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api.codec.overlay import overlay
from tests.campaign import campaign
from tests.counting import Calls


def test_only_what_changed() -> None:
    raw = {"a": 1, "new": {"x": 1}, "b": {"c": 2, "future": [1]}}
    before = {"a": 1, "b": {"c": 2}}
    assert overlay(raw, before, {"a": 1, "b": {"c": 3}}) == {
        "a": 1,
        "new": {"x": 1},
        "b": {"c": 3, "future": [1]},
    }
    assert overlay(raw, before, {"b": {"c": 2}}) == {"new": {"x": 1}, "b": {"c": 2, "future": [1]}}
    assert overlay(raw, before, {"a": 1}) == {"a": 1, "new": {"x": 1}}
    assert overlay(raw, before, before | {"d": [1]}) == raw | {"d": [1]}


def test_nothing_changed_gives_the_same_object() -> None:
    raw = {"a": [{"name": "x", "u": 1}], "u": 1, "b": {"c": [1, 2]}}
    before = {"a": [{"name": "x"}], "b": {"c": [1, 2]}}
    assert overlay(raw, before, copy.deepcopy(before)) is raw


def test_what_is_written_another_way_stays() -> None:
    raw = {"size": "1024Mi", "count": None}
    assert overlay(raw, {"size": "1Gi"}, {"size": "1Gi", "x": 1}) == {"size": "1024Mi", "count": None, "x": 1}
    assert overlay(raw, {"size": "1Gi"}, {"size": "2Gi", "count": 5}) == {"size": "2Gi", "count": 5}


def test_true_is_not_one() -> None:
    result = overlay({"a": 1, "b": [0]}, {"a": 1, "b": [0]}, {"a": True, "b": [False]})
    assert result["a"] is True
    assert result["b"][0] is False


@pytest.mark.parametrize("key", ["name", "uid", "type", "key"])
def test_entries_are_known_by_their_key(key: str) -> None:
    raw = [{key: "a", "u": 1}, {key: "b", "u": 2, "v": 0}, {key: "c", "u": 3}]
    before = [{key: "a"}, {key: "b", "v": 0}, {key: "c"}]
    after = [{key: "c"}, {key: "new"}, {key: "b", "v": 9}]
    assert overlay(raw, before, after) == [{key: "c", "u": 3}, {key: "new"}, {key: "b", "u": 2, "v": 9}]


def test_entries_with_several_keys() -> None:
    raw = [{"driver": "d", "pool": "p", "device": name, "u": name} for name in "ab"]
    before = [{"driver": "d", "pool": "p", "device": name} for name in "ab"]
    after: list[dict[str, Any]] = [{**before[1], "data": {}}]
    assert overlay(raw, before, after) == [{"driver": "d", "pool": "p", "device": "b", "u": "b", "data": {}}]


def test_entries_without_a_key_pair_by_value_then_by_place() -> None:
    raw = [{"v": 1, "u": 1}, {"v": 2, "u": 2}, {"v": 3, "u": 3}]
    before = [{"v": 1}, {"v": 2}, {"v": 3}]
    assert overlay(raw, before, [{"v": 2}, {"v": 3}]) == [{"v": 2, "u": 2}, {"v": 3, "u": 3}]
    assert overlay(raw, before, [{"v": 1}, {"v": 9}, {"v": 3}]) == [
        {"v": 1, "u": 1},
        {"v": 9, "u": 2},
        {"v": 3, "u": 3},
    ]
    assert overlay(raw, before, [{"v": 7}, *before]) == [{"v": 7}, *raw]


def test_entries_with_the_same_name_do_not_mix() -> None:
    raw = [{"name": "a", "u": 1}, {"name": "a", "u": 2}]
    assert overlay(raw, [{"name": "a"}, {"name": "a"}], [{"name": "a"}]) == [{"name": "a", "u": 1}]


def test_long_lists_are_quick() -> None:
    """Four times as many entries are four times the work."""
    few, many = _work(1000), _work(4000)
    assert many < 5 * few


def _work(size: int) -> int:
    raw = [{"v": [number], "u": number} for number in range(size)]
    before = [{"v": [number]} for number in range(size)]
    with Calls() as calls:
        assert len(overlay(raw, before, before[1:])) == size - 1
    return calls.count


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(alphabet="ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "name", "key"]), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip


@settings(max_examples=campaign(200, 20_000))
@given(json_values, json_values)
def test_without_unknown_fields_the_result_is_after(before: Any, after: Any) -> None:
    frozen = copy.deepcopy((before, after))
    assert repr(_sorted(overlay(copy.deepcopy(before), before, after))) == repr(_sorted(after))
    assert (before, after) == frozen


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
