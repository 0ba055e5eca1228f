"""KubeVirt's feature gates: which are on, and the decisions that hang on them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from dray.api.kubevirt.types import Configuration, DeveloperConfiguration


class Stage(StrEnum):
    """How far a feature is; it decides whether the gate is on by itself."""

    ALPHA = "Alpha"
    BETA = "Beta"
    GA = "GA"
    DEPRECATED = "Deprecated"


SEV: Final = "WorkloadEncryptionSEV"
TDX: Final = "WorkloadEncryptionTDX"
VSOCK: Final = "VSOCK"
IOMMUFD: Final = "IOMMUFD"
CONFIGURABLE_HYPERVISOR: Final = "ConfigurableHypervisor"
DISABLE_MDEV: Final = "DisableMDEVConfiguration"
PERSISTENT_RESERVATION: Final = "PersistentReservation"

GATES: Final = {
    SEV: Stage.BETA,
    TDX: Stage.ALPHA,
    VSOCK: Stage.ALPHA,
    IOMMUFD: Stage.ALPHA,
    CONFIGURABLE_HYPERVISOR: Stage.ALPHA,
    DISABLE_MDEV: Stage.DEPRECATED,
    PERSISTENT_RESERVATION: Stage.GA,
    # These decide nothing about which devices are served; they are known so that asking for them is no surprise.
    "GPU": Stage.GA,
    "HostDevices": Stage.ALPHA,
    "GPUsWithDRA": Stage.BETA,
    "HostDevicesWithDRA": Stage.BETA,
}
"""The gates around devices with their stage in KubeVirt 1.9. A gate that is not here is off."""

_NOTHING_SET: Final = DeveloperConfiguration()


def is_enabled(gate: str, configuration: Configuration) -> bool:
    """Whether a gate is on: GA always, then what was switched on, then what was switched off, then beta; else off."""
    developer = configuration.developer_configuration or _NOTHING_SET
    stage = GATES.get(gate)
    if stage is None:
        return False
    if stage is Stage.GA or gate in developer.feature_gates:
        return True
    return stage is Stage.BETA and gate not in developer.disabled_feature_gates


def is_mdev_handling_enabled(configuration: Configuration) -> bool:
    """Whether mediated devices may be created and removed. The field wins; the old gate counts only without it."""
    mdevs = configuration.mediated_devices_configuration
    if mdevs is not None and mdevs.enabled is not None:
        return mdevs.enabled
    return not is_enabled(DISABLE_MDEV, configuration)


def is_persistent_reservation_enabled(configuration: Configuration) -> bool:
    """Whether pr-helper is served. The field wins; without it the gate must be listed, though it is GA."""
    reservation = configuration.persistent_reservation_configuration
    if reservation is not None and reservation.enabled is not None:
        return reservation.enabled
    developer = configuration.developer_configuration or _NOTHING_SET
    return PERSISTENT_RESERVATION in developer.feature_gates
