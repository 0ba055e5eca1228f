"""Which fields a document has, and which fields differ between two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

import msgspec

from dray.apiserver.patching.apply.fields import Element, Path, PathSet, named
from dray.apiserver.patching.apply.schema import ListType, MapType, Type, same


class Absent(Enum):
    """The side of a comparison that has no such field; null is a value."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


def field_set(value: Any, type_: Type) -> PathSet:
    """Every leaf and every item that the document mentions: what an applier of it owns."""
    made = PathSet()
    _collect(value, type_, (), made)
    return made


def _collect(value: Any, type_: Type, path: Path, made: PathSet) -> None:
    form = type_.form(value)
    if form == "scalar":
        made.insert(path)
    elif form == "list" and type_.list is not None:
        if type_.list.is_atomic:
            made.insert(path)
        elif isinstance(value, list):
            _collect_items(value, type_.list, path, made)
    elif type_.map is not None:
        if type_.map.is_atomic:
            made.insert(path)
        elif isinstance(value, dict):
            _collect_fields(value, type_.map, path, made)


def _collect_items(value: list[Any], type_: ListType, path: Path, made: PathSet) -> None:
    """Items that are there twice are owned together, as one leaf."""
    elements = [type_.element(item) for item in value]
    counts = Counter(elements)
    for element, item in zip(elements, value, strict=True):
        below = (*path, element)
        if counts[element] == 1:
            _collect(item, type_.items, below, made)
        made.insert(below)


def _collect_fields(value: dict[str, Any], type_: MapType, path: Path, made: PathSet) -> None:
    for name, one in value.items():
        below = (*path, named(name))
        _collect(one, type_.item(name), below, made)
        if one is None or one == {} or not type_.declares(name):
            made.insert(below)


@dataclass(frozen=True)
class Comparison:
    """What the second document has removed, changed and added. No path is in two of the sets."""

    removed: PathSet = field(default_factory=PathSet)
    modified: PathSet = field(default_factory=PathSet)
    added: PathSet = field(default_factory=PathSet)

    @property
    def set(self) -> PathSet:
        """What the second document gave a value."""
        return self.modified.union(self.added)

    def without(self, paths: PathSet) -> Comparison:
        """The comparison of what is not at or below these paths."""
        return Comparison(
            self.removed.recursive_difference(paths),
            self.modified.recursive_difference(paths),
            self.added.recursive_difference(paths),
        )


def compared(old: Any, new: Any, type_: Type) -> Comparison:
    """Compares two documents of a type."""
    found = Comparison()
    if not is_unchanged(old, new):
        _compare(old, new, type_, (), found)
    return found


def _compare(old: Any, new: Any, type_: Type, path: Path, found: Comparison) -> None:
    forms = [type_.form(one) for one in (old, new) if one is not ABSENT]
    is_leaf = False
    for form in dict.fromkeys(forms):
        # Where the two have different forms, the last word is the new one's.
        is_leaf = _compare_as(form, old, new, type_, path, found)
    if not is_leaf:
        if old is ABSENT:
            found.added.insert(path)
        elif new is ABSENT:
            found.removed.insert(path)


def is_unchanged(old: Any, new: Any) -> bool:
    """Of most changes most of the document is: it need not be walked through. In Python 1, 1.0 and True are equal."""
    if old.__class__ is str:
        return new.__class__ is str and bool(old == new)
    if not isinstance(old, dict | list) or old != new:
        return False
    return msgspec.json.encode(old, order="sorted") == msgspec.json.encode(new, order="sorted")


def _compare_as(form: str, old: Any, new: Any, type_: Type, path: Path, found: Comparison) -> bool:
    """Whether it was a leaf."""
    if form == "list" and type_.list is not None:
        items = [one if isinstance(one, list) else [] for one in (old, new)]
        if not type_.list.is_atomic and any(items):
            _compare_items(items[0], items[1], type_.list, path, found)
            return False
    elif form != "scalar" and type_.map is not None:
        maps = [one if isinstance(one, dict) else {} for one in (old, new)]
        if not type_.map.is_atomic and any(maps):
            _compare_fields(maps[0], maps[1], type_.map, path, found)
            return False
    _compare_leaf(old, new, path, found)
    return True


def _compare_leaf(old: Any, new: Any, path: Path, found: Comparison) -> None:
    if old is ABSENT:
        found.added.insert(path)
    elif new is ABSENT:
        found.removed.insert(path)
    elif not same(old, new):
        found.modified.insert(path)


def _compare_fields(
    old: dict[str, Any], new: dict[str, Any], type_: MapType, path: Path, found: Comparison
) -> None:
    for name in old.keys() | new.keys():
        before, after = old.get(name, ABSENT), new.get(name, ABSENT)
        if not is_unchanged(before, after):
            _compare(before, after, type_.item(name), (*path, named(name)), found)


def _grouped(items: Sequence[Any], type_: ListType) -> dict[Element, list[Any]]:
    groups: dict[Element, list[Any]] = {}
    for item in items:
        groups.setdefault(type_.element(item), []).append(item)
    return groups


def _compare_items(
    old: Sequence[Any], new: Sequence[Any], type_: ListType, path: Path, found: Comparison
) -> None:
    before, after = _grouped(old, type_), _grouped(new, type_)
    for element in {**before, **after}:
        left, right, below = before.get(element, []), after.get(element, []), (*path, element)
        if len(left) <= 1 and len(right) <= 1:
            ours, theirs = left[0] if left else ABSENT, right[0] if right else ABSENT
            if not is_unchanged(ours, theirs):
                _compare(ours, theirs, type_.items, below, found)
        elif len(left) > 1 and len(right) > 1:
            if not same(left, right):
                found.modified.insert(below)
        elif len(left) > 1:
            if right:
                _compare(ABSENT, right[0], type_.items, below, found)
            found.removed.insert(below)
        else:
            if left:
                _compare(left[0], ABSENT, type_.items, below, found)
            found.added.insert(below)
