"""No device is allocated twice: the check that a real API server does not have, inside the write itself.

The store's index says which claims hold a device, as of the newest decision. When two may not hold one is said in
`allocation/holding.py`, in agreement with the allocator: whoever has the whole device shares it with nobody, whoever has a
share of it (`shareID`) shares it with other shares only, in either order of time.

Within one claim no device may come twice unless as different shares. That holds for admin access too, which between claims
holds nothing and is held up by nothing: the allocator never gives a claim the same device twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dray.allocation.holding import Held, clash, given_twice, held_in, held_of
from dray.api.kinds import RESOURCE_CLAIMS
from dray.api.resource import ResourceClaim
from dray.apiserver.store.contract import Index, Stored, Transaction
from dray.apiserver.writing import faults
from dray.apiserver.writing.request import Write
from dray.errors import InvalidError


def _held(stored: Stored) -> tuple[Held, ...]:
    """The devices a stored claim holds. What cannot be read was never stored through a write, and holds nothing."""
    try:
        return held_in(stored.raw)
    except InvalidError:
        return ()


def _places(stored: Stored) -> Iterable[str]:
    return {result.place for result in _held(stored)}


DEVICES: Final = Index("devices", str(RESOURCE_CLAIMS), _places)


def check_allocation(transaction: Transaction, write: Write, new: ResourceClaim, old: ResourceClaim) -> None:
    """For a status about to be written: a ConflictError names the device and the claim that holds it.

    An allocation cannot change once it is there, so only one that was not there is looked at.
    """
    if new.status.allocation is None or old.status.allocation is not None:
        return
    results = new.status.allocation.devices.results
    every = [Held(one.driver, one.pool, one.device, share_id=one.share_id) for one in results]
    if (twice := given_twice(every)) is not None:
        raise faults.conflict(write.served.resource, write.name, f"device {twice} is allocated twice")
    for result in held_of(new):
        for stored in transaction.indexed(DEVICES.name, result.place):
            if clash((result,), _held(stored)) is not None:
                holder = f"{stored.key.namespace}/{stored.key.name}"
                why = f"device {result} is already allocated to claim {holder}"
                raise faults.conflict(write.served.resource, write.name, why)
