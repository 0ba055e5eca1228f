"""Fields that a document has and its kind has not, for `fieldValidation`: of every kind in the table of shapes, and in full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from dray.apiserver.patching.shape_table import FieldText, parse_field, shape_table

_LIMIT: Final = 100
"""So many are told at most, as by Kubernetes."""


def unknown_names(resource_kind: str, document: Any) -> tuple[str, ...] | None:
    """Their paths (`spec.containers[0].imagge`) in the order of the document; None for a kind that the table does not know.

    `resource_kind` is `v1/Pod` or `resource.k8s.io/v1/ResourceClaim`. A value of another form than the field's is not
    looked into: that is a fault of its type.
    """
    shape = shape_table().kinds.get(resource_kind)
    return None if shape is None else tuple(islice(_unknown(document, shape, ""), _LIMIT))


def _unknown(value: Any, shape: str, path: str) -> Iterator[str]:
    known = _below(shape)
    if not isinstance(value, Mapping) or not known:
        return
    for name, inner in value.items():
        here = f"{path}.{name}" if path else str(name)
        field = known.get(name)
        if field is None:
            yield here
        elif field.is_shape:
            for place, one in _parts(field, inner, here):
                yield from _unknown(one, field.type, place)


def _parts(field: FieldText, value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The objects that a field holds."""
    if field.is_list:
        items = value if isinstance(value, list) else ()
        yield from ((f"{path}[{position}]", one) for position, one in enumerate(items))
    elif field.is_map:
        entries = value if isinstance(value, Mapping) else {}
        yield from ((f"{path}.{key}", one) for key, one in entries.items())
    else:
        yield path, value


@lru_cache(maxsize=1024)
def _below(shape: str) -> Mapping[str, FieldText]:
    return {name: parse_field(text) for name, text in shape_table().texts(shape).items()}
