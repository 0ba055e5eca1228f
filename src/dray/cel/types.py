"""CEL's types. Frozen values: two equal ones are the same type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec


class Type(msgspec.Struct, frozen=True, cache_hash=True):
    """A type by name, with its parameters. `is_parameter` marks a type variable of a declaration (`A`, `B`).

    `is_struct` marks a type whose fields are declared (`StructType`): its name alone says which. As a value at run time
    only the name counts.
    """

    name: str
    parameters: tuple[Type, ...] = ()
    is_parameter: bool = False
    is_opaque: bool = False
    is_struct: bool = False

    def __str__(self) -> str:
        name = f"<{self.name}>" if self.is_parameter else self.name
        inner = ", ".join(map(str, self.parameters))
        return f"{name}({inner})" if inner else name


BOOL = Type("bool")
INT = Type("int")
UINT = Type("uint")
DOUBLE = Type("double")
STRING = Type("string")
BYTES = Type("bytes")
NULL = Type("null_type")
DYN = Type("dyn")
ANY = Type("google.protobuf.Any")
"""Cel-go's `any`: what a device's attribute is. Checked like dyn, but a type of its own where two must be the same."""
ERROR = Type("*error*")
DURATION = Type("google.protobuf.Duration")
TIMESTAMP = Type("google.protobuf.Timestamp")
TYPE = Type("type")
A = Type("A", is_parameter=True)
B = Type("B", is_parameter=True)

_SHOWN = {ANY: "any", DURATION: "duration", TIMESTAMP: "timestamp", NULL: "null", ERROR: "!error!"}


@dataclass(frozen=True, slots=True)
class StructType:
    """The fields of a type that is selected from by name, like `device`."""

    type: Type
    fields: Mapping[str, Type]


def list_of(item: Type) -> Type:
    """A list."""
    return Type("list", (item,))


def map_of(key: Type, value: Type) -> Type:
    """A map."""
    return Type("map", (key, value))


def optional_of(item: Type) -> Type:
    """A value that may be missing."""
    return Type("optional_type", (item,), is_opaque=True)


def type_of(item: Type) -> Type:
    """The type of a type."""
    return Type("type", (item,))


def opaque(name: str) -> Type:
    """A library's own type, like `net.IP`."""
    return Type(name, is_opaque=True)


def struct_of(name: str) -> Type:
    """A type that fields are selected from. One without a `StructType`, like `kubernetes.Quantity`, has none."""
    return Type(name, is_struct=True)


def variable(name: str) -> Type:
    """A type variable of a declaration."""
    return Type(name, is_parameter=True)


def shown(type_: Type) -> str:
    """As error messages of the checker name it; `str` is what other messages show."""
    known = _SHOWN.get(type_)
    if known is not None:
        return known
    inner = ", ".join(map(shown, type_.parameters))
    return f"{type_.name}({inner})" if inner else type_.name


def signature(arguments: tuple[Type, ...], *, is_member: bool) -> str:
    """Types of a call's arguments, as error messages show them: `(int, string)`, `string.(int)`."""
    target = f"{shown(arguments[0])}." if is_member else ""
    return f"{target}({', '.join(map(shown, arguments[1:] if is_member else arguments))})"
