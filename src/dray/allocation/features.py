"""Which features are on, and which of Kubernetes' three allocators that picks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final

from dray.allocation.faults import AllocationError
from dray.allocation.profiles import CORRECT, KUBERNETES_1_36, Profile
from dray.semantics.features import NO_SWITCHES, EnabledGates, Gate, GateSwitches, enabled_gates


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
    "admin_access": Gate.ADMIN_ACCESS.value,
    "prioritized_list": Gate.PRIORITIZED_LIST.value,
    "partitionable_devices": Gate.PARTITIONABLE_DEVICES.value,
    "device_taints": Gate.DEVICE_TAINTS.value,
    "device_binding_and_status": f"{Gate.DEVICE_BINDING_CONDITIONS}+{Gate.RESOURCE_CLAIM_DEVICE_STATUS}",
    "consumable_capacity": Gate.CONSUMABLE_CAPACITY.value,
    "list_type_attributes": Gate.LIST_TYPE_ATTRIBUTES.value,
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


def gates_of(
    profile: Profile, switches: GateSwitches = NO_SWITCHES, *, has_served_rules: bool = False
) -> EnabledGates:
    """What is on for a scheduler with this profile: as in its release; with `correct` as in 1.37, and list attributes too.

    Taint rules also count where a server has some: nobody makes them for a scheduler without.
    """
    implied = {Gate.LIST_TYPE_ATTRIBUTES: True} if profile is CORRECT else {}
    if has_served_rules:
        implied[Gate.DEVICE_TAINT_RULES] = True
    return enabled_gates({**implied, **switches}, minor=36 if profile is KUBERNETES_1_36 else 37)


def features_of_gates(gates: EnabledGates, profile: Profile) -> Features:
    """What a scheduler with these gates asks of its allocator."""
    return Features(
        admin_access=Gate.ADMIN_ACCESS in gates,
        prioritized_list=Gate.PRIORITIZED_LIST in gates,
        partitionable_devices=Gate.PARTITIONABLE_DEVICES in gates,
        device_taints=Gate.DEVICE_TAINTS in gates,
        device_taint_rules=Gate.DEVICE_TAINT_RULES in gates,
        device_binding_and_status=Gate.DEVICE_BINDING_CONDITIONS in gates,
        consumable_capacity=Gate.CONSUMABLE_CAPACITY in gates,
        list_type_attributes=Gate.LIST_TYPE_ATTRIBUTES in gates and not profile.lists_unreachable,
    )


def features_for(
    profile: Profile, switches: GateSwitches = NO_SWITCHES, *, has_served_rules: bool = False
) -> Features:
    """The features of `gates_of`."""
    return features_of_gates(gates_of(profile, switches, has_served_rules=has_served_rules), profile)
