"""The types of the kinds we know, as far as merging needs them: which lists are sets or keyed, which values are atomic.

schema.json holds them as Kubernetes 1.36 publishes them (a test asks Kubernetes again and compares). A kind that is not
there gets the deduced type, as Kubernetes gives to custom resources without a schema: maps are merged field by field,
lists are one value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Final, Protocol, TypeAlias

from dray.api.codec.json_codec import loads
from dray.apiserver.patching.apply.fields import Element, PathSet, keyed, name_of, named, valued
from dray.apiserver.patching.documents import copied
from dray.errors import InvalidError

Document: TypeAlias = dict[str, Any]


class Kind(Protocol):
    """What is asked of a kind; `dray.api.kinds.Resource` answers."""

    @property
    def api_version(self) -> str:
        """As in a document."""
        ...

    @property
    def kind(self) -> str:
        """As in a document."""
        ...

    @property
    def has_status(self) -> bool:
        """Whether `/status` is a door of its own."""
        ...


@dataclass(frozen=True, eq=False)
class Type:
    """What a value may be: a scalar, a list or a map; the deduced types may be each of them."""

    scalar: str = ""
    list: ListType | None = None
    map: MapType | None = None

    def form(self, value: Any) -> str:
        """`map`, `list`, `scalar`, or `any` where the type leaves it open and the value is null."""
        if self._only_form:
            return self._only_form
        if isinstance(value, dict):
            return "map"
        if isinstance(value, list):
            return "list"
        return "scalar" if isinstance(value, str | int | float) else "any"

    @cached_property
    def _only_form(self) -> str:
        forms = [name for name in ("map", "scalar", "list") if getattr(self, name)]
        return forms[0] if len(forms) == 1 else ""

    def under(self, element: Element) -> Type | None:
        """The type at a path element; None where there is no such thing in this type."""
        name = name_of(element)
        if name is None:
            return None if self.list is None else self.list.items
        if self.map is None or not (self.map.declares(name) or self.map.is_open):
            return None
        return self.map.item(name)


@dataclass(frozen=True, eq=False)
class ListType:
    """`keys` name the key fields of a map list; an associative list without keys is a set."""

    _items: Reference
    is_atomic: bool
    keys: tuple[str, ...] = ()

    @property
    def items(self) -> Type:
        """The type of each item."""
        return _resolved(self._items)

    def element(self, item: Any) -> Element:
        """How an item of a map list or set is called; InvalidError where it cannot be told from the others."""
        if not self.keys:
            return _set_element(item)
        if item is None:
            raise InvalidError("associative list with keys may not have a null element")
        if not isinstance(item, dict):
            raise InvalidError("associative list with keys may not have non-map elements")
        held = self.items.map
        found = {**({} if held is None else held.defaults), **item}
        key = {name: found[name] for name in self.keys if name in found}
        if not key:
            names = "[" + " ".join(f'"{name}"' for name in self.keys) + "]"
            raise InvalidError(
                f"associative list with keys has an element that omits all key fields {names} "
                "(and doesn't have default values for any key fields)"
            )
        return keyed(key)


def _set_element(item: Any) -> Element:
    if isinstance(item, dict):
        raise InvalidError("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise InvalidError("not supported: associative list with lists as elements")
    if item is None:
        raise InvalidError("associative list without keys has an element that's an explicit null")
    return valued(item)


@dataclass(frozen=True, eq=False)
class MapType:
    """A struct has fields, a map has items; `defaults` are the values that the fields have when left out."""

    _fields: dict[str, Reference] = field(default_factory=dict)
    _items: Reference | None = None
    is_atomic: bool = False
    defaults: dict[str, Any] = field(default_factory=dict)

    def declares(self, name: str) -> bool:
        """Whether it is a struct with such a field."""
        return name in self._fields

    @property
    def is_open(self) -> bool:
        """Whether it takes names that it does not declare."""
        return self._items is not None

    @property
    def is_deduced(self) -> bool:
        """Whether nothing is known of what is in it."""
        return not self._fields and self._items == "__untyped_deduced_"

    def item(self, name: str) -> Type:
        """The type under a name. What a struct does not declare is deduced: a stored document may hold it."""
        found = self._declared.get(name)
        if found is not None:
            return found
        return DEDUCED if self._items is None else _resolved(self._items)

    @cached_property
    def _declared(self) -> dict[str, Type]:
        """Every walk through a document asks for each of its fields."""
        return {name: _resolved(reference) for name, reference in self._fields.items()}


Reference: TypeAlias = "str | Type"


def _type(written: Document) -> Type:
    held_list, held_map = written.get("list"), written.get("map")
    return Type(
        scalar=written.get("scalar", ""),
        list=None
        if held_list is None
        else ListType(
            _reference(held_list["items"]), held_list["as"] == "atomic", tuple(held_list.get("keys", ()))
        ),
        map=None if held_map is None else _map_type(held_map),
    )


def _map_type(written: Document) -> MapType:
    return MapType(
        {name: _reference(one) for name, one in written.get("fields", {}).items()},
        _reference(written["items"]) if "items" in written else None,
        written.get("as") == "atomic",
        written.get("defaults", {}),
    )


def _reference(written: Any) -> Reference:
    return written if isinstance(written, str) else _type(written)


@cache
def _written() -> Document:
    held: Document = loads(files("dray.apiserver.patching.apply").joinpath("schema.json").read_bytes())
    return held


@cache
def _named_type(name: str) -> Type:
    return _type(_written()["types"][name])


def _resolved(reference: Reference) -> Type:
    return _named_type(reference) if isinstance(reference, str) else reference


_ATOMIC: Final = Type("untyped", ListType("__untyped_atomic_", True), MapType({}, "__untyped_atomic_", True))
DEDUCED: Final = Type("untyped", _ATOMIC.list, MapType({}, "__untyped_deduced_"))


def type_of(kind: Kind) -> Type:
    """The type of a kind's documents."""
    name = _written()["kinds"].get(f"{kind.api_version} {kind.kind}")
    return DEDUCED if name is None else _named_type(name)


