"""A configuration merged into a document by their type, and items taken out of a document."""

from __future__ import annotations

from collections import Counter
from typing import Any

from dray.apiserver.patching.apply.compare import ABSENT
from dray.apiserver.patching.apply.fields import Element, PathSet, named
from dray.apiserver.patching.apply.schema import ListType, MapType, Type


def merged(live: Any, applied: Any, type_: Type) -> Any:
    """The live document with every leaf of the applied one; nothing is taken away. ABSENT where nothing is left.

    Lists keep the live order as long as it does not contradict the applied one.
    """
    form = type_.form(live if applied is ABSENT else applied)
    if form == "list" and type_.list is not None:
        lists = [one if isinstance(one, list) else [] for one in (live, applied)]
        if not type_.list.is_atomic and any(lists):
            return _merged_items(lists[0], lists[1], type_.list)
    elif form != "scalar" and type_.map is not None:
        maps = [one if isinstance(one, dict) else {} for one in (live, applied)]
        if not type_.map.is_atomic and any(maps):
            return _merged_fields(maps[0], maps[1], type_.map)
    return live if applied is ABSENT else applied


def _merged_fields(live: dict[str, Any], applied: dict[str, Any], type_: MapType) -> Any:
    made = {}
    for name in {**live, **applied}:
        one = merged(live.get(name, ABSENT), applied.get(name, ABSENT), type_.item(name))
        if one is not ABSENT:
            made[name] = one
    return made or ABSENT


def _merged_items(live: list[Any], applied: list[Any], type_: ListType) -> Any:
    """Walks both lists at once: live-only items stay where they are, shared ones come in the applied order."""
    ours, theirs = [type_.element(item) for item in live], [type_.element(item) for item in applied]
    counts, wanted = Counter(ours), dict(zip(theirs, applied, strict=True))
    # What is there twice is not merged with what replaces it.
    known = {
        element: item if counts[element] == 1 else None for element, item in zip(ours, live, strict=True)
    }
    shared = [element for element in theirs if element in known]
    done: set[Element] = set()
    made: list[Any] = []

    def take(element: Element) -> None:
        done.add(element)
        if shared and shared[0] == element:
            shared.pop(0)
        made.append(merged(known.get(element, ABSENT), wanted[element], type_.items))

    left = right = 0
    while left < len(ours) or right < len(theirs):
        if left < len(ours) and right < len(theirs):
            if ours[left] == theirs[right]:
                take(theirs[right])
                left, right = left + 1, right + 1
                continue
            if ours[left] in wanted and shared and shared[0] != ours[left]:
                left += 1
                continue
        if left < len(ours):
            if ours[left] not in wanted:
                made.append(merged(live[left], ABSENT, type_.items))
                left += 1
                continue
            if ours[left] in done:
                left += 1
        if right < len(theirs):
            take(theirs[right])
            right += 1
    kept = [item for item in made if item is not ABSENT]
    return kept or ABSENT


def without(value: Any, paths: PathSet, type_: Type) -> Any:
    """The document without these items and fields. A container that loses everything becomes null."""
    form = type_.form(value)
    if form == "scalar":
        return value
    if form == "list" and type_.list is not None:
        return _without_items(value, paths, type_.list) if isinstance(value, list) else None
    if type_.map is not None and isinstance(value, dict):
        return _without_fields(value, paths, type_.map)
    return None


def _without_items(value: list[Any], paths: PathSet, type_: ListType) -> Any:
    if type_.is_atomic:
        return None
    made = []
    for item in value:
        element = type_.element(item)
        if element not in paths.members:
            below = paths.below(element)
            made.append(without(item, below, type_.items) if below else item)
    return made or None


def _without_fields(value: dict[str, Any], paths: PathSet, type_: MapType) -> Any:
    if type_.is_atomic:
        return None
    made = {}
    for name, one in value.items():
        element = named(name)
        if element not in paths.members:
            below = paths.below(element)
            made[name] = without(one, below, type_.item(name)) if below else one
    return made or None


def without_nulls(value: Any) -> Any:
    """The document as a store of typed objects would keep it: null means that a field is not there."""
    if isinstance(value, dict):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value
