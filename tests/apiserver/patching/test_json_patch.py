from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from dray.apiserver.patching.json_patch import MAX_OPERATIONS, json_patched, read_operations
from dray.apiserver.patching.refusal import PatchError

Steps = list[dict[str, Any]]


def step(op: str, path: str, value: Any = None, **more: Any) -> dict[str, Any]:
    return {"op": op, "path": path, "value": value, **more}


def moved(op: str, source: str, path: str) -> dict[str, Any]:
    return {"op": op, "from": source, "path": path}


def patch(document: Any, *steps: dict[str, Any]) -> Any:
    before, asked = deepcopy(document), deepcopy(steps)
    try:
        return json_patched(document, read_operations(list(steps)))
    finally:
        assert (document, steps) == (before, asked), "the input was changed"


RFC_6902: dict[str, tuple[Any, Steps, Any]] = {
    "A.1 add a member": ({"foo": "bar"}, [step("add", "/baz", "qux")], {"foo": "bar", "baz": "qux"}),
    "A.2 add an element": (
        {"foo": ["bar", "baz"]},
        [step("add", "/foo/1", "qux")],
        {"foo": ["bar", "qux", "baz"]},
    ),
    "A.3 remove a member": ({"baz": "qux", "foo": "bar"}, [step("remove", "/baz")], {"foo": "bar"}),
    "A.4 remove an element": ({"foo": ["a", "b", "c"]}, [step("remove", "/foo/1")], {"foo": ["a", "c"]}),
    "A.5 replace": ({"baz": "qux", "foo": 1}, [step("replace", "/baz", "boo")], {"baz": "boo", "foo": 1}),
    "A.6 move a value": (
        {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
        [moved("move", "/foo/waldo", "/qux/thud")],
        {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
    ),
    "A.7 move an element": (
        {"foo": ["all", "grass", "cows", "eat"]},
        [moved("move", "/foo/1", "/foo/3")],
        {"foo": ["all", "cows", "eat", "grass"]},
    ),
    "A.8 test": (
        {"baz": "qux", "foo": ["a", 2, "c"]},
        [step("test", "/baz", "qux"), step("test", "/foo/1", 2)],
        {"baz": "qux", "foo": ["a", 2, "c"]},
    ),
    "A.10 add an object": (
        {"foo": "bar"},
        [step("add", "/child", {"grandchild": {}})],
        {"foo": "bar", "child": {"grandchild": {}}},
    ),
    "A.11 unknown members": (
        {"foo": "bar"},
        [step("add", "/baz", "qux", xyz=123)],
        {"foo": "bar", "baz": "qux"},
    ),
    "A.14 escapes": ({"/": 9, "~1": 10}, [step("test", "/~01", 10)], {"/": 9, "~1": 10}),
    "A.16 add an array at the end": (
        {"foo": ["bar"]},
        [step("add", "/foo/-", ["abc", "def"])],
        {"foo": ["bar", ["abc", "def"]]},
    ),
}


@pytest.mark.parametrize("name", RFC_6902)
def test_the_examples_of_the_rfc(name: str) -> None:
    document, steps, expected = RFC_6902[name]
    assert patch(document, *steps) == expected


OWN_WAYS: dict[str, tuple[Any, Steps, Any]] = {
    "replace adds what is missing": ({}, [step("replace", "/a", 1)], {"a": 1}),
    "no value is null": ({}, [{"op": "add", "path": "/a"}], {"a": None}),
    "copy of nothing is null": ({}, [moved("copy", "/a", "/b")], {"b": None}),
    "nothing tests as null": ({}, [step("test", "/a", None)], {}),
    "what is before the first slash does not count": ({}, [step("add", "x/a", 1)], {"a": 1}),
    "the last element": ({"a": [1, 2]}, [step("replace", "/a/-1", 3)], {"a": [1, 3]}),
    "the place behind the last element": ({"a": [1, 2]}, [step("add", "/a/-1", 3)], {"a": [1, 2, 3]}),
    "before the first element": ({"a": [1, 2]}, [step("add", "/a/-3", 3)], {"a": [3, 1, 2]}),
    "an index with sign and zeros": ({"a": [1, 2]}, [step("remove", "/a/+01")], {"a": [1]}),
    "another root": ({"a": 1}, [step("replace", "", {"b": 2})], {"b": 2}),
    "the whole is what it is": ({"a": 1}, [step("test", "", {"a": 1})], {"a": 1}),
    "a label with a slash": (
        {"labels": {}},
        [step("add", "/labels/a.b~1c", "x")],
        {"labels": {"a.b/c": "x"}},
    ),
    "an empty name": ({}, [step("add", "/", 1)], {"": 1}),
    "no operation": ({"a": 1}, [], {"a": 1}),
}


@pytest.mark.parametrize("name", OWN_WAYS)
def test_the_ways_of_the_api_server(name: str) -> None:
    document, steps, expected = OWN_WAYS[name]
    assert patch(document, *steps) == expected


REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "A.9 test": ({"baz": "qux"}, step("test", "/baz", "bar"), "testing value /baz failed: test failed"),
    "A.12 no such target": ({"foo": "bar"}, step("add", "/baz/bat", "q"), 'doc is missing path: "/baz/bat"'),
    "A.15 strings are no numbers": ({"~1": 10}, step("test", "/~01", "10"), "test failed"),
    "1.0 is not 1": ({"a": 1}, step("test", "/a", 1.0), "test failed"),
    "true is not 1": ({"a": [1]}, step("test", "/a", [True]), "test failed"),
    "remove of nothing": ({}, step("remove", "/a"), "Unable to remove nonexistent key: a"),
    "add at the root": ({}, step("add", "", {}), "doc is missing path"),
    "move of nothing": ({}, moved("move", "/a", "/b"), "Unable to remove nonexistent key: a"),
    "move into itself": ({"a": {"b": {}}}, moved("move", "/a", "/a/b/c"), "doc is missing path"),
    "past the end": ({"a": [1]}, step("add", "/a/2", 1), "Unable to access invalid index: 2"),
    "before the start": ({"a": [1]}, step("add", "/a/-3", 1), "Unable to access invalid index: -3"),
    "no index": ({"a": [1]}, step("add", "/a/1_0", 1), "not a proper array index: '1_0'"),
    "replace behind the end": ({"a": [1]}, step("replace", "/a/1", 1), "doc is missing key: /a/1"),
    "remove behind the end": ({"a": [1]}, step("remove", "/a/-"), "not a proper array index"),
    "a huge index": ({"a": [1]}, step("remove", "/a/" + "9" * 9999), "error in remove"),
    "no path": ({}, {"op": "add", "value": 1}, "failed to decode path: missing value"),
    "no source": ({}, {"op": "copy", "path": "/a"}, "copy operation failed to decode from: missing value"),
    "a scalar root": ({}, step("replace", "", 1), "must be object or array"),
    "through a string": ({"a": "b"}, step("add", "/a/b", 1), "doc is missing path"),
    "another operation": ({}, step("put", "/a"), "Unexpected kind: put"),
    "no operation named": ({}, {"path": "/a"}, "Unexpected kind: unknown"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_step_that_does_not_apply_is_refused_with_422(name: str) -> None:
    document, wrong, text = REFUSED[name]
    with pytest.raises(PatchError) as caught:
        patch(document, wrong)
    assert text in str(caught.value)
    assert (caught.value.status, caught.value.reason) == (422, "Invalid")
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "wrong", [{}, "x", 7, [7], [[]], [{"op": 1}], [{"path": {}}], [{"op": "add", "from": []}]]
)
def test_what_is_no_patch_is_refused_with_400(wrong: Any) -> None:
    with pytest.raises(PatchError) as caught:
        read_operations(wrong)
    assert (caught.value.status, caught.value.reason) == (400, "BadRequest")


def test_null_is_a_patch_without_steps_and_a_null_step_is_unknown() -> None:
    assert read_operations(None) == ()
    with pytest.raises(PatchError, match="Unexpected kind: unknown"):
        json_patched({}, read_operations([None]))


def test_a_patch_has_at_most_ten_thousand_steps() -> None:
    steps = [step("add", "/a", 1)] * MAX_OPERATIONS
    assert json_patched({}, read_operations(steps)) == {"a": 1}
    with pytest.raises(PatchError, match="maximum operations in a JSON patch is 10000, got 10001") as caught:
        read_operations([*steps, steps[0]])
    assert caught.value.status == 413


def test_copies_that_double_the_object_end_at_three_mebibytes() -> None:
    steps = [moved("copy", "/a", "/a/-") for _ in range(64)]
    with pytest.raises(PatchError, match="accumulated size increase of copy"):
        patch({"a": ["x" * 1000]}, *steps)


def test_a_copy_is_apart_from_what_it_was_copied_from() -> None:
    steps = [moved("copy", "/a", "/b"), step("add", "/b/-", 2), step("add", "/a/0", 0)]
    assert patch({"a": [1]}, *steps) == {"a": [0, 1], "b": [1, 2]}


def test_a_value_added_twice_is_two_values() -> None:
    value: dict[str, Any] = {"c": []}
    steps = [step("add", "/a", value), step("add", "/b", value), step("add", "/a/c/-", 1)]
    assert patch({}, *steps) == {"a": {"c": [1]}, "b": {"c": []}}
    for path, inner in (("/a", "/a/c/-"), ("/l/0", "/l/0/c/-"), ("", "/c/-")):
        replaced = patch({"l": [0]}, step("replace", path, value), step("add", inner, 1))
        assert "1" in str(replaced)
        assert value == {"c": []}
