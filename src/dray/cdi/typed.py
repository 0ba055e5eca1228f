"""A document as a value of a frozen struct: every fault at once, each with its field and line.

Scalars are taken as the runtimes' own reader takes them: a text may be written as a number (`name: 0` is "0"), a number
may be octal (`0660`), `null` is as if the field were not there, and an unknown field is a fault.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect

from dray.api.codec.unknown_fields import unknown_field
from dray.api.field_errors import FieldError, Path, Reason
from dray.cdi.document import Mapping, Node, Scalar, Sequence

_NULLS: Final = frozenset(["", "~", "null", "Null", "NULL"])
_TRUE: Final = frozenset(["true", "True", "TRUE"])
_FALSE: Final = frozenset(["false", "False", "FALSE"])
_TRUE_WORDS: Final = frozenset(["y", "Y", "yes", "Yes", "YES", "on", "On", "ON"])
_FALSE_WORDS: Final = frozenset(["n", "N", "no", "No", "NO", "off", "Off", "OFF"])
_INTEGER: Final = re.compile(
    r"(?P<sign>[-+]?)(?:(?P<hex>0[xX][0-9a-fA-F]+)|(?P<bin>0[bB][01]+)|0[oO]?(?P<oct>[0-7]+)|(?P<dec>[0-9]+))"
)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_LONGEST: Final = 400
_MOST_VALUES: Final = 200_000
_LOST: Final = object()

S = TypeVar("S", bound=msgspec.Struct)


@dataclass(slots=True)
class Reading:
    """What came out beside the value: faults, and the line of every field that is there, by its path."""

    faults: list[FieldError] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    size: int = 0

    def fault(self, path: Path, reason: Reason, message: str) -> Any:
        """Note it; gives what stands for a value that is not there."""
        self.faults.append(FieldError(path.text, reason, message))
        return _LOST


def to_struct(node: Node, kind: type[S], reading: Reading, path: Path | None = None) -> S:
    """The struct, with the default (or the empty value) of each field that is missing or faulty."""
    made = _struct(node, kind, reading, path or Path())
    return made if isinstance(made, kind) else kind(**_missing(kind))


@lru_cache(maxsize=32)
def _fields(kind: type[msgspec.Struct]) -> dict[str, inspect.Field]:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return {one.encode_name: one for one in info.fields}


def _missing(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """What a field without a default has where the file does not say it."""
    return {one.name: _empty(one.type) for one in _fields(kind).values() if one.required}


def _empty(info: inspect.Type) -> Any:
    if isinstance(info, inspect.StructType):
        return info.cls(**_missing(info.cls))
    if isinstance(info, inspect.VarTupleType):
        return ()
    return 0 if isinstance(info, inspect.IntType) else ""


def _struct(node: Node, kind: type[msgspec.Struct], reading: Reading, path: Path) -> Any:
    if not isinstance(node, Mapping):
        return reading.fault(path, Reason.TYPE_INVALID, "must be a map")
    known = _fields(kind)
    values = _missing(kind)
    for key, value in node.entries.items():
        here = path.child(key)
        reading.lines.setdefault(here.text, node.key_lines[key])
        if key not in known:
            reading.faults.append(unknown_field(path, key, known))
            continue
        if _is_null(value):
            continue
        made = _value(value, known[key].type, reading, here)
        if made is not _LOST:
            values[known[key].name] = made
    return kind(**values)


def _is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.is_plain and node.text in _NULLS


def _value(node: Node, info: inspect.Type, reading: Reading, path: Path) -> Any:
    reading.size += 1
    if reading.size > _MOST_VALUES:
        if reading.size == _MOST_VALUES + 1:
            reading.fault(path, Reason.TOO_MANY, f"more than {_MOST_VALUES} values")
        return _LOST
    if isinstance(info, inspect.UnionType):
        info = next(one for one in info.types if not isinstance(one, inspect.NoneType))
    if isinstance(info, inspect.StructType):
        return _struct(node, info.cls, reading, path)
    if isinstance(info, inspect.VarTupleType):
        return _tuple(node, info.item_type, reading, path)
    if isinstance(info, inspect.DictType):
        return _texts(node, reading, path)
    if not isinstance(node, Scalar):
        return reading.fault(path, Reason.TYPE_INVALID, f"must be {_name(info)}")
    return _scalar(node, info, reading, path)


def _tuple(node: Node, item: inspect.Type, reading: Reading, path: Path) -> Any:
    """Entries that are null are left out, but where an object must be: runtimes break on those."""
    if not isinstance(node, Sequence):
        return reading.fault(path, Reason.TYPE_INVALID, "must be a list")
    made = []
    for position, one in enumerate(node.items):
        if reading.size > _MOST_VALUES:
            break
        here = path.index(position)
        reading.lines.setdefault(here.text, one.line)
        if _is_null(one) and not isinstance(item, inspect.StructType):
            continue
        value = _value(one, item, reading, here)
        # What is faulty stays, as an empty one: the numbers of those after it must stay right.
        made.append(_empty(item) if value is _LOST else value)
    return tuple(made)


def _texts(node: Node, reading: Reading, path: Path) -> Any:
    if not isinstance(node, Mapping):
        return reading.fault(path, Reason.TYPE_INVALID, "must be a map")
    made = {}
    for key, value in node.entries.items():
        here = path.key(key)
        reading.lines.setdefault(here.text, node.key_lines[key])
        if not isinstance(value, Scalar):
            reading.fault(here, Reason.TYPE_INVALID, "must be a string")
            continue
        made[key] = "" if _is_null(value) else value.text
    return made


def _scalar(node: Scalar, info: inspect.Type, reading: Reading, path: Path) -> Any:
    if isinstance(info, inspect.StrType):
        return node.text
    if isinstance(info, inspect.BoolType):
        value: bool | None = _boolean(node)
        return reading.fault(path, Reason.TYPE_INVALID, "must be true or false") if value is None else value
    assert isinstance(info, inspect.IntType)
    number = _integer(node.text) if node.is_plain else None
    if number is None:
        quoted = not node.is_plain and _integer(node.text) is not None
        advice = ", without quotes" if quoted else f", not {node.text[:40]!r}"
        return reading.fault(path, Reason.TYPE_INVALID, f"must be a whole number{advice}")
    low, high = info.ge, info.le
    if (low is not None and number < low) or (high is not None and number > high):
        return reading.fault(path, Reason.INVALID, f"must be between {low} and {high}, not {node.text[:40]}")
    return number


def _boolean(node: Scalar) -> bool | None:
    if node.text in _TRUE_WORDS or (node.is_plain and node.text in _TRUE):
        return True
    return False if node.text in _FALSE_WORDS or (node.is_plain and node.text in _FALSE) else None


def _integer(text: str) -> int | None:
    """A leading zero means octal, as in C, unless a digit is 8 or 9. `1e3` is 1000; `1.5` is none."""
    if len(text) > _LONGEST or text.startswith("_"):
        return None
    text = text.replace("_", "")
    if found := _INTEGER.fullmatch(text):
        digits, base = found[found.lastgroup or "dec"], {"hex": 16, "bin": 2, "oct": 8}
        number = int(digits, base.get(found.lastgroup or "dec", 10))
        return -number if found["sign"] == "-" else number
    if _FLOAT.fullmatch(text):
        value = float(text)
        return int(value) if value.is_integer() else None
    return None


def _name(info: inspect.Type) -> str:
    if isinstance(info, inspect.StrType):
        return "a string"
    return "true or false" if isinstance(info, inspect.BoolType) else "a whole number"
