"""Values that are of another JSON type than their field, for every kind in the table of shapes. Pure.

A real API server cannot even read such a document. Where a kind is kept as raw JSON nothing else would notice, and whoever
reads the object later would stumble over it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from dray.api.field_errors import FieldError, Reason
from dray.apiserver.patching.shape_table import FieldText, parse_field, shape_table

_RANGES: Final = {"int32": 2**31, "int64": 2**63}
_WORDS: Final = {
    "string": "a string",
    "boolean": "a boolean",
    "number": "a number",
    "integer": "an integer",
    "int32": "a 32-bit integer",
    "int64": "a 64-bit integer",
}


class _Field(NamedTuple):
    """What a field takes: `fits` judges a value, or one item of it; `shape` is what to look into further."""

    is_list: bool
    is_map: bool
    fits: Callable[[Any], bool]
    word: str
    shape: str


def wrong_type(resource_kind: str, document: Any) -> FieldError | None:
    """The first value of a wrong type, or None, also for a kind that the table does not know. A null is none of any type.

    `resource_kind` is `v1/Pod` or `resource.k8s.io/v1/ResourceClaim`.
    """
    shape = shape_table().kinds.get(resource_kind)
    found = None if shape is None else _first(document, shape)
    if found is None:
        return None
    steps, word = found
    path = "".join(reversed(steps)).removeprefix(".")
    return FieldError(path, Reason.TYPE_INVALID, f"must be {word}")


_Found = tuple[list[str], str]


def _first(document: Mapping[str, Any], shape: str) -> _Found | None:
    """The steps to the first fault, from the inside out, and what should be there."""
    known = _below(shape)
    for name, value in document.items():
        field = known.get(name)
        if field is None or value is None:
            continue
        if found := _in_field(field, value):
            found[0].append(f".{name}")
            return found
    return None


def _in_field(field: _Field, value: Any) -> _Found | None:
    if field.is_list:
        if not isinstance(value, list):
            return [], "a list"
        for position, one in enumerate(value):
            if one is not None and (found := _in_value(field, one)):
                found[0].append(f"[{position}]")
                return found
        return None
    if field.is_map:
        if not isinstance(value, dict):
            return [], "an object"
        for key, one in value.items():
            if one is not None and (found := _in_value(field, one)):
                found[0].append(f"[{key}]")
                return found
        return None
    return _in_value(field, value)


def _in_value(field: _Field, value: Any) -> _Found | None:
    if not field.fits(value):
        return [], field.word
    return _first(value, field.shape) if field.shape else None


@lru_cache(maxsize=1024)
def _below(shape: str) -> Mapping[str, _Field]:
    return {name: _field(parse_field(text)) for name, text in shape_table().texts(shape).items()}


def _field(told: FieldText) -> _Field:
    if told.is_shape:
        if shape_table().has_fields(told.type):
            return _Field(told.is_list, told.is_map, _is_object, "an object", told.type)
        return _Field(told.is_list, told.is_map, _is_anything, "", "")
    if told.type.startswith("[]"):
        return _Field(told.is_list, told.is_map, _is_list, "a list", "")
    word = _WORDS.get(told.format) or _WORDS[told.type]
    return _Field(told.is_list, told.is_map, _JUDGES[word], word, "")


def _is_anything(value: Any) -> bool:
    """Times, quantities and free JSON have readers of their own."""
    return True


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(bits: str) -> Callable[[Any], bool]:
    end = _RANGES[bits]
    return lambda value: _is_number(value) and -end <= value < end and value == int(value)


_JUDGES: Final[dict[str, Callable[[Any], bool]]] = {
    "a string": lambda value: isinstance(value, str),
    "a boolean": lambda value: isinstance(value, bool),
    "a number": _is_number,
    "an integer": _is_whole("int64"),
    "a 32-bit integer": _is_whole("int32"),
    "a 64-bit integer": _is_whole("int64"),
}
