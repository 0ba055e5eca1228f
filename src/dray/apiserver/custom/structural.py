"""Whether a definition's schema is one at all. What is found wrong here could not be told to clients, nor be used. Pure.

Of Kubernetes' rules for structural schemas these are the ones that matter to a server which prunes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from dray.api.codec import view
from dray.api.field_errors import FieldError, Path
from dray.api.meta import Model
from dray.api.validation.faults import forbidden, invalid, not_supported
from dray.apiserver.custom.schema import Schema, faults_of_default

TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_MAX_FAULTS: Final = 20


class SchemaProps(Model, frozen=True, kw_only=True):
    """The types of all that a schema may say."""

    ref: str = msgspec.field(default="", name="$ref")
    type: str = ""
    format: str = ""
    title: str = ""
    description: str = ""
    pattern: str = ""
    nullable: bool = False
    unique_items: bool = False
    maximum: float | None = None
    minimum: float | None = None
    exclusive_maximum: bool = False
    exclusive_minimum: bool = False
    multiple_of: float | None = None
    max_length: int | None = None
    min_length: int | None = None
    max_items: int | None = None
    min_items: int | None = None
    max_properties: int | None = None
    min_properties: int | None = None
    enum: tuple[Any, ...] = ()
    required: tuple[str, ...] = ()
    items: SchemaProps | None = None
    properties: dict[str, SchemaProps] = msgspec.field(default_factory=dict)
    additional_properties: bool | SchemaProps | None = None
    all_of: tuple[SchemaProps, ...] = ()
    any_of: tuple[SchemaProps, ...] = ()
    one_of: tuple[SchemaProps, ...] = ()
    not_: SchemaProps | None = msgspec.field(default=None, name="not")
    preserve: bool | None = msgspec.field(default=None, name="x-kubernetes-preserve-unknown-fields")
    embedded: bool = msgspec.field(default=False, name="x-kubernetes-embedded-resource")
    int_or_string: bool = msgspec.field(default=False, name="x-kubernetes-int-or-string")
    list_type: str | None = msgspec.field(default=None, name="x-kubernetes-list-type")
    list_map_keys: tuple[str, ...] = msgspec.field(default=(), name="x-kubernetes-list-map-keys")
    map_type: str | None = msgspec.field(default=None, name="x-kubernetes-map-type")


def read_schema(schema: Schema) -> SchemaProps:
    """InvalidError names the field of another type than it must have."""
    return view(schema, SchemaProps)


def faults_of_schema(schema: Schema, path: Path) -> list[FieldError]:
    """What is wrong with the schema of a version; the first faults."""
    errors: list[FieldError] = []
    if schema.get("type") != "object":
        errors.append(invalid(path.child("type"), schema.get("type", ""), "must be object at the root"))
    for one in _faults(schema, read_schema(schema), path):
        errors.append(one)
        if len(errors) >= _MAX_FAULTS:
            break
    return errors


def _faults(schema: Schema, read: SchemaProps, path: Path) -> Iterator[FieldError]:
    if read.ref:
        yield forbidden(path.child("$ref"), "$ref is not supported")
    if read.type and read.type not in TYPES:
        yield not_supported(path.child("type"), read.type, TYPES)
    elif "default" in schema:
        yield from faults_of_default(schema, path.child("default"))
    for place, below, inner in _below(schema, read, path):
        yield from _faults(below, inner, place)


def _below(schema: Schema, read: SchemaProps, path: Path) -> Iterator[tuple[Path, Schema, SchemaProps]]:
    for name, one in sorted(read.properties.items()):
        yield path.child("properties").key(name), schema["properties"][name], one
    if read.items is not None:
        yield path.child("items"), schema["items"], read.items
    if isinstance(read.additional_properties, SchemaProps):
        more = "additionalProperties"
        yield path.child(more), schema[more], read.additional_properties
