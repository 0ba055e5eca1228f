"""The two doors: `applied` for server-side apply, `updated` for every other write."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from dray.apiserver.patching.apply.check import faults, is_sound
from dray.apiserver.patching.apply.compare import is_unchanged
from dray.apiserver.patching.apply.conflicts import ApplyConflictError
from dray.apiserver.patching.apply.last_applied import MANAGER as KUBECTL
from dray.apiserver.patching.apply.last_applied import remaining, with_last_applied
from dray.apiserver.patching.apply.managers import (
    APPLY,
    UPDATE,
    ManagerId,
    Managers,
    Owned,
    capped,
    decode_managers,
    entries_of,
    manager_id,
    stripped,
    with_entries,
)
from dray.apiserver.patching.apply.merge import without_nulls
from dray.apiserver.patching.apply.ownership import Rules, after_apply, after_update, stamped
from dray.apiserver.patching.apply.schema import (
    Document,
    Kind,
    empty_document,
    filled,
    reset_fields,
    same,
    type_of,
)
from dray.apiserver.patching.documents import copied, is_deeper
from dray.apiserver.patching.refusal import PatchError
from dray.errors import InvalidError

_BEFORE: Final = "before-first-apply"
_SELF: Final = ManagerId("current-operation", "")
_MOST_LEVELS: Final = 200


def applied(
    kind: Kind,
    live: Document | None,
    patch: Document,
    manager: str,
    force: bool,
    subresource: str,
    now: datetime,
    versions: Iterable[str] = (),
) -> Document:
    """The object after `manager` applied `patch` to it; a new one where `live` is None. Nothing given is changed.

    Raises ApplyConflictError (409) where others own what would change, and PatchError where the patch cannot be applied.
    What this door may not write is still in the result, as in every update; only the ownership leaves it out.
    `versions` are other API versions of the same form, whose owners are kept.
    """
    rules = _rules(kind, subresource, versions)
    _check(kind, patch, rules)
    old = empty_document(kind) if live is None else live
    try:
        managers = decode_managers(entries_of(old))
    except InvalidError as error:
        raise PatchError(f"failed to decode managed fields: {error}") from error
    old = filled(kind, with_entries(old, {}))
    if fault := _fault(old, rules, is_applied=False):
        what = f"failed to create typed live object ({_called(kind, old)})"
        if not managers:
            what = f"failed to create manager for existing fields: failed to convert new object ({_called(kind, old)}) to smd typed"
        raise PatchError(f"{what}: {fault}")
    if not managers:
        start = ManagerId(_BEFORE, UPDATE, rules.api_version, subresource)
        managers = _after_update(empty_document(kind), old, managers, start, rules, now)
    me = manager_id(manager, APPLY, rules.api_version, subresource)
    new, managers = _after_apply(old, patch, managers, me, rules, force)
    managers = stripped(managers, me)
    if new is not None:
        managers = stamped(managers, me, now)
    made: Document = without_nulls(old if new is None else new)
    if manager == KUBECTL:
        made = with_last_applied(made, patch)
    return with_kept_times(live, with_entries(made, managers))


def updated(
    kind: Kind,
    live: Document | None,
    new: Document,
    manager: str,
    subresource: str,
    now: datetime,
    versions: Iterable[str] = (),
) -> Document:
    """`new` with the managedFields that a create (`live` is None), update or other patch leaves. Never refuses.

    A client may write managedFields itself through the main door; an empty list, or one empty entry, clears them, and
    they then stay away until the first apply. Where they cannot be worked out, the object gets none. What lies below the
    document's top and its metadata is shared with `new`.
    """
    rules = _rules(kind, subresource, versions)
    old = empty_document(kind) if live is None else live
    managers = _managers_for_update(old, new, subresource)
    made = with_entries(new, {})
    if not managers and _text(old, "uid"):
        return made
    old, whole = filled(kind, with_entries(old, {})), filled(kind, made)
    if not is_sound(whole, rules.type) or (live is not None and not _was_sound(old, whole, rules)):
        return made
    me = manager_id(manager, UPDATE, rules.api_version, subresource)
    return with_kept_times(live, with_entries(made, _after_update(old, whole, managers, me, rules, now)))


def with_kept_times(live: Document | None, new: Document) -> Document:
    """The new object with the old times where times are all that differs, so that nothing is written for them.

    Call it again where a later step may have undone the rest of a change.
    """
    if live is None:
        return new
    if any(live.get(name) != one for name, one in new.items() if name != "metadata"):
        return new
    before, after = entries_of(live), entries_of(new)
    if not before or not after or not same(_timeless(before), _timeless(after)):
        return new
    kept = {**new, "metadata": {**new["metadata"], "managedFields": copied(before)}}
    return kept if same(live, kept) else new


def _timeless(entries: list[Document]) -> list[Document]:
    return [{name: value for name, value in entry.items() if name != "time"} for entry in entries]


def _rules(kind: Kind, subresource: str, versions: Iterable[str]) -> Rules:
    known = frozenset((kind.api_version, *versions))
    return Rules(type_of(kind), kind.api_version, known, reset_fields(kind, subresource))


def _check(kind: Kind, patch: Document, rules: Rules) -> None:
    if is_deeper(patch, _MOST_LEVELS):
        raise PatchError(f"nested too deeply: more than {_MOST_LEVELS} levels", 400)
    if (patch.get("apiVersion"), patch.get("kind")) != (kind.api_version, kind.kind):
        group, _, version = str(patch.get("apiVersion") or "").rpartition("/")
        sent = f"{group}/{version}, Kind={patch.get('kind') or ''}"
        raise PatchError(f"invalid object type: {sent}", 400)
    if isinstance(entries_of(patch), list):
        raise PatchError("metadata.managedFields must be nil", 400)
    if fault := _fault(patch, rules, is_applied=True):
        raise PatchError(f"failed to create typed patch object ({_called(kind, patch)}): {fault}")


def _fault(document: Document, rules: Rules, *, is_applied: bool) -> str:
    found = list(faults(document, rules.type, is_applied=is_applied))
    if len(found) < 2:
        return "".join(found)
    return "\n  ".join(["errors:", *found])


def _was_sound(old: Document, new: Document, rules: Rules) -> bool:
    """Of a document of which another version is sound: only what differs need be looked at."""
    return is_sound(
        {name: one for name, one in old.items() if not is_unchanged(new.get(name), one)}, rules.type
    )


def _called(kind: Kind, document: Document) -> str:
    group, _, version = kind.api_version.rpartition("/")
    name = f"{_text(document, 'namespace')}/{_text(document, 'name')}"
    return f"{name}; {group}/{version}, Kind={kind.kind}"


def _text(document: Document, name: str) -> str:
    metadata = document.get("metadata")
    found = metadata.get(name) if isinstance(metadata, dict) else None
    return found if isinstance(found, str) else ""


def _after_apply(
    old: Document, patch: Document, managers: Managers, me: ManagerId, rules: Rules, force: bool
) -> tuple[Document | None, Managers]:
    try:
        return after_apply(old, patch, managers, me, rules, force=force)
    except ApplyConflictError as conflict:
        if me.manager != KUBECTL:
            raise
        if rest := remaining(conflict, old, rules):
            raise rest from None
        return after_apply(old, patch, managers, me, rules, force=True)


def _after_update(
    old: Document, new: Document, managers: Managers, me: ManagerId, rules: Rules, now: datetime
) -> Managers:
    """The change is worked out as if by a stranger, so that an entry keeps its time when it gets nothing new."""
    made = stripped(after_update(old, new, managers, _SELF, rules), _SELF)
    if _SELF in made:
        got = made.pop(_SELF).fields
        before = made[me].fields if me in made else got
        made[me] = Owned(got.union(before), rules.api_version, now)
    return capped(made)


def _managers_for_update(old: Document, new: Document, subresource: str) -> Managers:
    sent: Any = entries_of(new)
    if not subresource and isinstance(sent, list):
        if sent in ([], [{}]):
            return {}
        if managers := _read(sent):
            return managers
    return _read(entries_of(old))


def _read(entries: Any) -> Managers:
    try:
        return decode_managers(entries)
    except InvalidError:
        return {}
