from __future__ import annotations

from pathlib import Path

import pytest

from dray.drivers.contract import Device, Discovery, Health
from dray.drivers.mdev import MdevDriver
from dray.drivers.mdev.config import MdevConfig, MdevSelector
from dray.errors import InvalidError
from dray.hardware.host_root import HostRoot
from dray.testing.host import Host, MdevParent, MdevType

UUID = "83b8f4f2-509f-382f-3c1e-e6bfe0fa{:04x}"
TYPES = {
    "nvidia-222": MdevType(16, "GRID T4-1Q"),
    "nvidia-223": MdevType(16, "GRID T4-2Q"),
    "i915-GVTg_V5_4": MdevType(16),
}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
def parent(host: Host) -> MdevParent:
    gpu = host.pci("0000:06:00.0", vendor="10de", device="1eb8", driver="nvidia", iommu_group=3, numa_node=1)
    return host.mdev_parent(gpu, TYPES)


def find(host: Host, *selectors: MdevSelector, everything: bool = False) -> Discovery:
    return MdevDriver(MdevConfig(selectors, everything)).discover(HostRoot(host.root))


def test_one_instance(host: Host, parent: MdevParent) -> None:
    parent.create("nvidia-222", UUID.format(1), iommu_group=71)
    assert find(host, MdevSelector("nvidia.com/GRID_T4-1Q", "GRID T4-1Q")).devices == (
        Device(
            "71",
            "mdev",
            "nvidia.com/GRID_T4-1Q",
            Health.HEALTHY,
            label=UUID.format(1),
            numa_node=1,
            iommu_group=71,
            pcie_root="pci0000:06",
            attributes={
                "mdevUUID": UUID.format(1),
                "parent": "0000:06:00.0",
                "type": "GRID_T4-1Q",
                "typeId": "nvidia-222",
                "uuid": UUID.format(1),
            },
            paths=("/dev/vfio/vfio", "/dev/vfio/71"),
            watch=("/dev/vfio/71",),
            addresses=(UUID.format(1),),
            name=f"mdev-{UUID.format(1)}",
            hardware=(f"mdev:{UUID.format(1)}",),
        ),
    )


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("GRID T4-1Q", ["71"]),
        ("GRID_T4-1Q", ["71"]),
        ("nvidia-223", ["72"]),
        ("i915-GVTg_V5_4", ["73"]),
        ("GRID T4", []),
        ("grid_t4-1q", []),
    ],
)
def test_a_type_is_meant_by_name_or_id(host: Host, parent: MdevParent, text: str, groups: list[str]) -> None:
    for index, name in enumerate(TYPES, 1):
        parent.create(name, UUID.format(index), iommu_group=70 + index)
    assert [device.id for device in find(host, MdevSelector("x/y", text)).devices] == groups


def test_two_types_may_share_a_resource(host: Host, parent: MdevParent) -> None:
    parent.create("nvidia-222", UUID.format(2), iommu_group=71)
    parent.create("nvidia-223", UUID.format(1), iommu_group=9)
    found = find(host, MdevSelector("x/y", "nvidia-222"), MdevSelector("x/y", "nvidia-223"))
    assert [(one.id, one.resource) for one in found.devices] == [("9", "x/y"), ("71", "x/y")]


def test_the_last_selector_wins(host: Host, parent: MdevParent) -> None:
    parent.create("nvidia-222", UUID.format(1), iommu_group=71)
    found = find(host, MdevSelector("x/a", "nvidia-222"), MdevSelector("x/b", "GRID T4-1Q"))
    assert [one.resource for one in found.devices] == ["x/b"]


def test_health_is_the_groups_node(host: Host, parent: MdevParent) -> None:
    parent.create("nvidia-222", UUID.format(1), iommu_group=71)
    host.vanish("/dev/vfio/71")
    (device,) = find(host, everything=True).devices
    assert (device.health, device.reason) == (Health.UNHEALTHY, "/dev/vfio/71 does not exist")


def test_instances_that_share_a_group_are_told(host: Host, parent: MdevParent) -> None:
    for index in (1, 2):
        parent.create("nvidia-222", UUID.format(index), iommu_group=71)
    found = find(host, everything=True)
    assert [one.label for one in found.devices] == [UUID.format(1)]
    assert f"{UUID.format(2)} is left out: it shares IOMMU group 71" in found.problems[-1].message


def test_a_host_without_mediated_devices_is_quiet(host: Host) -> None:
    found = find(host, everything=True)
    assert (found.devices, found.problems) == ((), ())


def test_a_selector_names_a_type() -> None:
    with pytest.raises(InvalidError, match="x/y"):
        MdevSelector("x/y", "")


def test_an_instance_in_the_group_of_a_pci_function_is_not_handed_out(host: Host, parent: MdevParent) -> None:
    """No kernel does that. Should one, the node would be handed out by two kinds."""
    parent.create("nvidia-222", UUID.format(1), iommu_group=3)
    (device,) = find(host, MdevSelector("x/y", "GRID T4-1Q")).devices
    assert device.health is Health.UNHEALTHY
    assert "shares IOMMU group 3 with 0000:06:00.0" in device.reason
