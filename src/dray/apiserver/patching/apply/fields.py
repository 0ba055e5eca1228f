"""Sets of field paths, and their form on the wire: FieldsV1.

A path element is a plain tuple that sorts and compares as Kubernetes does: names, then keys of list items, then values
of a set, then indices. Scalars carry their type's rank, because Python takes True for 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec

from dray.api.quoting import quote
from dray.errors import InvalidError

Element: TypeAlias = tuple[Any, ...]
Path: TypeAlias = tuple[Element, ...]

_NAME, _KEY, _VALUE, _INDEX = range(4)
_NUMBER, _STRING, _BOOL, _OTHER, _NULL = range(5)
_SELF: Final = "."


def _ranked(value: Any) -> tuple[int, Any]:
    if value is None:
        return _NULL, 0
    if isinstance(value, bool):
        return _BOOL, value
    if isinstance(value, int | float):
        return _NUMBER, value
    if isinstance(value, str):
        return _STRING, value
    return _OTHER, json.dumps(value, sort_keys=True)


def _plain(ranked: tuple[int, Any]) -> Any:
    rank, value = ranked
    if rank == _NULL:
        return None
    return json.loads(value) if rank == _OTHER else value


def named(name: str) -> Element:
    """A field of a map or struct."""
    return _NAME, name


def keyed(fields: Mapping[str, Any]) -> Element:
    """An item of a map list, by the values of its key fields."""
    return _KEY, tuple((name, _ranked(fields[name])) for name in sorted(fields))


def valued(value: Any) -> Element:
    """An item of a set, by what it is."""
    return _VALUE, _ranked(value)


def name_of(element: Element) -> str | None:
    """The field's name, where the element is one."""
    return element[1] if element[0] == _NAME else None


def shown(path: Path) -> str:
    """As in a conflict: `.spec.containers[name="a"].image`."""
    return "".join(map(_element_shown, path))


def _element_shown(element: Element) -> str:
    kind, held = element
    if kind == _NAME:
        return f".{held}"
    if kind == _KEY:
        return "[" + ",".join(f"{name}={_scalar_shown(value)}" for name, value in held) + "]"
    return f"[={_scalar_shown(held)}]" if kind == _VALUE else f"[{held}]"


def _scalar_shown(ranked: tuple[int, Any]) -> str:
    value = _plain(ranked)
    return quote(value) if isinstance(value, str) else go_json(value)


