from __future__ import annotations

import pytest

from dray.cdi.edits import ContainerEdits, DeviceNode
from dray.drivers.contract import Device, Health, Prepared
from dray.drivers.sim.prepare import prepare
from dray.errors import NotFoundError


def device(number: int) -> Device:
    name = f"gpu-{number}"
    return Device(
        name,
        "sim",
        "example.com/gpu",
        Health.HEALTHY,
        paths=("/dev/null",),
        addresses=(name,),
        permissions="rw",
    )


def test_each_device_has_a_node_of_its_own_though_one_stands_for_all() -> None:
    assert prepare("example.com/gpu", [device(3), device(1), device(3)]) == Prepared(
        ContainerEdits(
            env=(("SIM_RESOURCE_EXAMPLE_COM_GPU", "gpu-3,gpu-1"),),
            device_nodes=(
                DeviceNode("/dev/null", "/dev/dray-sim/gpu-3", "rw"),
                DeviceNode("/dev/null", "/dev/dray-sim/gpu-1", "rw"),
            ),
        ),
        required=("/dev/null",),
    )


def test_devices_that_are_gone_are_an_error() -> None:
    with pytest.raises(NotFoundError, match=r"example\.com/gpu exists any more: ask again"):
        prepare("example.com/gpu", [])
