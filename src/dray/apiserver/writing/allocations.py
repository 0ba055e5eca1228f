"""No device is allocated twice: the check that a real API server does not have, inside the write itself.

The store's index says which claims hold a device, as of the newest decision. Admin access holds nothing and is held up
by nothing. Shares of a device (results with a `shareID`) go together with other shares, not with a whole allocation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from dray.api.kinds import RESOURCE_CLAIMS
from dray.api.resource import ResourceClaim
from dray.apiserver.store.contract import Index, Stored, Transaction
from dray.apiserver.writing import faults
from dray.apiserver.writing.request import Write


class _Result(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One allocated device, as far as it matters who holds it."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")

    @property
    def place(self) -> str:
        """Names the device; none of the parts may hold the sign between them."""
        return f"{self.driver}|{self.pool}|{self.device}"


class _Devices(msgspec.Struct, frozen=True, gc=False):
    results: tuple[_Result, ...] = ()


class _Allocation(msgspec.Struct, frozen=True, gc=False):
    devices: _Devices = _Devices()


class _Status(msgspec.Struct, frozen=True, gc=False):
    allocation: _Allocation | None = None


class _Claim(msgspec.Struct, frozen=True, gc=False):
    status: _Status = _Status()


_decode: Final = msgspec.json.Decoder(_Claim).decode


def _held(stored: Stored) -> tuple[_Result, ...]:
    """The devices a stored claim holds. What cannot be read was never stored through a write, and holds nothing."""
    if b'"allocation"' not in stored.raw:
        return ()
    try:
        allocation = _decode(stored.raw).status.allocation
    except msgspec.MsgspecError:
        return ()
    results = allocation.devices.results if allocation is not None else ()
    return tuple(result for result in results if not result.admin_access)


def _places(stored: Stored) -> Iterable[str]:
    return {result.place for result in _held(stored)}


DEVICES: Final = Index("devices", str(RESOURCE_CLAIMS), _places)


def check_allocation(transaction: Transaction, write: Write, new: ResourceClaim, old: ResourceClaim) -> None:
    """For a status about to be written: a ConflictError names the device and the claim that holds it.

    An allocation cannot change once it is there, so only one that was not there is looked at.
    """
    allocation = new.status.allocation
    if allocation is None or old.status.allocation is not None:
        return
    for result in allocation.devices.results:
        if result.admin_access:
            continue
        wanted = _Result(result.driver, result.pool, result.device, None, result.share_id)
        for stored in transaction.indexed(DEVICES.name, wanted.place):
            if _clashes(wanted, stored):
                device = f"{wanted.driver}/{wanted.pool}/{wanted.device}"
                holder = f"{stored.key.namespace}/{stored.key.name}"
                why = f"device {device} is already allocated to claim {holder}"
                raise faults.conflict(write.served.resource, write.name, why)


def _clashes(wanted: _Result, stored: Stored) -> bool:
    """Whether one of the two wants the whole device, or both the same share of it."""
    return any(
        not wanted.share_id or not held.share_id or wanted.share_id == held.share_id
        for held in _held(stored)
        if held.place == wanted.place
    )
