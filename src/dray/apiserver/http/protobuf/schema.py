"""The messages of all kinds a body may have: the tags of Kubernetes' Go types, kept in `schema.json`.

The table is written by `python -m tests.oracle_proto.program`; a test in `make e2e` holds it against the Go types.
It has, for each message, the fields by number as `NAME TYPE FLAGS`. NAME is the one in JSON; `.` where the
fields inside stand among those of the message; `=` where the value stands for the message, of several the one that is
there. FLAGS: `*` an absent one is not the same as an empty one; `[` a list;
`{` a map with texts as keys; `?` left out of JSON when empty; `0` left out when null.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Final

import msgspec

from dray.apiserver.http.protobuf.values import SCALARS, WRITTEN, Read
from dray.apiserver.http.protobuf.wire import BYTES

INLINE: Final = "."
_VALUE: Final = "="


class Shape(StrEnum):
    """How many values a field has; each is the flag that says so."""

    ONE = ""
    OPTIONAL = "*"
    LIST = "["
    MAP = "{"


@dataclass(frozen=True)
class Field:
    """One field."""

    name: str
    shape: Shape
    wire_type: int
    message: Message | None
    """What it holds, where that is no single value in JSON."""
    read: Read | None
    """Makes a value of a payload, where `message` is None."""
    zero: Any
    """What an absent value is in JSON, where it is not left out."""
    needs_value: bool
    """An empty value is left out."""
    stays: bool
    """It is in JSON even when it is absent."""


@dataclass(frozen=True)
class Message:
    """The fields of one message."""

    name: str

    @cached_property
    def fields(self) -> Mapping[int, Field]:
        """All of them, by number."""
        return {int(number): _field(said) for number, said in _table().messages[self.name].items()}

    @cached_property
    def staying(self) -> frozenset[int]:
        """The numbers of those that JSON has even when they are absent."""
        return frozenset(number for number, field in self.fields.items() if field.stays)

    @cached_property
    def is_value(self) -> bool:
        """In JSON it is what one of its fields is."""
        return any(field.name == _VALUE for field in self.fields.values())


class _Table(msgspec.Struct, frozen=True):
    kinds: dict[str, str]
    messages: dict[str, dict[str, str]]


@cache
def _table() -> _Table:
    text = files("dray.apiserver.http.protobuf").joinpath("schema.json").read_bytes()
    return msgspec.json.decode(text, type=_Table)


@cache
def _message(name: str) -> Message:
    return Message(name)


def _field(said: str) -> Field:
    name, kind, flags = f"{said} ".split(" ")[:3]
    shape = next((shape for shape in Shape if shape and shape in flags), Shape.ONE)
    wire_type, read, zero = SCALARS.get(kind, (BYTES, WRITTEN.get(kind), None))
    message = _message(kind) if read is None else None
    is_left_out = "?" in flags
    if shape is not Shape.ONE:
        return Field(name, shape, wire_type, message, read, None, False, not is_left_out)
    if kind in WRITTEN:
        zero = WRITTEN[kind](b"")
    needs_value = "0" in flags or (is_left_out and kind in SCALARS)
    return Field(name, shape, wire_type, message, read, zero, needs_value, not needs_value)


def message_of(api_version: str, kind: str) -> Message | None:
    """The message of a kind; None where it is not served. Every group has the kind of a deletion's options."""
    name = _table().kinds.get(f"v1/{kind}" if kind == "DeleteOptions" else f"{api_version}/{kind}")
    return None if name is None else _message(name)
