"""Who owns what after a write: ownership moves with changed values, and an applier's forgotten fields are removed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dray.apiserver.patching.apply.compare import ABSENT, Comparison, compared, field_set
from dray.apiserver.patching.apply.conflicts import ApplyConflictError, Conflict
from dray.apiserver.patching.apply.fields import Path, PathSet
from dray.apiserver.patching.apply.managers import ManagerId, Managers, Owned
from dray.apiserver.patching.apply.merge import merged, without
from dray.apiserver.patching.apply.schema import Document, Type, same, with_structs


@dataclass(frozen=True)
class Rules:
    """What holds for one request: the type, the versions that have this form, and the fields this door does not keep."""

    type: Type
    api_version: str
    versions: frozenset[str]
    reset: PathSet

    def known(self, managers: Managers) -> Managers:
        """Without entries of versions that are gone, and with sets that fit the type as it is now."""
        return {
            key: owned.only(fitted(owned.fields, self.type))
            for key, owned in managers.items()
            if owned.api_version in self.versions
        }


def fitted(fields: PathSet, type_: Type) -> PathSet:
    """Paths below what is atomic become the path of the atomic value; the type may have changed since."""
    atomic = PathSet()
    _find_atomic(fields, type_, (), atomic)
    return fields.recursive_difference(atomic).union(atomic) if atomic else fields


def _find_atomic(fields: PathSet, type_: Type, path: Path, found: PathSet) -> None:
    """Finds the atomic values that paths go into."""
    held = type_.map or type_.list
    if held is None or (type_.map is not None and type_.map.is_deduced):
        return
    if held.is_atomic:
        found.insert(path)
        return
    for element, below in fields.children.items():
        if (inner := type_.under(element)) is not None:
            _find_atomic(below, inner, (*path, element), found)


def after_update(live: Document, new: Document, managers: Managers, me: ManagerId, rules: Rules) -> Managers:
    """An update takes what it changed from whoever had it; it has no conflicts."""
    made, comparison = _settled(live, new, rules.known(managers), me, rules, force=True)
    before = made[me].fields if me in made else PathSet()
    fields = before.difference(comparison.removed).union(comparison.set)
    fields = fields.recursive_difference(rules.reset)
    made.pop(me, None)
    return {**made, me: Owned(fields, rules.api_version)} if fields else made


def after_apply(
    live: Document, patch: Document, managers: Managers, me: ManagerId, rules: Rules, *, force: bool
) -> tuple[Document | None, Managers]:
    """The new document (None: the live one stays) and the owners. Raises ApplyConflictError unless forced."""
    managers = rules.known(managers)
    last = managers.get(me)
    new = merged(live, patch, rules.type)
    new = {} if new is ABSENT else new
    fields = field_set(patch, rules.type).recursive_difference(rules.reset)
    managers = {**managers, me: Owned(fields, rules.api_version, last.since if last else None)}
    if last is not None and last.fields:
        new = _pruned(new, managers, last.fields, rules.type)
    managers, _ = _settled(live, new, managers, me, rules, force=force)
    return (None if same(live, new) else new), managers


def _settled(
    live: Document, new: Document, managers: Managers, me: ManagerId, rules: Rules, *, force: bool
) -> tuple[Managers, Comparison]:
    """Takes changed and removed fields from the other managers; who has nothing left is gone."""
    comparison = compared(live, new, rules.type).without(rules.reset)
    given = comparison.set
    lost = {key: owned.fields.intersection(given) for key, owned in managers.items() if key != me}
    if not force and any(lost.values()):
        raise ApplyConflictError(
            tuple(Conflict(key, path) for key in sorted(lost, key=lambda key: key.text) for path in lost[key])
        )
    made = {}
    for key, owned in managers.items():
        fields = owned.fields
        if key != me:
            fields = fields.difference(lost[key]).difference(comparison.removed)
        if fields:
            made[key] = owned.only(fields)
    return made, comparison


def _pruned(new: Any, managers: Managers, last: PathSet, type_: Type) -> Any:
    """Without what the applier had applied and does not apply now, unless someone else owns it."""
    last = with_structs(last, type_)
    everything = with_structs(field_set(new, type_), type_)
    kept = with_structs(field_set(without(new, last, type_), type_), type_)
    owned = PathSet()
    for one in managers.values():
        owned = owned.union(one.fields)
    pruned = without(new, everything.difference(kept.union(with_structs(owned, type_))), type_)
    kept = with_structs(field_set(pruned, type_), type_)
    return without(new, everything.difference(kept).intersection(last), type_)


def stamped(managers: Managers, key: ManagerId, now: datetime) -> Managers:
    """The entry with the time of this request."""
    if key not in managers:
        return managers
    owned = managers[key]
    return {**managers, key: Owned(owned.fields, owned.api_version, now)}