def empty_document(kind: Kind) -> Document:
    """What a new object is compared with: a kind that we know starts with the parts that are always there."""
    known: Document = _written()["empty"].get(f"{kind.api_version} {kind.kind}")
    return copied(known) if known else {"apiVersion": kind.api_version, "kind": kind.kind}


def filled(kind: Kind, document: Document) -> Document:
    """The document with the parts that are always there, as an API server answers with them: a Pod's `status: {}`.

    Without them, whoever writes such a part first would own it as well as what is in it.
    This knows the parts at fixed places only, not those within list items, such as a container's `resources: {}`.
    """
    return _filled(document, empty_document(kind))


def _filled(document: Document, empty: Document) -> Document:
    made = dict(document)
    for name, value in empty.items():
        found = document.get(name)
        if found is None:
            made[name] = value
        elif isinstance(value, dict) and isinstance(found, dict):
            made[name] = _filled(found, value)
    return made


_NODE_RESETS: Final[dict[str, tuple[str, ...]]] = {"": ("status",), "status": ("spec",)}
_RESETS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "v1 Pod": {"": ("status",), "status": ("spec", "metadata.deletionTimestamp", "metadata.ownerReferences")},
    "v1 Node": _NODE_RESETS,
    "v1 Namespace": {**_NODE_RESETS, "finalize": ("status",)},
}
_GENERIC_RESETS: Final = {"": ("status",), "status": ("metadata", "spec")}


def reset_fields(kind: Kind, subresource: str) -> PathSet:
    """What a write through this door does not keep, so that nobody comes to own it by the write."""
    return _reset_fields(f"{kind.api_version} {kind.kind}", kind.has_status, subresource)


@cache
def _reset_fields(kind: str, has_status: bool, subresource: str) -> PathSet:
    table = _RESETS.get(kind, _GENERIC_RESETS if has_status else {})
    return PathSet.of(*(tuple(map(named, path.split("."))) for path in table.get(subresource, ())))


def with_structs(paths: PathSet, type_: Type | None) -> PathSet:
    """The set with every struct field that has a path below it; an item of a map or list stays out."""
    members, children = set(paths.members), {}
    for element, below in paths.children.items():
        name = name_of(element)
        if name is not None and type_ is not None and type_.map is not None and type_.map.declares(name):
            members.add(element)
        children[element] = with_structs(below, None if type_ is None else type_.under(element))
    return PathSet(members, children)


def same(left: Any, right: Any) -> bool:
    """Equality of JSON values, where true is not 1."""
    return bool(left == right) and _is_same_kind(left, right)


def _is_same_kind(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return all(_is_same_kind(one, right[key]) for key, one in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return all(map(_is_same_kind, left, right))
    return isinstance(left, bool) == isinstance(right, bool)
