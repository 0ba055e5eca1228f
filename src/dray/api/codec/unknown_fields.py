"""Fields that a document has and its type has not: typed views pass over them, people who mistype want to know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum, auto
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import inspect

from dray.api.field_errors import FieldError, Path, Reason

_SHOWN: Final = 12


class _Shape(Enum):
    ONE = auto()
    LIST = auto()
    MAP = auto()


@dataclass(frozen=True, slots=True)
class _Below:
    """The struct that a field is, or a list or map of such."""

    kind: type[msgspec.Struct]
    shape: _Shape


def unknown_fields(raw: Any, kind: type[msgspec.Struct], path: Path, otherwise: str = "") -> list[FieldError]:
    """Every key, at any depth, that the type has no field for. `otherwise` is said where no name is near."""
    if _is_known(raw, kind):
        return []
    known = _fields(kind)
    errors = [
        unknown_field(path, str(key), known, otherwise=otherwise) for key in sorted(raw.keys() - known.keys())
    ]
    for name, below in known.items():
        if below is not None and name in raw:
            for here, value in _parts(raw[name], below.shape, path.child(name)):
                errors += unknown_fields(value, below.kind, here, otherwise)
    return errors


def _is_known(raw: Any, kind: type[msgspec.Struct]) -> bool:
    """The common case, without a path for every field."""
    if not isinstance(raw, dict):
        return True
    known = _fields(kind)
    for key, value in raw.items():
        if key not in known:
            return False
        below = known[key]
        if below is None:
            continue
        inner: Any = (value,)
        if below.shape is not _Shape.ONE:
            inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        for one in inner:
            if not _is_known(one, below.kind):
                return False
    return True


def _parts(value: Any, shape: _Shape, path: Path) -> Iterator[tuple[Path, Any]]:
    """The objects of a field; what has another form is a fault of its type, not of a name."""
    if shape is _Shape.ONE:
        yield path, value
    elif shape is _Shape.LIST and isinstance(value, list):
        yield from ((path.index(position), one) for position, one in enumerate(value))
    elif shape is _Shape.MAP and isinstance(value, dict):
        yield from ((path.key(str(key)), one) for key, one in value.items())


@lru_cache(maxsize=256)
def _fields(kind: type[msgspec.Struct]) -> dict[str, _Below | None]:
    """The names of the fields, with what is below where a field is a struct, or a list or map of them."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return {field.encode_name: _below(field.type) for field in info.fields}


def _below(info: inspect.Type) -> _Below | None:
    choices = info.types if isinstance(info, inspect.UnionType) else (info,)
    for one in choices:
        inner, shape = one, _Shape.ONE
        if isinstance(one, inspect.VarTupleType):
            inner, shape = one.item_type, _Shape.LIST
        elif isinstance(one, inspect.DictType):
            inner, shape = one.value_type, _Shape.MAP
        if isinstance(inner, inspect.StructType):
            return _Below(inner.cls, shape)
    return None


def unknown_field(
    path: Path,
    key: str,
    known: Iterable[str],
    elsewhere: Mapping[str, str] | None = None,
    otherwise: str = "",
) -> FieldError:
    """The fault, with the name that was probably meant. `elsewhere`: names of another place, with that place."""
    places = {**(elsewhere or {}), **{name: name for name in known}}
    lower = {name.lower(): name for name in places}
    near = get_close_matches(key.lower(), list(lower), n=1, cutoff=0.7)
    if near:
        advice = f'did you mean "{places[lower[near[0]]]}"?'
    elif len(places) <= _SHOWN or not otherwise:
        advice = f"known are {', '.join(sorted(places))}"
    else:
        advice = otherwise
    return FieldError(path.child(key).text, Reason.NOT_SUPPORTED, f"unknown field: {advice}", key)
