"""JSON null where Kubernetes accepts it: everywhere, meaning "as if absent", or the zero value inside a list or map.

The typed views do not know null in every place, because decoding is faster and their users are safer without it.
A decoder that meets an error can clean the document with `without_nulls` and try once more.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from msgspec import inspect


def without_nulls(document: Any, view: Any) -> Any:
    """A copy of a decoded document in which a null is gone, or is what Go would read it as."""
    return _clean(document, _info(view))


@lru_cache(maxsize=256)
def _info(view: Any) -> inspect.Type:
    return inspect.type_info(view)


def _clean(value: Any, info: inspect.Type) -> Any:
    if isinstance(info, inspect.UnionType):
        return value if value is None else _clean(value, _not_none(info))
    if isinstance(info, inspect.StructType):
        return _struct(value, info)
    if isinstance(info, (inspect.VarTupleType, inspect.ListType)):
        if isinstance(value, list):
            return [_zero(info.item_type) if item is None else _clean(item, info.item_type) for item in value]
        return value
    if isinstance(info, inspect.DictType) and isinstance(value, dict):
        of = info.value_type
        return {key: _zero(of) if item is None else _clean(item, of) for key, item in value.items()}
    return value


def _struct(value: Any, info: inspect.StructType) -> Any:
    if not isinstance(value, dict):
        return value
    fields = _fields(info.cls)
    return {
        key: _clean(item, fields[key]) if key in fields else item
        for key, item in value.items()
        if item is not None
    }


@lru_cache(maxsize=256)
def _fields(cls: Any) -> dict[str, inspect.Type]:
    info = _info(cls)
    assert isinstance(info, inspect.StructType)
    return {field.encode_name: field.type for field in info.fields}


def _not_none(info: inspect.UnionType) -> inspect.Type:
    return next(one for one in info.types if not isinstance(one, inspect.NoneType))


def _zero(info: inspect.Type) -> Any:
    """What a null entry of a list or map becomes; a type of our own, such as Quantity, reads null by itself."""
    if isinstance(info, (inspect.StructType, inspect.DictType)):
        return {}
    if isinstance(info, (inspect.VarTupleType, inspect.ListType)):
        return []
    if isinstance(info, (inspect.StrType, inspect.BytesType)):
        return ""
    if isinstance(info, inspect.BoolType):
        return False
    return 0 if isinstance(info, inspect.IntType) else None
