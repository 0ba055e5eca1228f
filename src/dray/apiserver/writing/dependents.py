"""Which objects name an owner: an index of the store for each kind, by the owner's uid."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from dray.api.meta import OwnerReference
from dray.apiserver.served import Serving
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


def _index_name(resource: str) -> str:
    return f"owners of {resource}"


def owner_indexes(serving: Serving) -> tuple[Index, ...]:
    """One for each kind: an owner may have dependents of any."""
    places = sorted(str(served.resource) for served in serving.all)
    return tuple(Index(_index_name(place), place, _owner_uids) for place in places)


def dependents_of(transaction: Transaction, serving: Serving, uid: str) -> tuple[Stored, ...]:
    """All objects that name this uid as an owner, ordered by resource and name."""
    places = sorted(str(served.resource) for served in serving.all)
    return tuple(stored for place in places for stored in transaction.indexed(_index_name(place), uid))
