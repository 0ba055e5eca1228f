from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.apiserver.patching.documents import is_same
from dray.apiserver.patching.merge_patch import merge_patched

RFC_7386: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("document", "patch", "expected"), RFC_7386)
def test_the_examples_of_the_rfc(document: Any, patch: Any, expected: Any) -> None:
    before = deepcopy((document, patch))
    assert is_same(merge_patched(document, patch), expected)
    assert (document, patch) == before


def test_nulls_in_the_objects_of_a_list_are_dropped_as_the_api_server_does() -> None:
    assert merge_patched({}, {"a": [{"b": None, "c": 1}, None]}) == {"a": [{"c": 1}, None]}
    assert merge_patched({"a": [1]}, {"a": [{"b": None}]}) == {"a": [{}]}
    assert merge_patched({"a": {"x": 1}}, {"a": [{"b": None}]}) == {"a": [{"b": None}]}


def test_a_null_in_the_object_is_replaced_and_not_merged() -> None:
    assert merge_patched({"a": None}, {"a": {"b": None, "c": 1}}) == {"a": {"c": 1}}


def test_fields_keep_their_places() -> None:
    assert list(merge_patched({"z": 1, "a": 2, "m": 3}, {"q": 1, "z": 2, "a": None})) == ["z", "m", "q"]


def test_the_result_shares_nothing_with_what_was_given() -> None:
    document: dict[str, Any] = {"a": {"b": [1]}, "c": {"d": {}}}
    patch: dict[str, Any] = {"c": {"e": [2]}}
    result = merge_patched(document, patch)
    result["a"]["b"].append(9)
    result["c"]["e"].append(9)
    result["c"]["d"]["x"] = 9
    assert (document, patch) == ({"a": {"b": [1]}, "c": {"d": {}}}, {"c": {"e": [2]}})
    whole = [document]
    assert merge_patched({}, whole)[0] is not document
    assert merge_patched({"a": {}}, {"a": whole})["a"][0] is not document


scalars = st.one_of(st.booleans(), st.integers(-3, 3), st.sampled_from(["", "x", "y"]), st.just(1.0))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)
    ),
    max_leaves=12,
)
documents = st.dictionaries(st.sampled_from("abcde"), values, max_size=4)


def difference(old: Any, new: Any) -> Any:
    """The merge patch from one object without nulls to another."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    patch = {key: None for key in old if key not in new}
    return patch | {
        key: difference(old.get(key), one)
        for key, one in new.items()
        if key not in old or not is_same(old[key], one)
    }


@given(documents, documents)
def test_a_difference_leads_from_one_object_to_the_other(old: Any, new: Any) -> None:
    before = deepcopy((old, new))
    assert is_same(merge_patched(old, difference(old, new)), new)
    assert (old, new) == before


@given(documents, documents)
def test_a_patch_applied_twice_changes_nothing_more(document: Any, patch: Any) -> None:
    once = merge_patched(document, patch)
    assert is_same(merge_patched(once, patch), once)
