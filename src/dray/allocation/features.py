"""Which features are on, and which of Kubernetes' three allocators that picks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final

from dray.allocation.faults import AllocationError
from dray.allocation.profiles import Profile


class Tier(StrEnum):
    """Kubernetes' allocators, the most proven first."""

    STABLE = "stable"
    INCUBATING = "incubating"
    EXPERIMENTAL = "experimental"


@dataclass(frozen=True, slots=True)
class Features:
    """The optional behaviour of one allocator. Several gates may stand behind one member."""

    admin_access: bool = False
    prioritized_list: bool = False
    partitionable_devices: bool = False
    device_taints: bool = False
    device_binding_and_status: bool = False
    consumable_capacity: bool = False
    list_type_attributes: bool = False
    device_taint_rules: bool = False
    """Whether DeviceTaintRules count. It is decided before an allocator sees the slices, so no tier depends on it."""

    @staticmethod
    def named(names: Iterable[str]) -> Features:
        """The features with these names, as the allocator prints them; a name it does not know raises."""
        members = {name: member for member, name in NAMES.items()}
        wanted = set(names)
        if unknown := sorted(wanted - members.keys()):
            known = ", ".join(sorted(members))
            raise AllocationError(f"unknown feature {unknown[0]!r}: the allocator has {known}")
        return Features(**{members[name]: True for name in sorted(wanted)})

    @property
    def names(self) -> tuple[str, ...]:
        """The names of those that are on and that allocators know, sorted."""
        on = (field.name for field in fields(self) if getattr(self, field.name))
        return tuple(sorted(NAMES[name] for name in on if name in NAMES))


NAMES: Final = {
    "admin_access": "DRAAdminAccess",
    "prioritized_list": "DRAPrioritizedList",
    "partitionable_devices": "DRAPartitionableDevices",
    "device_taints": "DRADeviceTaints",
    "device_binding_and_status": "DRADeviceBindingConditions+DRAResourceClaimDeviceStatus",
    "consumable_capacity": "DRAConsumableCapacity",
    "list_type_attributes": "DRAListTypeAttributes",
}

NO_FEATURES: Final = Features()
ALL_FEATURES: Final = Features(**dict.fromkeys(NAMES, True))

_STABLE: Final = Features(
    admin_access=True, prioritized_list=True, partitionable_devices=True, device_taints=True
)
_INCUBATING: Final = Features(
    admin_access=True,
    prioritized_list=True,
    partitionable_devices=True,
    device_taints=True,
    device_binding_and_status=True,
    consumable_capacity=True,
)
SUPPORTED: Final = {
    Tier.STABLE: _STABLE,
    Tier.INCUBATING: _INCUBATING,
    Tier.EXPERIMENTAL: ALL_FEATURES,
}


def tier(features: Features, allowed: Iterable[Tier] = tuple(Tier)) -> Tier:
    """The first of the allowed tiers that has every feature; raises where none has."""
    enabled = set(allowed)
    wanted = set(features.names)
    for one, supported in SUPPORTED.items():
        if one in enabled and wanted.issubset(supported.names):
            return one
    shown = ", ".join(one for one in Tier if one in enabled)
    wanted_text = ", ".join(features.names)
    raise AllocationError(
        f"internal error: no allocator available for feature set {wanted_text}, enabled allocators: {shown}"
    )


def features_of_gates(gates: Mapping[str, bool], profile: Profile) -> Features:
    """What a scheduler with these feature gates asks of its allocator. Gates that are not named are off."""

    def on(*names: str) -> bool:
        return all(gates.get(name, False) for name in names)

    return Features(
        admin_access=on("DRAAdminAccess"),
        prioritized_list=on("DRAPrioritizedList"),
        partitionable_devices=on("DRAPartitionableDevices"),
        device_taints=on("DRADeviceTaints"),
        device_taint_rules=on("DRADeviceTaints", "DRADeviceTaintRules"),
        device_binding_and_status=on("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"),
        consumable_capacity=on("DRAConsumableCapacity"),
        list_type_attributes=on("DRAListTypeAttributes") and not profile.lists_unreachable,
    )
