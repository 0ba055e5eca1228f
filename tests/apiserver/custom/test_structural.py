from __future__ import annotations

from typing import Any

import pytest

from dray.api.field_errors import Path
from dray.apiserver.custom.structural import faults_of_schema
from dray.errors import InvalidError
from tests.apiserver.custom.definitions import SCHEMA


def below(**schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}}


@pytest.mark.parametrize(
    "schema",
    [
        SCHEMA,
        {"type": "object"},
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        below(anyOf=[{"type": "integer"}, {"type": "string"}], **{"x-kubernetes-int-or-string": True}),
        below(type="object", additionalProperties={"type": "string"}),
        below(type="object", additionalProperties=True),
        below(type="array", items={"type": "integer", "default": 3}, minItems=1),
        below(type="string", nullable=True, default=None),
    ],
)
def test_schemas_that_are_fine(schema: dict[str, Any]) -> None:
    assert faults_of_schema(schema, Path("s")) == []


@pytest.mark.parametrize(
    ("schema", "field"),
    [
        ({}, "s.type"),
        ({"type": "string"}, "s.type"),
        (below(**{"$ref": "#"}), "s.properties[a].$ref"),
        (below(type="text"), "s.properties[a].type"),
        (below(type="array", items={"type": "text"}), "s.properties[a].items.type"),
        (
            below(type="object", additionalProperties={"type": "text"}),
            "s.properties[a].additionalProperties.type",
        ),
        (below(type="integer", default="x"), "s.properties[a].default"),
        (
            below(type="object", default={"b": 1}, properties={"b": {"type": "string"}}),
            "s.properties[a].default.b",
        ),
    ],
)
def test_faults_are_told_by_their_place(schema: dict[str, Any], field: str) -> None:
    assert [one.field for one in faults_of_schema(schema, Path("s"))] == [field]


@pytest.mark.parametrize(
    "schema",
    [
        below(type=["string"]),
        below(type={}),
        below(required=5),
        below(required=[{}]),
        below(enum=3),
        below(minimum="1"),
        below(maxLength=1.5),
        below(items=[1]),
        below(additionalProperties=7),
        below(properties=[]),
        {"type": "object", "properties": {"a": "x"}},
    ],
)
def test_what_has_another_type_is_no_schema(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidError):
        faults_of_schema(schema, Path("s"))


def test_not_every_fault_of_a_large_schema_is_told() -> None:
    wrong = {"type": "object", "properties": {f"k{number}": {"type": "x"} for number in range(1000)}}
    assert len(faults_of_schema(wrong, Path("s"))) == 20
