from __future__ import annotations

import pytest

from dray.api.kubevirt import gates
from dray.api.kubevirt.types import (
    Configuration,
    DeveloperConfiguration,
    MediatedDevicesConfiguration,
    PersistentReservationConfiguration,
)


def _with(*on: str, off: tuple[str, ...] = ()) -> Configuration:
    developer = DeveloperConfiguration(feature_gates=on, disabled_feature_gates=off)
    return Configuration(developer_configuration=developer)


@pytest.mark.parametrize(
    ("gate", "configuration", "enabled"),
    [
        ("GPU", Configuration(), True),
        ("GPU", _with(off=("GPU",)), True),
        ("WorkloadEncryptionSEV", Configuration(), True),
        ("WorkloadEncryptionSEV", _with(off=("WorkloadEncryptionSEV",)), False),
        ("WorkloadEncryptionSEV", _with("WorkloadEncryptionSEV", off=("WorkloadEncryptionSEV",)), True),
        ("VSOCK", Configuration(), False),
        ("VSOCK", _with("VSOCK"), True),
        ("VSOCK", _with("VSOCK", off=("VSOCK",)), True),
        ("VSOCK", _with("vsock"), False),
        ("WorkloadEncryptionTDX", Configuration(), False),
        ("IOMMUFD", Configuration(), False),
        ("ConfigurableHypervisor", Configuration(), False),
        ("HostDevices", Configuration(), False),
        ("GPUsWithDRA", Configuration(), True),
        ("HostDevicesWithDRA", Configuration(), True),
        ("DisableMDEVConfiguration", Configuration(), False),
        ("DisableMDEVConfiguration", _with("DisableMDEVConfiguration"), True),
        ("NoSuchGate", _with("NoSuchGate"), False),
    ],
)
def test_gates(gate: str, configuration: Configuration, enabled: bool) -> None:
    assert gates.is_enabled(gate, configuration) is enabled


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize(
    ("section", "without_gate", "with_gate"),
    [
        (None, True, False),
        (MediatedDevicesConfiguration(), True, False),
        (MediatedDevicesConfiguration(enabled=True), True, True),
        (MediatedDevicesConfiguration(enabled=False), False, False),
    ],
)
def test_mdev_handling(
    section: MediatedDevicesConfiguration | None, without_gate: bool, with_gate: bool, listed: bool
) -> None:
    developer = DeveloperConfiguration(feature_gates=(gates.DISABLE_MDEV,) if listed else ())
    configuration = Configuration(mediated_devices_configuration=section, developer_configuration=developer)
    assert gates.is_mdev_handling_enabled(configuration) is (with_gate if listed else without_gate)


@pytest.mark.parametrize(
    ("enabled", "listed", "expected"),
    [
        (None, False, False),
        (None, True, True),
        (True, False, True),
        (True, True, True),
        (False, False, False),
        (False, True, False),
    ],
)
def test_persistent_reservation(enabled: bool | None, listed: bool, expected: bool) -> None:
    """The gate is GA, yet it is not on by itself."""
    developer = DeveloperConfiguration(feature_gates=("PersistentReservation",) if listed else ())
    reservation = PersistentReservationConfiguration(enabled=enabled)
    configuration = Configuration(
        persistent_reservation_configuration=reservation, developer_configuration=developer
    )
    assert gates.is_persistent_reservation_enabled(configuration) is expected
    if enabled is None:
        alone = Configuration(developer_configuration=developer)
        assert gates.is_persistent_reservation_enabled(alone) is expected
