"""Carries a change of a typed view over to the raw document, so that fields the view does not know are kept.

The change is what differs between two raw forms of the view, before and after. Entries of lists are paired by the
key Kubernetes merges them with (`name`, `uid`, `type`…) where that is unique, else by equality, else by place.
"""

from __future__ import annotations

from typing import Any, Final

from dray.api.codec.json_codec import encode
from dray.errors import InvalidError

_MERGE_KEYS: Final = (
    ("name",),
    ("uid",),
    ("type",),
    ("driver", "pool", "device", "shareID"),
    ("request", "driver", "pool", "device", "shareID"),
    ("key", "effect"),
    ("key",),
    ("conditionType",),
    ("containerName", "resourceName"),
    ("containerPort", "protocol"),
    ("ip",),
    ("mountPath",),
)

Raw = dict[str, Any]


def overlay(raw: Any, before: Any, after: Any) -> Any:
    """`raw` with the change from `before` to `after` made in it. Nothing given is changed; unchanged parts are shared."""
    try:
        return _overlay(raw, before, after)
    except RecursionError:
        raise InvalidError("nested too deeply") from None


def _overlay(raw: Any, before: Any, after: Any) -> Any:
    if _is_same(before, after):
        return raw
    if isinstance(raw, dict) and isinstance(before, dict) and isinstance(after, dict):
        return _maps(raw, before, after)
    if (
        isinstance(raw, list)
        and isinstance(before, list)
        and isinstance(after, list)
        and len(raw) == len(before)
    ):
        return _lists(raw, before, after)
    return after


def _is_same(before: Any, after: Any) -> bool:
    """Equal as JSON, where True is not 1. Comparing the written form costs little: both steps run in C."""
    return bool(before == after) and encode(before) == encode(after)


def _maps(raw: Raw, before: Raw, after: Raw) -> Raw:
    """A key that the view had and has no more is removed; one that it never had is kept."""
    result = {key: value for key, value in raw.items() if key in after or key not in before}
    changed = len(result) < len(raw)
    for key, value in after.items():
        if key not in before:
            result[key] = value
        elif key in raw:
            result[key] = _overlay(raw[key], before[key], value)
        elif not _is_same(before[key], value):
            result[key] = value
        changed = changed or (key in result and (key not in raw or result[key] is not raw[key]))
    return result if changed else raw


def _lists(raw: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
    if not any(isinstance(entry, (dict, list)) for entry in raw):
        return after
    result = [
        after[index] if partner is None else _overlay(raw[partner], before[partner], after[index])
        for index, partner in enumerate(_pairs(before, after))
    ]
    same = len(result) == len(raw) and all(new is old for new, old in zip(result, raw, strict=True))
    return raw if same else result


def _pairs(before: list[Any], after: list[Any]) -> list[int | None]:
    """For each entry of `after` the index of the entry of `before` it came from."""
    for keys in _MERGE_KEYS:
        old, new = _identities(before, keys), _identities(after, keys)
        if old is not None and new is not None:
            index = {identity: place for place, identity in enumerate(old)}
            return [index.get(identity) for identity in new]
    return _pairs_by_value(before, after)


def _identities(entries: list[Any], keys: tuple[str, ...]) -> list[tuple[str, ...]] | None:
    """Every entry's key values, if all entries have the first key and no two are the same."""
    if not all(isinstance(entry, dict) and isinstance(entry.get(keys[0]), str) for entry in entries):
        return None
    found = [tuple(str(entry.get(key, "")) for key in keys) for entry in entries]
    return found if len(set(found)) == len(found) else None


def _pairs_by_value(before: list[Any], after: list[Any]) -> list[int | None]:
    """Equal entries first, those in the same place before all others; what is left pairs by place."""
    old, new = [encode(entry) for entry in before], [encode(entry) for entry in after]
    pairs: list[int | None] = [
        index if index < len(old) and old[index] == entry else None for index, entry in enumerate(new)
    ]
    taken = {place for place in pairs if place is not None}
    places: dict[bytes, list[int]] = {}
    for place in reversed(range(len(old))):
        if place not in taken:
            places.setdefault(old[place], []).append(place)
    for index, entry in enumerate(new):
        if pairs[index] is None and places.get(entry):
            pairs[index] = places[entry].pop()
    taken = {place for place in pairs if place is not None}
    return [
        index if place is None and index < len(old) and index not in taken else place
        for index, place in enumerate(pairs)
    ]
