"""Whether a document has the form that its type asks for, with faults as the API server words them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from dray.api.quoting import quote
from dray.apiserver.patching.apply.fields import Element, named, shown
from dray.apiserver.patching.apply.schema import ListType, MapType, Type
from dray.errors import InvalidError

_PLAIN: Final = {"string": str, "boolean": bool}


def faults(value: Any, type_: Type, *, is_applied: bool) -> Iterator[str]:
    """Each `.path: what is wrong`, sorted by the document's names.

    What is applied must have no duplicates in map lists and sets, and no field that is not declared. A stored document
    may have both: old data, and fields of a later Kubernetes. It is not looked into where it is one value to merging.
    """
    for path, fault in _faults(value, type_, is_applied):
        yield f"{path}: {fault}" if path else fault


def is_sound(value: Any, type_: Type) -> bool:
    """Whether `faults` finds none in a stored document. Asked at every write, so it makes no words and no paths."""
    if value is None:
        return True
    form = type_.form(value)
    if form == "map" and type_.map is not None:
        return _is_sound_map(value, type_.map)
    if form == "list" and type_.list is not None:
        return _is_sound_list(value, type_.list)
    return value.__class__ is _PLAIN.get(type_.scalar) or not any(_in_scalar(value, type_.scalar))


def _is_sound_map(value: Any, type_: MapType) -> bool:
    if not isinstance(value, dict):
        return False
    if type_.is_atomic:
        return True
    return all(is_sound(one, type_.item(name)) for name, one in value.items())


def _is_sound_list(value: Any, type_: ListType) -> bool:
    if not isinstance(value, list):
        return False
    if type_.is_atomic:
        return True
    try:
        for item in value:
            type_.element(item)
    except InvalidError:
        return False
    return all(is_sound(item, type_.items) for item in value)


def _faults(value: Any, type_: Type, is_applied: bool) -> Iterator[tuple[str, str]]:
    if value is None:
        return
    form = type_.form(value)
    if form == "map" and type_.map is not None:
        yield from _in_map(value, type_.map, is_applied)
    elif form == "list" and type_.list is not None:
        yield from _in_list(value, type_.list, is_applied)
    else:
        yield from _in_scalar(value, type_.scalar)


def _in_map(value: Any, type_: MapType, is_applied: bool) -> Iterator[tuple[str, str]]:
    if not isinstance(value, dict):
        yield "", f"expected map, got &{{{_go_value(value)}}}"
        return
    if type_.is_atomic and not is_applied:
        return
    for name in sorted(value):
        if is_applied and not type_.declares(name) and not type_.is_open:
            yield shown((named(name),)), "field not declared in schema"
            return
        for path, fault in _faults(value[name], type_.item(name), is_applied):
            yield shown((named(name),)) + path, fault


def _in_list(value: Any, type_: ListType, is_applied: bool) -> Iterator[tuple[str, str]]:
    if not isinstance(value, list):
        yield "", f"expected list, got &{{{_go_value(value)}}}"
        return
    if type_.is_atomic and not is_applied:
        return
    seen: set[Element] = set()
    for index, item in enumerate(value):
        place = f"[{index}]"
        if not type_.is_atomic:
            try:
                element = type_.element(item)
            except InvalidError as error:
                yield "", f"element {index}: {error}"
                return
            place = shown((element,))
            if element in seen and is_applied:
                yield "", f"duplicate entries for key {place}"
            seen.add(element)
        for path, fault in _faults(item, type_.items, is_applied):
            yield place + path, fault


def _in_scalar(value: Any, scalar: str) -> Iterator[tuple[str, str]]:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if scalar == "numeric" and not is_number:
        yield "", f"expected numeric (int or float), got {_go_type(value)}"
    elif scalar == "string" and not isinstance(value, str):
        yield "", f"expected string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"
    elif scalar == "boolean" and not isinstance(value, bool):
        yield "", f"expected boolean, got &{{{_go_value(value)}}}"
    elif scalar == "untyped" and isinstance(value, dict | list):
        yield "", f"expected any scalar, got &{{{_go_value(value)}}}"


def _go_type(value: Any) -> str:
    if isinstance(value, dict):
        return "map[string]interface {}"
    if isinstance(value, list):
        return "[]interface {}"
    names = {bool: "bool", int: "int64", float: "float64", str: "string"}
    return names[type(value)]


def _go_value(value: Any) -> str:
    """As Go prints a value in passing."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{_go_value(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(_go_value, value)) + "]"
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _go_syntax(value: Any) -> str:
    """As Go would write a value in a program."""
    if isinstance(value, dict):
        items = ", ".join(f"{quote(key)}:{_go_syntax(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{items}}}"
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(map(_go_syntax, value)) + "}"
    if isinstance(value, str):
        return quote(value)
    return "interface {}(nil)" if value is None else _go_value(value)
