"""What claims hold, kept up to date claim by claim. The same as `AllocatedState.of` over all of them, without the walk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from dray.allocation.state import AllocatedState, DeviceID, ShareID
from dray.api.quantity import Quantity
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.claim_status import DeviceRequestAllocationResult

ClaimKey = tuple[str, str]
_Results = tuple[DeviceRequestAllocationResult, ...]


class Holds:
    """Owned by one index. `before` is what is in use without a claim that is known here.

    `state` and `shared` are live: they change with every event.
    """

    def __init__(self, before: AllocatedState, *, consumable_capacity: bool) -> None:
        self._before = before
        self._consumable_capacity = consumable_capacity
        self._of_claim: dict[ClaimKey, Mapping[DeviceID, _Results]] = {}
        self._holders: dict[DeviceID, dict[ClaimKey, _Results]] = {}
        self._devices = set(before.devices)
        self._shares: dict[DeviceID, set[ShareID]] = {}
        for share in before.shares:
            self._shares.setdefault(share.id, set()).add(share)
        self._capacity: dict[DeviceID, Mapping[str, Quantity]] = dict(before.capacity)
        self._shared = set(self._shares)
        # The type says frozen because an allocator must not change it; this one shows what is in use now. The search
        # asks for the shared devices only, which stand apart, never for the shares themselves.
        self.state = AllocatedState(
            cast("frozenset[DeviceID]", self._devices),
            frozenset(),
            self._capacity,
        )
        self.shared = cast("frozenset[DeviceID]", self._shared)

    def set_claim(self, claim: ResourceClaim) -> set[DeviceID]:
        """A claim as it is now; gives the devices of which it holds more or less than before."""
        return self._replace(_key(claim), _results(claim))

    def remove_claim(self, claim: ResourceClaim) -> set[DeviceID]:
        """A claim that is gone; gives the devices it held."""
        return self._replace(_key(claim), {})

    def snapshot(self) -> AllocatedState:
        """A copy that stays as it is."""
        shares = frozenset(share for shares in self._shares.values() for share in shares)
        return AllocatedState(frozenset(self._devices), shares, dict(self._capacity))

    def _replace(self, key: ClaimKey, new: Mapping[DeviceID, _Results]) -> set[DeviceID]:
        old = self._of_claim.get(key, {})
        touched = {device for device in {*old, *new} if old.get(device) != new.get(device)}
        if new:
            self._of_claim[key] = new
        else:
            self._of_claim.pop(key, None)
        for device in touched:
            holders = self._holders.setdefault(device, {})
            holders.pop(key, None)
            if device in new:
                holders[key] = new[device]
            self._renew(device, [one for results in holders.values() for one in results])
            if not holders:
                del self._holders[device]
        return touched

    def _renew(self, device: DeviceID, results: list[DeviceRequestAllocationResult]) -> None:
        """The state of one device, worked out again."""
        before = self._before
        shares = {share for share in before.shares if share.id == device} if before.shares else set()
        capacity = dict(before.capacity[device]) if device in before.capacity else None
        is_whole = device in before.devices
        for one in results:
            if not self._consumable_capacity or one.share_id is None:
                is_whole = True
                continue
            shares.add(ShareID(device, one.share_id))
            if one.consumed_capacity:
                capacity = {} if capacity is None else capacity
                for name, amount in one.consumed_capacity.items():
                    capacity[name] = capacity[name] + amount if name in capacity else amount
        self._write(device, is_whole, shares, capacity)

    def _write(
        self, device: DeviceID, is_whole: bool, shares: set[ShareID], capacity: dict[str, Quantity] | None
    ) -> None:
        (self._devices.add if is_whole else self._devices.discard)(device)
        self._shares.pop(device, None)
        self._shared.discard(device)
        self._capacity.pop(device, None)
        if shares:
            self._shares[device] = shares
            self._shared.add(device)
        if capacity is not None:
            self._capacity[device] = capacity


def _key(claim: ResourceClaim) -> ClaimKey:
    return claim.metadata.namespace, claim.metadata.name


def _results(claim: ResourceClaim) -> dict[DeviceID, _Results]:
    """By device; admin access holds nothing."""
    found: dict[DeviceID, _Results] = {}
    if claim.status.allocation is None:
        return found
    for one in claim.status.allocation.devices.results:
        if not one.admin_access:
            device = DeviceID(one.driver, one.pool, one.device)
            found[device] = (*found.get(device, ()), one)
    return found
