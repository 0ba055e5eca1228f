from __future__ import annotations

import pytest

from dray.testing.check.plugin.allocate import (
    cdi_faults,
    environment_faults,
    is_qualified,
    path_faults,
    permission_faults,
)
from dray.wire.gen.deviceplugin_v1beta1_pb2 import CDIDevice, ContainerAllocateResponse, DeviceSpec, Mount


@pytest.mark.parametrize(
    ("name", "is_good"),
    [
        ("vendor.com/class=dev0", True),
        ("v/c=0:1.2", True),
        ("vendor.com/class", False),
        ("class=dev", False),
        ("vendor.com/cl.ass=dev", True),
        ("1vendor/class=dev", False),
        ("vendor.com/class=", False),
        ("/class=dev", False),
    ],
)
def test_names_of_cdi_devices(name: str, is_good: bool) -> None:
    assert is_qualified(name) is is_good
    answer = ContainerAllocateResponse(cdi_devices=[CDIDevice(name=name)])
    assert bool(cdi_faults(answer)) is not is_good


@pytest.mark.parametrize(
    ("permissions", "faults"), [("r", 0), ("rwm", 0), ("mrw", 0), ("", 1), ("rx", 1), ("rr", 1), ("RW", 1)]
)
def test_permissions(permissions: str, faults: int) -> None:
    answer = ContainerAllocateResponse(devices=[DeviceSpec(permissions=permissions)])
    assert len(permission_faults(answer)) == faults


def test_paths() -> None:
    answer = ContainerAllocateResponse(
        devices=[DeviceSpec(host_path="/dev/a", container_path="dev/b")],
        mounts=[Mount(host_path="", container_path="/c")],
    )
    assert path_faults(answer) == ["'' is not an absolute path", "'dev/b' is not an absolute path"]


def test_variables() -> None:
    answer = ContainerAllocateResponse(envs={"A": "b=c", "B=": "x", "": "y", "C": "\0"})
    assert len(environment_faults(answer)) == 3
