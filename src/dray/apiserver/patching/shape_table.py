"""The file `shapes.json`: every field of every kind we know, as a real API server tells it in its OpenAPI documents.

A field is told in one text, `TYPE[!][=DEFAULT]` and marks, separated by `; `:

    []core.v1.Container!; patch merge name; list map name

TYPE is `string`, `integer:int32` (with its format) or the name of another shape; `[]TYPE` is a list and `{}TYPE` a map, and
`[]string(A|B)` a list of these words. `!`: required. `=` alone: the zero value of its type. The marks are `patch STRATEGIES KEY`,
`list TYPE KEYS...`, `map TYPE` and `enum A|B`. `traits` holds what a shape has besides fields; an empty type: anything.

Written by `python -m tests.oracle_patch.program`; tests in `make e2e` hold it against the Go types and a running API server.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

import msgspec

SCHEMAS: Final = "#/components/schemas/"
_HOMES: Final = {
    "apiextensions.": "io.k8s.apiextensions-apiserver.pkg.apis.",
    "meta.": "io.k8s.apimachinery.pkg.apis.",
    "api.": "io.k8s.apimachinery.pkg.",
    "runtime.": "io.k8s.apimachinery.pkg.",
    "util.": "io.k8s.apimachinery.pkg.",
}
_OTHERS: Final = "io.k8s.api."
_FIELD: Final = re.compile(
    r"(?P<sign>\[\]|\{\})?(?P<type>[^!=(:]+)(:(?P<format>[^!=(]+))?(\((?P<words>[^)]*)\))?(?P<required>!)?(=(?P<default>.*))?"
)


@dataclass(frozen=True, slots=True)
class FieldText:
    """One field as the file tells it."""

    type: str
    """A word of JSON schema, or the name of a shape."""
    format: str = ""
    is_list: bool = False
    is_map: bool = False
    words: tuple[str, ...] = ()
    """All that an item may be."""
    required: bool = False
    default: str | None = None
    """As JSON; empty for the zero value of the type."""
    strategies: str = ""
    merge_key: str = ""
    list_type: str = ""
    list_keys: tuple[str, ...] = ()
    map_type: str = ""
    enum: tuple[str, ...] = ()

    @property
    def is_shape(self) -> bool:
        """Whether the type, or that of the items, is another shape."""
        return "." in self.type


class ShapeTable(msgspec.Struct, frozen=True):
    """The file. A shape is decoded when it is asked for: few of them ever are."""

    kinds: dict[str, str]
    shapes: dict[str, msgspec.Raw]
    traits: dict[str, dict[str, Any]]

    def texts(self, shape: str) -> dict[str, str]:
        """The fields of a shape, as written; none for a shape that is unknown or holds no fields."""
        held = self.shapes.get(shape)
        return {} if held is None else msgspec.json.decode(held, type=dict[str, str])

    def has_fields(self, shape: str) -> bool:
        """Whether it is a struct: a time or a quantity is a shape without fields."""
        return bytes(self.shapes.get(shape, b"{}")) != b"{}"


@lru_cache(maxsize=1)
def shape_table() -> ShapeTable:
    """The file, read once."""
    data = (files("dray.apiserver.patching") / "shapes.json").read_bytes()
    return msgspec.json.decode(data, type=ShapeTable)


def parse_field(text: str) -> FieldText:
    """A field out of its text."""
    head, *marks = text.split("; ")
    found = _FIELD.fullmatch(head)
    assert found is not None, f"shapes.json: {head}"
    said = {name: rest for name, _, rest in (mark.partition(" ") for mark in marks)}
    strategies, _, key = said.get("patch", "").partition(" ")
    list_type, *list_keys = said.get("list", "").split(" ")
    return FieldText(
        found["type"],
        found["format"] or "",
        found["sign"] == "[]",
        found["sign"] == "{}",
        tuple(found["words"].split("|")) if found["words"] else (),
        found["required"] is not None,
        found["default"],
        strategies,
        key,
        list_type,
        tuple(list_keys),
        said.get("map", ""),
        tuple(said["enum"].split("|")) if "enum" in said else (),
    )


def short_name(schema: str) -> str:
    """`core.v1.Pod` for `io.k8s.api.core.v1.Pod`."""
    for prefix in (*_HOMES.values(), _OTHERS):
        schema = schema.removeprefix(prefix)
    return schema


def long_name(shape: str) -> str:
    """The name of a shape in an OpenAPI document."""
    home = next((home for start, home in _HOMES.items() if shape.startswith(start)), _OTHERS)
    return f"{home}{shape}"
