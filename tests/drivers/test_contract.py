from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from dray.drivers.contract import Device, Health


def test_a_device_is_a_value() -> None:
    device = Device("kvm", "generic", "devices.kubevirt.io/kvm", Health.HEALTHY)
    assert device == Device("kvm", "generic", "devices.kubevirt.io/kvm", Health.HEALTHY)
    with pytest.raises(FrozenInstanceError):
        device.id = "tun"  # type: ignore[misc]


def test_health_is_in_the_kubelets_words() -> None:
    assert [health.value for health in Health] == ["Healthy", "Unhealthy"]
