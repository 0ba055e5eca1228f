"""What is in use already (whole devices, shares of devices, and how much of their capacity the shares take), and the
rules that stay the same while an allocator answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dray.allocation.features import Features, Tier
from dray.allocation.profiles import Profile
from dray.api.quantity import Quantity
from dray.api.resource.claim import ResourceClaim


class DeviceID(NamedTuple):
    """A device in the cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class ShareID(NamedTuple):
    """One share of a device that allows multiple allocations."""

    id: DeviceID
    share: str


@dataclass(frozen=True, slots=True)
class AllocatedState:
    """A snapshot. `devices` are given whole; `shares` and `capacity` belong to devices that are given in parts."""

    devices: frozenset[DeviceID] = frozenset()
    shares: frozenset[ShareID] = frozenset()
    capacity: Mapping[DeviceID, Mapping[str, Quantity]] = field(default_factory=dict)

    @staticmethod
    def of(claims: Iterable[ResourceClaim], *, consumable_capacity: bool = True) -> AllocatedState:
        """What these claims hold. Admin access holds nothing; without the feature a share is a whole device."""
        devices, shares = set[DeviceID](), set[ShareID]()
        capacity: dict[DeviceID, dict[str, Quantity]] = {}
        for claim in claims:
            if claim.status.allocation is None:
                continue
            for result in claim.status.allocation.devices.results:
                if result.admin_access:
                    continue
                device = DeviceID(result.driver, result.pool, result.device)
                if not consumable_capacity or result.share_id is None:
                    devices.add(device)
                    continue
                shares.add(ShareID(device, result.share_id))
                if result.consumed_capacity:
                    _add(capacity.setdefault(device, {}), result.consumed_capacity)
        return AllocatedState(frozenset(devices), frozenset(shares), capacity)

    def shared_devices(self) -> frozenset[DeviceID]:
        """The devices of which some share is given."""
        return frozenset(share.id for share in self.shares)


@dataclass(frozen=True, slots=True)
class Rules:
    """Made once for an allocator. `shared` are the devices of which some share is given."""

    features: Features
    tier: Tier
    profile: Profile
    allocated: AllocatedState
    shared: frozenset[DeviceID]

    @property
    def has_capacity(self) -> bool:
        """Whether capacity counts at all."""
        return self.features.consumable_capacity and self.tier is not Tier.STABLE

    def is_shared(self, device: DeviceID) -> bool:
        """Whether a share of the device was given before, so that its counters are charged already."""
        if device in self.allocated.capacity:
            return True
        return not self.profile.bare_shares_recharge and device in self.shared


def _add(total: dict[str, Quantity], more: Mapping[str, Quantity]) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount
