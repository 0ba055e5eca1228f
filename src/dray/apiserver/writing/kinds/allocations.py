"""No device is allocated twice and none gives more than it has: checks that a real API server does not have, inside the write.

The store's indexes say which claims hold a device and which slices a pool has, as of the newest decision. When two may not
hold one is said in `allocation/holding.py`, in agreement with the allocator: whoever has the whole device shares it with
nobody, whoever has a share of it (`shareID`) shares it with other shares only, in either order of time. How much all
shares of a device may have of its capacity, and all devices of a pool of its counters, is said in
`allocation/overdraft.py`.

Within one claim no device may come twice unless as different shares. That holds for admin access too, which between claims
holds nothing and is held up by nothing: the allocator never gives a claim the same device twice.

A device that no slice has is not judged by amounts, as nothing is known of it: neither the order in which a driver and a
scheduler write nor a slice that is gone refuses an allocation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from dray.allocation.holding import Held, clash, given_twice, held_in, held_of
from dray.allocation.overdraft import Overdraft, Part, find_overdraft, part_of
from dray.api.codec import decode
from dray.api.kinds import RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.api.resource import ResourceClaim, ResourceSlice
from dray.apiserver.store.contract import Index, Stored, Transaction
from dray.apiserver.writing import faults
from dray.apiserver.writing.request import Write
from dray.errors import InvalidError

T = TypeVar("T")
_NAMED: Final = 3
"""Claims and devices that a refusal names; of more it says how many."""


def _held(raw: bytes) -> tuple[Held, ...]:
    """The devices a stored claim holds. What cannot be read was never stored through a write, and holds nothing."""
    try:
        return held_in(raw)
    except InvalidError:
        return ()


def _part(raw: bytes) -> Part | None:
    """The amounts of a stored slice; None, as above, for what cannot be read."""
    try:
        return part_of(decode(raw, ResourceSlice))
    except InvalidError:
        return None


class _PoolName(msgspec.Struct, frozen=True, gc=False):
    name: str = ""


class _SliceSpec(msgspec.Struct, frozen=True, gc=False):
    driver: str = ""
    pool: _PoolName = _PoolName()


class _Slice(msgspec.Struct, frozen=True, gc=False):
    spec: _SliceSpec = _SliceSpec()


_decode_slice: Final = msgspec.json.Decoder(_Slice).decode


def _places(stored: Stored) -> Iterable[str]:
    return {result.place for result in _held(stored.raw)}


def _pool_of(stored: Stored) -> Iterable[str]:
    try:
        spec = _decode_slice(stored.raw).spec
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ()
    return (pool_key(spec.driver, spec.pool.name),)


def pool_key(driver: str, pool: str) -> str:
    """The pool's value in the index `POOLS`."""
    return f"{driver}|{pool}"


DEVICES: Final = Index("devices", str(RESOURCE_CLAIMS), _places)
POOLS: Final = Index("slices by pool", str(RESOURCE_SLICES), _pool_of)


class _Remembered(Generic[T]):
    """What was read of stored objects, until they change. All is dropped when there is too much of it."""

    def __init__(self, read: Callable[[bytes], T], most: int) -> None:
        self._read, self._most = read, most
        self._known: dict[str, tuple[bytes, T]] = {}

    def of(self, stored: Stored) -> T:
        """A document that was read before is the very same one, so that its revision says nothing more."""
        known = self._known.get(stored.uid)
        if known is not None and known[0] is stored.raw:
            return known[1]
        if len(self._known) >= self._most:
            self._known.clear()
        found = self._read(stored.raw)
        self._known[stored.uid] = (stored.raw, found)
        return found


_holdings: Final = _Remembered(_held, 2048)
_parts: Final = _Remembered(_part, 1024)


class _Others:
    """The `Holders` of one pool. The claim that is written holds nothing yet, so all that hold something are others."""

    def __init__(self, transaction: Transaction, driver: str, pool: str) -> None:
        self._transaction, self._prefix = transaction, f"{driver}|{pool}|"

    def claims(self, device: str) -> tuple[Stored, ...]:
        """Who holds the device or a share of it."""
        return self._transaction.indexed(DEVICES.name, self._prefix + device)

    def is_held(self, device: str) -> bool:
        """Whether anybody does."""
        return bool(self.claims(device))

    def of(self, device: str) -> Iterable[Held]:
        """What they hold of it."""
        place = self._prefix + device
        return (one for claim in self.claims(device) for one in _holdings.of(claim) if one.place == place)


def check_allocation(transaction: Transaction, write: Write, new: ResourceClaim, old: ResourceClaim) -> None:
    """For a status about to be written: a ConflictError names the device and who holds it, or what there is too little of.

    An allocation cannot change once it is there, so only one that was not there is looked at: what is overdrawn because
    a slice changed later holds up no other write of the claims that share it.
    """
    if new.status.allocation is None or old.status.allocation is not None:
        return
    results = new.status.allocation.devices.results
    every = [Held(one.driver, one.pool, one.device, share_id=one.share_id) for one in results]
    if (twice := given_twice(every)) is not None:
        raise faults.conflict(write.served.resource, write.name, f"device {twice} is allocated twice")
    wanted = held_of(new)
    if why := _taken(transaction, wanted) or _overdrawn(transaction, wanted):
        raise faults.conflict(write.served.resource, write.name, why)


def _taken(transaction: Transaction, wanted: Iterable[Held]) -> str:
    for result in wanted:
        for stored in transaction.indexed(DEVICES.name, result.place):
            if clash((result,), _holdings.of(stored)) is not None:
                return f"device {result} is already allocated to claim {_name(stored)}"
    return ""


def _overdrawn(transaction: Transaction, wanted: Sequence[Held]) -> str:
    """One look at the index for each pool; holders are looked at only for devices that have amounts to give."""
    for driver, pool in sorted({(one.driver, one.pool) for one in wanted}):
        slices = transaction.indexed(POOLS.name, pool_key(driver, pool))
        parts = [part for one in slices if (part := _parts.of(one)) is not None]
        others = _Others(transaction, driver, pool)
        asked = [one for one in wanted if (one.driver, one.pool) == (driver, pool)]
        if (found := find_overdraft(parts, others, asked)) is not None:
            return _told(found, others)
    return ""


def _told(found: Overdraft, others: _Others) -> str:
    devices = list(dict.fromkeys(str(one) for one in found.wanted))
    claims = sorted({_name(claim) for device in found.users for claim in others.claims(device)})
    rest = f", the rest is allocated to {_some('claim', claims)}" if claims else ""
    amounts = f"{found.asked} of {found.what} asked for, {found.left} of {found.total} left"
    return f"{_some('device', devices)} cannot be allocated: {amounts}{rest}"


def _some(what: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{what}{'s' if len(names) > 1 else ''} {', '.join(names[:_NAMED])}{more}"


def _name(stored: Stored) -> str:
    return f"{stored.key.namespace}/{stored.key.name}"
