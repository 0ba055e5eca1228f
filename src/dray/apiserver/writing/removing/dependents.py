"""Which objects name an owner: an index of the store over all kinds, by the owner's uid."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from dray.api.meta import OwnerReference
from dray.apiserver.store.contract import Index, Stored, Transaction


class _Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    owner_references: tuple[OwnerReference, ...] = ()


class _Object(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata = _Metadata()


_decode: Final = msgspec.json.Decoder(_Object).decode


def owners_of(stored: Stored) -> tuple[OwnerReference, ...]:
    """The owners an object names."""
    if b'"ownerReferences"' not in stored.raw:
        return ()
    try:
        return _decode(stored.raw).metadata.owner_references
    except msgspec.MsgspecError:
        return ()


def _owner_uids(stored: Stored) -> Iterable[str]:
    return {owner.uid for owner in owners_of(stored)}


OWNERS: Final = Index("owners", "", _owner_uids)
"""Of objects of every kind, also of those that are defined later: an owner may have dependents of any."""


def dependents_of(transaction: Transaction, uid: str) -> tuple[Stored, ...]:
    """All objects that name this uid as an owner, ordered by resource and name."""
    return transaction.indexed(OWNERS.name, uid)
