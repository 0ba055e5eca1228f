"""Schemas of objects out of the table of shapes: what a real API server tells of them, but for its sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from dray.api import resource
from dray.apiserver.http.openapi.operations import LIST_META, OBJECT_META
from dray.apiserver.patching.shape_table import SCHEMAS, FieldText, long_name, parse_field, shape_table

Document = dict[str, Any]
Kind = dict[str, str]
_ZERO: Final[dict[str, Any]] = {"string": "", "integer": 0, "number": 0, "boolean": False}
_PYTHON: Final = re.compile(r"_|None|\.py")


def schema(shape: str) -> Document:
    """The schema of one shape; shapes that it holds are references."""
    table = shape_table()
    fields = {name: parse_field(text) for name, text in table.texts(shape).items()}
    traits = table.traits.get(shape, {})
    told = traits if "oneOf" in traits else {"type": "object"} | traits
    told = {key: value for key, value in told.items() if value != ""}
    if fields:
        told["properties"] = {name: _field(one) for name, one in fields.items()}
    if required := [name for name, one in fields.items() if one.required]:
        told["required"] = required
    if description := _description(shape):
        told["description"] = description
    return told


def custom_schema(kind: Kind, defined: bytes) -> Document:
    """Of a kind that the table does not know: what its definition says of it, or any object."""
    said: Document = msgspec.json.decode(defined) if defined else {}
    told = said or {"x-kubernetes-preserve-unknown-fields": True}
    fields = {
        "apiVersion": FieldText("string"),
        "kind": FieldText("string"),
        "metadata": FieldText(OBJECT_META),
    }
    own = said.get("properties")
    properties = (own if isinstance(own, dict) else {}) | {name: _field(one) for name, one in fields.items()}
    return told | {"type": "object", "properties": properties} | kind_mark([kind])


def list_schema(name: str, kind: Kind) -> Document:
    """A list of what `name` is the schema of."""
    fields = {
        "apiVersion": FieldText("string"),
        "kind": FieldText("string"),
        "metadata": FieldText(LIST_META, default=""),
    }
    items = {"type": "array", "items": {"allOf": [{"$ref": f"{SCHEMAS}{name}"}], "default": {}}}
    return {
        "type": "object",
        "properties": {key: _field(one) for key, one in fields.items()} | {"items": items},
        "required": ["items"],
        **kind_mark([{**kind, "kind": f"{kind['kind']}List"}]),
    }


def kind_mark(kinds: Sequence[Kind]) -> Document:
    """Which kinds a schema is of; nothing for a part of one."""
    return {"x-kubernetes-group-version-kind": list(kinds)} if kinds else {}


def reachable(shapes: Iterable[str]) -> set[str]:
    """These shapes and all that they hold."""
    todo, found = list(shapes), set[str]()
    while todo:
        shape = todo.pop()
        if shape not in found:
            found.add(shape)
            fields = map(parse_field, shape_table().texts(shape).values())
            todo += [one.type for one in fields if one.is_shape]
    return found


def _field(told: FieldText) -> Document:
    made = _container(told)
    if told.default is not None:
        made["default"] = msgspec.json.decode(told.default) if told.default else _zero(told)
    if "$ref" in made:
        made["allOf"] = [{"$ref": made.pop("$ref")}]
    if told.strategies:
        made["x-kubernetes-patch-strategy"] = told.strategies
    if told.merge_key:
        made["x-kubernetes-patch-merge-key"] = told.merge_key
    if told.list_type:
        made["x-kubernetes-list-type"] = told.list_type
    if told.list_keys:
        made["x-kubernetes-list-map-keys"] = list(told.list_keys)
    if told.map_type:
        made["x-kubernetes-map-type"] = told.map_type
    if told.enum:
        made["enum"] = list(told.enum)
    return made


def _container(told: FieldText) -> Document:
    if told.is_list:
        return {"type": "array", "items": _item(told)}
    if told.is_map:
        return {"type": "object", "additionalProperties": _item(told)}
    return _bare(told)


def _item(told: FieldText) -> Document:
    """Items have the zero value of their type as default, where Go's type has one."""
    if told.type.startswith("[]"):
        return {"type": "array", "items": _item(replace(told, type=told.type.removeprefix("[]")))}
    made = _bare(told)
    if told.is_shape and shape_table().has_fields(told.type):
        return {"allOf": [made], "default": {}}
    if not told.is_shape and told.format != "byte":
        made["default"] = _ZERO[told.type]
    if told.words:
        made["enum"] = list(told.words)
    return made


def _bare(told: FieldText) -> Document:
    if told.is_shape:
        return {"$ref": f"{SCHEMAS}{long_name(told.type)}"}
    return {"type": told.type, **({"format": told.format} if told.format else {})}


def _zero(told: FieldText) -> Any:
    return _ZERO.get(told.type, {})


def _description(shape: str) -> str:
    """What `dray.api` says of a device kind, where it says it in words of the API."""
    group, _, name = shape.rpartition(".")
    told = getattr(getattr(resource, name, None), "__doc__", None) if group == "resource.v1" else None
    return "" if told is None or _PYTHON.search(told) else " ".join(told.split())
