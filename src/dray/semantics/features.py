"""Kubernetes' feature gates that Dray acts on: what each release does with them, and which of them are on.

Every part reads the same `--feature-gates` (`parse_feature_gates`), adds the defaults of a Kubernetes release
(`enabled_gates`), and looks whether a gate is in the set that comes out.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from dray.errors import InvalidError

FLAG: Final = "--feature-gates"
RELEASES: Final = (34, 35, 36, 37)
"""The minor numbers of the Kubernetes releases that Dray works with."""
_ALIKE: Final = 0.7


class Gate(StrEnum):
    """By their names in Kubernetes, in the order in which they are listed."""

    ADMIN_ACCESS = "DRAAdminAccess"
    CONSUMABLE_CAPACITY = "DRAConsumableCapacity"
    DEVICE_BINDING_CONDITIONS = "DRADeviceBindingConditions"
    DEVICE_TAINT_RULES = "DRADeviceTaintRules"
    DEVICE_TAINTS = "DRADeviceTaints"
    EXTENDED_RESOURCE = "DRAExtendedResource"
    LIST_TYPE_ATTRIBUTES = "DRAListTypeAttributes"
    NODE_ALLOCATABLE_RESOURCES = "DRANodeAllocatableResources"
    PARTITIONABLE_DEVICES = "DRAPartitionableDevices"
    PRIORITIZED_LIST = "DRAPrioritizedList"
    RESOURCE_CLAIM_DEVICE_STATUS = "DRAResourceClaimDeviceStatus"
    WORKLOAD_RESOURCE_CLAIMS = "DRAWorkloadResourceClaims"


class Stage(StrEnum):
    """How much Kubernetes promises about a feature."""

    ALPHA = "alpha"
    BETA = "beta"
    GA = "GA"


class Graduation(NamedTuple):
    """What a gate is from Kubernetes 1.`minor` on."""

    minor: int
    stage: Stage
    default: bool


EnabledGates: TypeAlias = frozenset[Gate]
GateSwitches: TypeAlias = Mapping[Gate, bool]
"""What somebody said by hand; other gates are as in the release."""
NO_SWITCHES: Final[GateSwitches] = MappingProxyType({})

_ALPHA, _BETA, _GA = Stage.ALPHA, Stage.BETA, Stage.GA
_GRADUATIONS: Final[Mapping[Gate, tuple[Graduation, ...]]] = {
    Gate.ADMIN_ACCESS: (
        Graduation(32, _ALPHA, False),
        Graduation(34, _BETA, True),
        Graduation(36, _GA, True),
    ),
    Gate.CONSUMABLE_CAPACITY: (Graduation(34, _ALPHA, False), Graduation(36, _BETA, True)),
    Gate.DEVICE_BINDING_CONDITIONS: (Graduation(34, _ALPHA, False), Graduation(36, _BETA, True)),
    Gate.DEVICE_TAINT_RULES: (
        Graduation(35, _ALPHA, False),
        Graduation(36, _BETA, False),
        Graduation(37, _GA, True),
    ),
    Gate.DEVICE_TAINTS: (
        Graduation(33, _ALPHA, False),
        Graduation(36, _BETA, True),
        Graduation(37, _GA, True),
    ),
    Gate.EXTENDED_RESOURCE: (
        Graduation(34, _ALPHA, False),
        Graduation(36, _BETA, True),
        Graduation(37, _GA, True),
    ),
    Gate.LIST_TYPE_ATTRIBUTES: (Graduation(36, _ALPHA, False),),
    Gate.NODE_ALLOCATABLE_RESOURCES: (Graduation(36, _ALPHA, False),),
    Gate.PARTITIONABLE_DEVICES: (Graduation(33, _ALPHA, False), Graduation(36, _BETA, True)),
    Gate.PRIORITIZED_LIST: (
        Graduation(33, _ALPHA, False),
        Graduation(34, _BETA, True),
        Graduation(36, _GA, True),
    ),
    Gate.RESOURCE_CLAIM_DEVICE_STATUS: (
        Graduation(32, _ALPHA, False),
        Graduation(33, _BETA, True),
        Graduation(37, _GA, True),
    ),
    Gate.WORKLOAD_RESOURCE_CLAIMS: (Graduation(36, _ALPHA, False), Graduation(37, _BETA, False)),
}
"""As in Kubernetes' `pkg/features/kube_features.go`."""
_NEEDS: Final = {
    Gate.DEVICE_TAINT_RULES: Gate.DEVICE_TAINTS,
    Gate.DEVICE_BINDING_CONDITIONS: Gate.RESOURCE_CLAIM_DEVICE_STATUS,
}
"""Gates that do nothing without another one."""


def graduation(gate: Gate, minor: int) -> Graduation | None:
    """What the gate is in Kubernetes 1.`minor`; None where that release does not have it."""
    return next((one for one in reversed(_GRADUATIONS[gate]) if one.minor <= minor), None)


def parse_feature_gates(text: str) -> dict[Gate, bool]:
    """Read `GATE=true,OTHER=false`; the last word about a gate counts. InvalidError for a gate that Dray does not know."""
    switches: dict[Gate, bool] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, _, value = (one.strip() for one in part.partition("="))
        gate = _gate_named(name)
        if value.lower() not in ("true", "false"):
            raise InvalidError(f"{FLAG}: {part!r} must be {gate}=true or {gate}=false", field=FLAG)
        switches[gate] = value.lower() == "true"
    return switches


def enabled_gates(switches: GateSwitches = NO_SWITCHES, *, minor: int = RELEASES[-1]) -> EnabledGates:
    """The features that are on: the defaults of Kubernetes 1.`minor`, but for what was switched.

    A gate that needs another one is on only where that is on too.
    """
    on = {gate for gate in Gate if switches.get(gate, _is_default(gate, minor))}
    return frozenset(gate for gate in on if _NEEDS.get(gate, gate) in on)


def _is_default(gate: Gate, minor: int) -> bool:
    found = graduation(gate, minor)
    return found is not None and found.default


def _gate_named(name: str) -> Gate:
    try:
        return Gate(name)
    except ValueError:
        lower = {gate.lower(): gate for gate in Gate}
        near = get_close_matches(name.lower(), list(lower), n=1, cutoff=_ALIKE)
        hint = f"did you mean {lower[near[0]]}? There" if near else "there"
        known = ", ".join(Gate)
        raise InvalidError(f"{FLAG}: no gate {name!r}: {hint} are {known}", field=FLAG) from None
