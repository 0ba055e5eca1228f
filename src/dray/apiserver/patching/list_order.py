"""The order of a merged list: the patch's items as the patch has them, the others where they were between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dray.apiserver.patching.refusal import PatchError, shown
from dray.apiserver.patching.shapes import PATCH, SET_ORDER

_SMALL: Final = 20

Parts = tuple[list[Any], list[Any]]


def token(value: Any) -> tuple[type, Any]:
    """A value as a key for finding it again: 1, 1.0 and true are three. Objects and lists have no equals here."""
    if isinstance(value, dict | list):
        raise PatchError(f"{shown(value)} is compared with others; it must be a string, number or boolean")
    return value.__class__, value


def element_type(*lists: list[Any]) -> type:
    """The one type of all elements; lists of lists, of several types or of nothing at all cannot be merged."""
    kinds = {one.__class__ for items in lists for one in items}
    first: type | None = next((one.__class__ for items in lists for one in items), None)
    if first is list:
        raise PatchError("lists of lists are not supported")
    if first is None:
        raise PatchError("no elements in any of the given slices")
    if len(kinds) > 1 or first is type(None):
        raise PatchError("list element types are not identical, or null")
    return first


def check_order(patch: list[Any], order: list[Any], key: str) -> None:
    """The items of the patch must be among the order's, one after the other."""
    if not order or not patch:
        return
    items = _kept(patch) if key else patch
    place = 0
    for wanted in order:
        while place < len(items) and isinstance(items[place], dict) and PATCH in items[place]:
            place += 1
        if place == len(items):
            return
        place += _identity(items[place], key) == _identity(wanted, key)
    if place < len(items):
        raise PatchError(f"The order in patch list doesn't match {SET_ORDER} list: {shown(items[place])}")


def _kept(items: list[Any]) -> list[Any]:
    if not all(isinstance(one, dict) for one in items):
        raise PatchError("expected a list of objects")
    return [one for one in items if one.get(PATCH) != "delete"]


def _identity(item: Any, key: str) -> tuple[type, Any]:
    """What an item is known by: its merge key, or itself where the list has none."""
    if not key:
        return token(item)
    if not isinstance(item, dict):
        raise PatchError(f"expected an object, but received {shown(item)}")
    if key not in item:
        raise PatchError(f"map: {shown(item)} does not contain declared merge key: {key}")
    return token(item[key])


def strike(items: list[Any], gone: list[tuple[type, Any]], key: str) -> list[Any]:
    """The items without those of the keys in `gone`.

    `items` keeps its length: as in Go, where an element is taken out by moving the later ones down, the rest of the array
    still holds what was last at each removal. The order from before is read off there, so it decides where new items go.
    """
    places: dict[tuple[type, Any], list[int]] = {}
    for place, one in enumerate(items if gone else ()):
        if key in one:
            places.setdefault(token(one[key]), []).append(place)
    is_live, last = [True] * len(items), len(items) - 1
    behind: list[Any] = []
    for place in (place for one in gone for place in places.pop(one, ())):
        while not is_live[last]:
            last -= 1
        behind.append(items[last])
        is_live[place] = False
    live = [one for one, is_kept in zip(items, is_live, strict=True) if is_kept]
    items[:] = [*live, *reversed(behind)]
    return live


def partitioned(items: list[Any], chosen: list[Any], key: str) -> Parts:
    """The items that are among the chosen, and the others."""
    known = {_identity(one, key) for one in chosen} if items else set()
    inside: list[Any] = []
    outside: list[Any] = []
    for one in items:
        (inside if _identity(one, key) in known else outside).append(one)
    return inside, outside


def arranged(parts: Parts, order: list[Any], before: list[Any], key: str, kind: type) -> list[Any]:
    """The chosen items in the order given, and the others in the order from before, put between them."""
    key = key if kind is dict else ""
    wanted, earlier = _places(order, key), _places(before, key)
    chosen = _sorted([(wanted.get(_identity(one, key), -1), one) for one in parts[0]])
    others = _sorted([(earlier.get(_identity(one, key), -1), one) for one in parts[1]])
    result: list[Any] = []
    done = 0
    for _, one in chosen:
        place = earlier.get(_identity(one, key), -1)
        while done < len(others) and 0 <= others[done][0] < place:
            result.append(others[done][1])
            done += 1
        result.append(one)
    return [*result, *(one for _, one in others[done:])]


def _places(items: list[Any], key: str) -> Mapping[tuple[type, Any], int]:
    places: dict[tuple[type, Any], int] = {}
    for place, one in enumerate(items):
        places.setdefault(_identity(one, key), place)
    return places


def _sorted(items: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """By place. With items of no place (an empty order and new items) it is Go's sort by insertion, which moves them up."""
    if all(place >= 0 for place, _ in items) or len(items) > _SMALL:
        return sorted(items, key=lambda item: item[0])
    result: list[tuple[int, Any]] = []
    for item in items:
        at = len(result)
        while at and (item[0] < 0 or result[at - 1][0] < 0 or item[0] < result[at - 1][0]):
            at -= 1
        result.insert(at, item)
    return result
