"""The garbage collector's work on one object, inside a transaction: look, judge, do.

A loop outside calls `collect` for every object that changed and for those `near` it; calling it too often does nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from dray.api.meta import OwnerReference
from dray.apiserver.served import Document
from dray.apiserver.store.contract import Key, Stored, Transaction
from dray.apiserver.writing.removing import garbage, grace
from dray.apiserver.writing.removing.delete import delete
from dray.apiserver.writing.removing.dependents import dependents_of, owners_of
from dray.apiserver.writing.removing.garbage import Delete, Dependent, DropFinalizer, DropOwners, Item, Owner
from dray.apiserver.writing.removing.grace import FOREGROUND, DeleteOptions, Preconditions
from dray.apiserver.writing.request import Rules, Write, document_of, remove, replace

_DELETING: Final = b'"deletionTimestamp"'


def near(transaction: Transaction, rules: Rules, stored: Stored) -> tuple[Key, ...]:
    """Whose fate may depend on a change of this object: its dependents, and owners that may wait for it."""
    found = {one.key for one in dependents_of(transaction, stored.uid)}
    for owner in owners_of(stored):
        place = _place(rules, stored.key, owner)
        if place is not None:
            found.add(place)
    return tuple(sorted(found))


def collect(transaction: Transaction, rules: Rules, key: Key, now: datetime) -> bool:
    """Do what is due for one object; False where nothing is. Ask again after a change near it."""
    stored = transaction.get(key)
    if stored is None or (_DELETING not in stored.raw and not owners_of(stored)):
        return False
    action = garbage.judge(_item(transaction, rules, stored))
    if action is None:
        return False
    write = Write(rules, rules.serving.of_key(key), key.namespace, key.name, now)
    if isinstance(action, Delete):
        _delete(transaction, write, stored, action)
    elif isinstance(action, DropOwners):
        _drop_owners(transaction, write, stored, action.uids)
    else:
        _drop_finalizer(transaction, write, stored, action)
    return True


def _item(transaction: Transaction, rules: Rules, stored: Stored) -> Item:
    metadata = document_of(stored)["metadata"]
    found = dependents_of(transaction, stored.uid)
    return Item(
        deleting=bool(metadata.get("deletionTimestamp")),
        finalizers=tuple(metadata.get("finalizers") or ()),
        owners=tuple(
            (owner.uid, _state(transaction, rules, stored.key, owner)) for owner in owners_of(stored)
        ),
        dependents=tuple(_dependent(one, stored.uid) for one in found),
    )


def _dependent(stored: Stored, uid: str) -> Dependent:
    blocks = any(owner.uid == uid and owner.block_owner_deletion for owner in owners_of(stored))
    return Dependent(blocks, _waits(document_of(stored)))


def _waits(document: Document) -> bool:
    metadata = document["metadata"]
    return bool(metadata.get("deletionTimestamp")) and FOREGROUND in (metadata.get("finalizers") or ())


def _place(rules: Rules, key: Key, owner: OwnerReference) -> Key | None:
    """Where an owner is; None where it cannot be: an unserved kind, or a namespaced owner of a cluster object."""
    served = rules.serving.of_kind(owner.api_version, owner.kind)
    if served is None or (served.resource.namespaced and not key.namespace):
        return None
    return served.key(key.namespace, owner.name)


def _state(transaction: Transaction, rules: Rules, key: Key, owner: OwnerReference) -> Owner:
    place = _place(rules, key, owner)
    if place is None:
        return Owner.UNKNOWN
    stored = transaction.get(place)
    if stored is None or stored.uid != owner.uid:
        return Owner.GONE
    return Owner.WAITS if _waits(document_of(stored)) else Owner.SOLID


def _delete(transaction: Transaction, write: Write, stored: Stored, action: Delete) -> None:
    if action.unblock:
        document = document_of(stored)
        for owner in document["metadata"]["ownerReferences"]:
            owner.pop("blockOwnerDeletion", None)
        replace(transaction, write, stored, document)
    only = Preconditions(uid=stored.uid)
    delete(transaction, write, DeleteOptions(propagation_policy=action.policy, preconditions=only))


def _drop_owners(transaction: Transaction, write: Write, stored: Stored, uids: frozenset[str]) -> None:
    document = document_of(stored)
    metadata = document["metadata"]
    left = [owner for owner in metadata["ownerReferences"] if owner.get("uid") not in uids]
    metadata.pop("ownerReferences")
    if left:
        metadata["ownerReferences"] = left
    replace(transaction, write, stored, document)


def _drop_finalizer(transaction: Transaction, write: Write, stored: Stored, action: DropFinalizer) -> None:
    if action.orphan:
        for one in dependents_of(transaction, stored.uid):
            _drop_owners(transaction, write, one, frozenset({stored.uid}))
    old = document_of(stored)
    new = document_of(stored)
    left = [one for one in new["metadata"]["finalizers"] if one != action.finalizer]
    grace.set_finalizers(new["metadata"], left)
    if grace.goes_with_update(old, new):
        remove(transaction, write, stored)
    else:
        replace(transaction, write, stored, new)
