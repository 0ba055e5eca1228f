from __future__ import annotations

import copy
from typing import Any

import pytest

from dray.apiserver.custom.schema import faults_of, fill_defaults
from dray.errors import InvalidError
from tests.apiserver.custom.definitions import SCHEMA

NESTED: dict[str, Any] = {
    "properties": {
        "spec": {
            "default": {},
            "properties": {
                "deep": {"default": {"a": 1}, "properties": {"b": {"default": 2}}},
                "list": {"items": {"properties": {"x": {"default": "y"}}}},
                "map": {"additionalProperties": {"properties": {"x": {"default": "y"}}}},
            },
        },
        "metadata": {"default": {"never": 1}},
    }
}


def test_defaults_at_every_depth() -> None:
    document: dict[str, Any] = {}
    fill_defaults(NESTED, document)
    assert document == {"spec": {"deep": {"a": 1, "b": 2}}}
    document = {"spec": {"deep": {}, "list": [{}, 7, {"x": 1}], "map": {"k": {}}}}
    fill_defaults(NESTED, document)
    assert document["spec"] == {"deep": {"b": 2}, "list": [{"x": "y"}, 7, {"x": 1}], "map": {"k": {"x": "y"}}}


def test_a_default_is_not_shared() -> None:
    before, document = copy.deepcopy(NESTED), dict[str, Any]()
    fill_defaults(NESTED, document)
    document["spec"]["deep"]["a"] = 9
    assert before == NESTED


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({"size": 3, "unknown": {"a": [1]}}, []),
        ({}, ["spec.size: Required value"]),
        (
            {"size": "3"},
            ['spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"'],
        ),
        ({"size": True}, ['must be of type integer: "boolean"']),
        ({"size": 0}, ["spec.size in body should be greater than or equal to 1"]),
        ({"size": 11}, ["spec.size in body should be less than or equal to 10"]),
        (
            {"size": 1, "color": "green"},
            ['spec.color: Unsupported value: "green": supported values: "red", "blue"'],
        ),
        ([], ["spec in body must be of type object"]),
    ],
)
def test_rules(spec: Any, texts: list[str]) -> None:
    found = [str(fault) for fault in faults_of(SCHEMA, {"metadata": {"name": "x"}, "spec": spec})]
    assert len(found) == len(texts)
    assert all(text in one for text, one in zip(texts, found, strict=True))


@pytest.mark.parametrize(
    ("schema", "value", "is_fine"),
    [
        ({"type": "string", "nullable": True}, None, True),
        ({"type": "string"}, None, False),
        ({"x-kubernetes-int-or-string": True}, "50%", True),
        ({"x-kubernetes-int-or-string": True}, 5, True),
        ({"x-kubernetes-int-or-string": True}, [], False),
        ({"type": "number"}, 1.5, True),
        ({"type": "array", "maxItems": 1}, [1, 2], False),
        ({"type": "array", "items": {"type": "string"}}, ["a", 1], False),
        ({"type": "string", "minLength": 2}, "a", False),
        ({"type": "object", "maxProperties": 0}, {"a": 1}, False),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"a.b/c": "x"}, False),
        ({"type": "unheard-of"}, 1, False),
        ({"enum": 7, "minimum": "x", "properties": 7, "items": 7}, 1, True),
    ],
)
def test_single_rules(schema: dict[str, Any], value: Any, is_fine: bool) -> None:
    assert (not faults_of({"properties": {"value": schema}}, {"value": value})) == is_fine


def test_there_is_an_end_to_faults() -> None:
    schema = {"properties": {"list": {"items": {"type": "string"}}}}
    assert len(faults_of(schema, {"list": [1] * 1000})) == 20


def test_defaults_have_an_end() -> None:
    """A small object of many items, each of which lacks the same large default, would fill the memory."""
    large = {"type": "object", "default": {f"k{number}": number for number in range(1000)}}
    items = {"type": "array", "items": {"type": "object", "properties": {"a": large}}}
    schema = {"type": "object", "properties": {"spec": items}}
    few: dict[str, Any] = {"spec": [{} for _ in range(90)]}
    fill_defaults(schema, few)
    assert few["spec"][89]["a"]["k999"] == 999 and few["spec"][0]["a"] is not few["spec"][1]["a"]
    with pytest.raises(InvalidError, match="the object lacks more than 100000 values"):
        fill_defaults(schema, {"spec": [{} for _ in range(100_000)]})
