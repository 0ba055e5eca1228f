"""Strategic merge patch: a merge patch that knows which lists are merged, and by which field of their items.

A patch steers it by directives: `$patch` (delete, replace), `$retainKeys`, `$setElementOrder/FIELD` and
`$deleteFromPrimitiveList/FIELD`. Values that the object does not have yet are taken from the patch as they are.
"""

from __future__ import annotations

from typing import Any, Final

from dray.apiserver.patching.documents import copied
from dray.apiserver.patching.list_order import arranged, check_order, element_type, partitioned, strike, token
from dray.apiserver.patching.refusal import PatchError, shown
from dray.apiserver.patching.shapes import DELETE_FROM, PATCH, RETAIN_KEYS, SET_ORDER, Field, Shape

_FORMAT_FAULTS: Final = {
    DELETE_FROM: "invalid patch format of primitive list",
    SET_ORDER: "invalid patch format of setElementOrder list",
}

Document = dict[str, Any]


def strategic_patched(document: Document, patch: Document, shape: Shape) -> Document:
    """The document with the patch merged in, as the Go library gives it (see `shapes.tidied` for what is left in it)."""
    return _merge(copied(document), copied(patch), shape)


def _merge(old: Document, patch: Document, shape: Shape) -> Document:
    """Changes `old` and uses up `patch`."""
    if PATCH in patch:
        return _directed(patch)
    _retain_keys(old, patch)
    for name in sorted(name for name in patch if name.startswith(SET_ORDER)):
        _merge_in_order(old, patch, name, shape)
    for name in sorted(patch):
        _merge_field(old, name, patch[name], shape)
    return old


def _directed(patch: Document) -> Document:
    directive = patch.pop(PATCH)
    if directive == "replace":
        return patch
    if directive == "delete":
        return {}
    raise PatchError(f"unknown patch type: {shown(directive)} in map: {shown(patch)}")


def _retain_keys(old: Document, patch: Document) -> None:
    if RETAIN_KEYS not in patch:
        return
    retained = patch.pop(RETAIN_KEYS)
    if not isinstance(retained, list):
        raise PatchError("invalid patch format of retainKeys: not a list", 400)
    names = {name for kind, name in map(token, retained) if kind is str}
    for name, value in patch.items():
        if value is not None and not name.startswith((DELETE_FROM, SET_ORDER)) and name not in names:
            raise PatchError(f"invalid patch format of retainKeys: {shown(name)} is not among them", 400)
    for name in [name for name in old if name not in names]:
        del old[name]


def _merge_field(old: Document, name: str, value: Any, shape: Shape) -> None:
    is_deletion = name.startswith(DELETE_FROM)
    if is_deletion:
        name = _field_name(name, DELETE_FROM) or name
    if value is None:
        old.pop(name, None)
    elif name not in old or old[name].__class__ is not value.__class__:
        if not is_deletion:
            _take(old, name, value)
    elif isinstance(value, dict):
        field = shape.field(name)
        old[name] = value if field.strategy == "replace" else _merge(old[name], value, field.shape)
    elif isinstance(value, list):
        old[name] = _merged_list(old[name], value, shape.list_field(name), is_deletion)
    else:
        old[name] = value


def _field_name(name: str, directive: str) -> str:
    start, slash, field = name.partition("/")
    if start != directive or not slash:
        raise PatchError(f"{_FORMAT_FAULTS[directive]}: {shown(name)}", 400)
    return field


def _take(old: Document, name: str, value: Any) -> None:
    """A value that there is nothing to merge with: without nulls, and without what carries a `$patch`."""
    value = _without_nulls(value)
    if _is_directed(value):
        old.pop(name, None)
    else:
        old[name] = _without_directives(value)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    return value


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_directives(one) for key, one in value.items() if not _is_directed(one)}
    if isinstance(value, list):
        return [_without_directives(one) for one in value if not _is_directed(one)]
    return value


def _is_directed(value: Any) -> bool:
    return isinstance(value, dict) and PATCH in value


def _merged_list(old: list[Any], patch: list[Any], field: Field, is_deletion: bool = False) -> list[Any]:
    """The merged list. `old` is left as Go leaves it, which is an order that `$setElementOrder` then looks at."""
    if field.strategy != "merge" and not is_deletion:
        return patch
    if not old and not patch:
        return old
    key, kind = field.merge_key, element_type(old, patch)
    if kind is dict:
        if not key:
            raise PatchError("cannot merge lists without merge key")
        base, patch = _apply_directives(old, patch, key)
        merged = _merged_items(base, patch, field)
        added = merged[len(base) :][: max(len(old) - len(base), 0)]
        old[len(base) : len(base) + len(added)] = added
    elif is_deletion:
        gone = {token(one) for one in patch}
        return [one for one in old if token(one) not in gone]
    else:
        base = old
        merged = list({token(one): one for one in (*old, *patch)}.values())
    return arranged(partitioned(merged, patch, key), patch, base, key, kind)


def _apply_directives(old: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """What to merge with, and the items to merge into it, once the items with a `$patch` have had their way."""
    rest = [one for one in patch if PATCH not in one]
    directed = [one for one in patch if PATCH in one]
    live = strike(old, [_deleted(one, key) for one in directed if not _is_replacement(one)], key)
    return (rest, []) if any(map(_is_replacement, directed)) else (live, rest)


def _is_replacement(item: Document) -> bool:
    return bool(item[PATCH] == "replace")


def _deleted(item: Document, key: str) -> tuple[type, Any]:
    """The key of the item that a `$patch: delete` is for."""
    if item[PATCH] == "merge":
        raise PatchError("merging lists cannot yet be specified in the patch")
    if item[PATCH] != "delete":
        raise PatchError(f"unknown patch type: {shown(item[PATCH])} in map: {shown(item)}")
    if key not in item:
        raise PatchError(f"map: {shown(item)} does not contain declared merge key: {key}")
    return token(item[key])


def _merged_items(old: list[Any], patch: list[Any], field: Field) -> list[Any]:
    """Each item of the patch merged into the item of the same key, or put at the end as it is."""
    key = field.merge_key
    merged = list(old)
    places: dict[Any, int] = {}
    for place, item in enumerate(merged):
        if key in item:
            places.setdefault(token(item[key]), place)
    for item in patch:
        if key not in item:
            raise PatchError(f"map: {shown(item)} does not contain declared merge key: {key}")
        place = places.setdefault(token(item[key]), len(merged))
        if place == len(merged):
            merged.append(item)
        else:
            merged[place] = _merge(merged[place], dict(item), field.shape)
    return merged


def _merge_in_order(old: Document, patch: Document, directive: str, shape: Shape) -> None:
    """Merges the list that a `$setElementOrder` names and puts it in this order; both are then done with."""
    order = patch.pop(directive)
    name = _field_name(directive, SET_ORDER)
    for holder in (old, patch):
        if name in holder and not isinstance(holder[name], list):
            raise PatchError(f"expected a list in {shown(name)}, which {SET_ORDER} is for")
    if not isinstance(order, list):
        raise PatchError(f"expected a list, but {shown(directive)} is none")
    field = shape.list_field(name)
    check_order(patch.get(name, []), order, field.merge_key)
    if name not in old and name not in patch:
        return
    kind = element_type(old.get(name, []), patch.get(name, []))
    before = old.get(name, [])
    merged = before
    if name in patch:
        change = patch.pop(name)
        merged = _merged_list(before, change, field) if name in old else _without_directives(change)
    old[name] = arranged(partitioned(merged, order, field.merge_key), order, before, field.merge_key, kind)