def go_json(value: Any) -> str:
    """As Go writes it: sorted, compact, and with the characters that matter in HTML escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _element_encoded(element: Element) -> str:
    kind, held = element
    if kind == _NAME:
        return f"f:{held}"
    if kind == _KEY:
        return "k:" + go_json({name: _plain(value) for name, value in held})
    return "v:" + go_json(_plain(held)) if kind == _VALUE else f"i:{held}"


def _element_decoded(text: str) -> Element | None:
    """None for a kind of element that a later Kubernetes may know: it is left out."""
    prefix, rest = text[:2], text[2:]
    if len(prefix) < 2 or prefix[1] != ":":
        raise InvalidError(f"managedFields: {text!r} is no path element; it starts with f:, k:, v: or i:")
    try:
        if prefix == "f:":
            return named(rest)
        if prefix == "k:":
            return keyed(dict(json.loads(rest)))
        if prefix == "v:":
            return valued(json.loads(rest))
        return (_INDEX, int(rest)) if prefix == "i:" else None
    except (ValueError, TypeError) as error:
        raise InvalidError(f"managedFields: {text!r} is no path element: {error}") from error


class PathSet:
    """A tree of path elements; `members` belong to the set, `children` hold what lies below. Only `insert` changes one.

    Sets share what lies below with those they were made of, so `insert` is for one that is being built, element by element.
    """

    __slots__ = ("children", "members", "wire")

    def __init__(
        self, members: Iterable[Element] = (), children: Mapping[Element, PathSet] | None = None
    ) -> None:
        self.members = set(members)
        self.children = dict(children or {})
        self.wire: dict[str, Any] | None = None

    @classmethod
    def of(cls, *paths: Path) -> PathSet:
        """The set of these paths."""
        made = cls()
        for path in paths:
            made.insert(path)
        return made

    def insert(self, path: Path) -> None:
        """Adds the path, not its parents. The empty path stands for the whole object, which nobody owns."""
        node = self
        for element in path[:-1]:
            node.wire = None
            below = node.children.get(element)
            if below is None:
                below = node.children[element] = PathSet()
            node = below
        if path:
            node.wire = None
            node.members.add(path[-1])

    def __bool__(self) -> bool:
        return bool(self.members) or any(self.children.values())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PathSet):
            return NotImplemented
        return self.members == other.members and self.children == other.children

    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, path: Path) -> bool:
        node = self
        for element in path[:-1]:
            below = node.children.get(element)
            if below is None:
                return False
            node = below
        return bool(path) and path[-1] in node.members

    def __iter__(self) -> Iterator[Path]:
        """Every path, sorted: the members of a node first, then what lies below."""
        yield from ((element,) for element in sorted(self.members))
        for element in sorted(self.children):
            yield from ((element, *path) for path in self.children[element])

    def below(self, element: Element) -> PathSet:
        """What the set holds under an element, without it."""
        return self.children.get(element) or PathSet()

    def union(self, other: PathSet) -> PathSet:
        """What is in either."""
        if not other.members and not other.children:
            return self
        if not self.members and not self.children:
            return other
        children = {**self.children, **other.children}
        for element in self.children.keys() & other.children.keys():
            children[element] = self.children[element].union(other.children[element])
        return PathSet(self.members | other.members, children)

    def intersection(self, other: PathSet) -> PathSet:
        """What is in both."""
        shared = self.children.keys() & other.children.keys()
        found = {element: self.children[element].intersection(other.children[element]) for element in shared}
        return PathSet(
            self.members & other.members, {element: node for element, node in found.items() if node}
        )

    def difference(self, other: PathSet) -> PathSet:
        """Path by path: a parent in `other` takes none of its children away."""
        if not other.members and not other.children:
            return self
        children = dict(self.children)
        for element in self.children.keys() & other.children.keys():
            rest = self.children[element].difference(other.children[element])
            if rest:
                children[element] = rest
            else:
                del children[element]
        return PathSet(self.members - other.members, children)

    def recursive_difference(self, other: PathSet) -> PathSet:
        """A path in `other` takes away everything below it too."""
        if not other.members and not other.children:
            return self
        children = {}
        for element, node in self.children.items():
            if element in other.members:
                continue
            below = other.children.get(element)
            rest = node if below is None else node.recursive_difference(below)
            if rest:
                children[element] = rest
        return PathSet(self.members - other.members, children)

    def leaves(self) -> PathSet:
        """Only the paths that have no other path of the set below them."""
        children = {element: node.leaves() for element, node in self.children.items()}
        return PathSet(self.members - children.keys(), children)


def encode_fields(paths: PathSet) -> dict[str, Any]:
    """FieldsV1, in the order in which Kubernetes writes it. Made once for each set: not to be changed."""
    if paths.wire is None:
        paths.wire = _encoded(paths)
    return paths.wire


def _encoded(paths: PathSet) -> dict[str, Any]:
    encoded: dict[str, Any] = {}
    for element in sorted(paths.members | paths.children.keys()):
        below = paths.children.get(element)
        own: dict[str, Any] = {_SELF: {}} if element in paths.members and below else {}
        encoded[_element_encoded(element)] = own | (encode_fields(below) if below else {})
    return encoded


def decode_fields(document: Any) -> PathSet:
    """Reads FieldsV1; InvalidError where it cannot be understood. Equal ones are one set: not to be inserted into."""
    if not isinstance(document, dict):
        raise InvalidError("managedFields: fieldsV1 must be a map")
    return _known(msgspec.json.encode(document))


@lru_cache(maxsize=256)
def _known(written: bytes) -> PathSet:
    """The objects of one kind that one client writes differ little in who owns what."""
    paths, _ = _decoded(msgspec.json.decode(written))
    return paths or PathSet()


def _decoded(document: Any) -> tuple[PathSet | None, bool]:
    """What lies below a node, and whether the node itself is a member."""
    if not isinstance(document, dict):
        raise InvalidError("managedFields: fieldsV1 must be made of maps")
    made, is_member = PathSet(), _SELF in document
    for text, value in document.items():
        element = None if text == _SELF else _element_decoded(text)
        if element is None:
            continue
        below, inside = _decoded(value)
        if inside:
            made.members.add(element)
        if below is not None:
            made.children[element] = below
    return (made, is_member) if made.members or made.children else (None, True)
