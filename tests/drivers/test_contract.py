from __future__ import annotations

from collections.abc import Sequence
from dataclasses import FrozenInstanceError

import pytest

from dray.drivers.contract import Device, HasPreStart, Health
from tests.drivers.machine import DRIVERS


def test_a_device_is_a_value() -> None:
    device = Device("kvm", "generic", "devices.kubevirt.io/kvm", Health.HEALTHY)
    assert device == Device("kvm", "generic", "devices.kubevirt.io/kvm", Health.HEALTHY)
    with pytest.raises(FrozenInstanceError):
        device.id = "tun"  # type: ignore[misc]


def test_health_is_in_the_kubelets_words() -> None:
    assert [health.value for health in Health] == ["Healthy", "Unhealthy"]


@pytest.mark.parametrize(
    ("shares", "ids"), [(None, ("kvm",)), (1, ("kvm0",)), (3, ("kvm0", "kvm1", "kvm2")), (0, ())]
)
def test_a_shared_device_has_an_id_for_each_owner(shares: int | None, ids: tuple[str, ...]) -> None:
    device = Device("kvm", "generic", "devices.kubevirt.io/kvm", Health.HEALTHY, shares=shares)
    assert device.share_ids == ids


def test_pre_start_is_for_those_that_have_it() -> None:
    class Resetting:
        async def pre_start(self, resource: str, devices: Sequence[Device]) -> None:
            raise NotImplementedError

    assert isinstance(Resetting(), HasPreStart)
    assert not any(isinstance(driver, HasPreStart) for driver in DRIVERS.values())
