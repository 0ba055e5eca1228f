"""How each field of the kinds we know is merged, out of the table of shapes (see `shape_table`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

from dray.apiserver.patching.refusal import PatchError, shown
from dray.apiserver.patching.shape_table import parse_field, shape_table

PATCH: Final = "$patch"
RETAIN_KEYS: Final = "$retainKeys"
SET_ORDER: Final = "$setElementOrder"
DELETE_FROM: Final = "$deleteFromPrimitiveList"
_DIRECTIVES: Final = (SET_ORDER, DELETE_FROM)


@dataclass(frozen=True)
class Field:
    """One field: what it holds (`shape` is the empty one for plain values and for maps) and how a patch goes in."""

    shape: Shape
    is_list: bool = False
    strategy: str = ""
    merge_key: str = ""


@dataclass(frozen=True)
class Shape:
    """The fields of one Go struct."""

    name: str

    @cached_property
    def fields(self) -> Mapping[str, Field]:
        """All of them, by the name in JSON."""
        return {name: _field(said) for name, said in shape_table().texts(self.name).items()}

    @cached_property
    def _folded(self) -> Mapping[str, Field]:
        return {name.casefold(): field for name, field in self.fields.items()}

    def field(self, name: str) -> Field:
        """The field a merge goes on in. Kubernetes finds it in any case of letters, and refuses what is not there."""
        found = self.fields.get(name) or self._folded.get(name.casefold())
        if found is None:
            owner = self.name.rpartition(".")[2] or "a value that is no struct"
            raise PatchError(
                f'unable to find api field in {owner} for the json field "{shown(name)}"; '
                "use a JSON merge patch for it"
            )
        return found

    def list_field(self, name: str) -> Field:
        """The same for a list."""
        found = self.field(name)
        if not found.is_list:
            raise PatchError(f"expected slice or array type, but {shown(name)} holds no list")
        return found


_NOTHING: Final = Shape("")


@lru_cache(maxsize=1024)
def _shape(name: str) -> Shape:
    return Shape(name) if name else _NOTHING


def _field(text: str) -> Field:
    """Of the strategies, `retainKeys` only matters to who writes a patch."""
    told = parse_field(text)
    is_struct = told.is_shape and not told.is_map and shape_table().has_fields(told.type)
    strategy = next((one for one in told.strategies.split(",") if one != "retainKeys"), "")
    return Field(_shape(told.type) if is_struct else _NOTHING, told.is_list, strategy, told.merge_key)


def shape_of(resource_kind: str) -> Shape | None:
    """The shape of `v1/Pod` or `resource.k8s.io/v1/ResourceClaim`; None for a kind without Go types, such as a custom one."""
    name = shape_table().kinds.get(resource_kind)
    return None if name is None else _shape(name)


def tidied(document: dict[str, Any], shape: Shape) -> dict[str, Any]:
    """The document as it comes out of Go types: no null fields, and no directive that was left in a value taken whole.

    Only fields of the shape are looked into; what is not known, or opaque, stays as it is.
    """
    result: dict[str, Any] = {}
    for name, value in document.items():
        if value is None or name in (PATCH, RETAIN_KEYS) or name.startswith(_DIRECTIVES):
            continue
        field = shape.fields.get(name)
        result[name] = (
            value if field is None or field.shape is _NOTHING else _tidied_value(value, field.shape)
        )
    return result


def _tidied_value(value: Any, shape: Shape) -> Any:
    if isinstance(value, dict):
        return tidied(value, shape)
    if isinstance(value, list):
        return [tidied(one, shape) if isinstance(one, dict) else one for one in value]
    return value
