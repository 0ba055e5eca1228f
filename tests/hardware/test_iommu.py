from __future__ import annotations

from pathlib import Path

import pytest

from dray.hardware.facts import Found
from dray.hardware.host_root import HostRoot
from dray.hardware.iommu import GroupMember, IommuGroup, read_iommu_groups
from dray.hardware.pci import read_pci
from dray.testing.host import Host, MdevType

GROUPS = "/sys/kernel/iommu_groups"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A card with two functions in one group."""
    host = Host(tmp_path / "root")
    for function in (0, 1):
        host.pci(f"0000:05:00.{function}", vendor="10de", device="2330", driver="vfio-pci", iommu_group=12)
    return host


def read(host: Host) -> Found[IommuGroup]:
    root = HostRoot(host.root)
    return read_iommu_groups(root, read_pci(root).items)


def group(host: Host, number: int = 12) -> IommuGroup:
    return next(group for group in read(host).items if group.id == number)


def test_functions_that_share_a_group(host: Host) -> None:
    assert read(host) == Found(
        (
            IommuGroup(
                12,
                (GroupMember("0000:05:00.0", "vfio-pci"), GroupMember("0000:05:00.1", "vfio-pci")),
                "/dev/vfio/12",
                has_node=True,
            ),
        )
    )
    assert group(host).is_viable
    assert group(host).pci == ("0000:05:00.0", "0000:05:00.1")


def test_a_host_without_iommu(tmp_path: Path) -> None:
    assert read(Host(tmp_path)) == Found()


def test_groups_are_in_order_of_number(host: Host) -> None:
    for number in (9, 100, 2):
        host.pci(f"0000:{number:02x}:00.0", vendor="8086", device="1", iommu_group=number)
    assert [group.id for group in read(host).items] == [2, 9, 12, 100]


@pytest.mark.parametrize("driver", ["", "vfio-pci", "mlx5_vfio_pci", "pci-stub"])
def test_members_that_do_no_harm(host: Host, driver: str) -> None:
    host.pci("0000:05:00.2", vendor="10de", device="1", driver=driver, iommu_group=12)
    assert group(host).is_viable


def test_a_member_in_use_by_the_host(host: Host) -> None:
    host.pci("0000:05:00.2", vendor="10de", device="1", driver="snd_hda_intel", iommu_group=12)
    shared = group(host)
    assert not shared.is_viable
    assert shared.hazards == ("0000:05:00.2 is bound to snd_hda_intel: unbind it, or bind it to vfio-pci",)
    assert shared.has_node


def test_a_bridge_in_the_group_does_no_harm_whatever_its_driver(host: Host) -> None:
    host.pci_bridge("0000:00:04.0", bus=7, driver="shpchp", iommu_group=12)
    assert group(host).is_viable


def test_an_isa_bridge_is_no_pci_bridge(host: Host) -> None:
    host.pci(
        "0000:00:1f.0", vendor="8086", device="2918", class_code="060100", driver="lpc_ich", iommu_group=12
    )
    assert not group(host).is_viable


def test_a_vgpu_function_is_with_vfio_while_nvidia_has_it(host: Host) -> None:
    gpu = host.pci(
        "0000:41:00.0", vendor="10de", device="2331", driver="nvidia", iommu_group=20, sriov_total=4
    )
    gpu.vf(driver="nvidia", vgpu_types={256: "A40-4Q"}, iommu_group=21)
    assert (group(host, 20).is_viable, group(host, 21).is_viable) == (False, True)


def test_a_member_that_could_not_be_read_is_a_hazard(host: Host) -> None:
    """It may be in use: a group is handed out only when all is known."""
    host.unreadable("/sys/bus/pci/devices/0000:05:00.1/driver")
    assert not group(host).is_viable
    assert "0000:05:00.1" in group(host).hazards[0]


def test_without_a_vfio_driver_there_is_no_node(host: Host) -> None:
    host.pci("0000:06:00.0", vendor="8086", device="1", driver="e1000e", iommu_group=13)
    assert not group(host, 13).has_node


def test_members_that_are_not_pci(host: Host) -> None:
    parent = host.mdev_parent("mtty", {"mtty-1": MdevType(24, "Single port serial")})
    uuid = "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"
    parent.create("mtty-1", uuid, iommu_group=30)
    assert group(host, 30).members == (GroupMember(uuid, "mtty"),)
    assert (group(host, 30).is_viable, group(host, 30).pci) == (True, ())
    host.link(f"{GROUPS}/30/devices/smmu", "../../../../devices/platform/smmu")
    host.link("/sys/devices/platform/smmu/subsystem", "../../../bus/platform")
    host.link("/sys/devices/platform/smmu/driver", "../../../bus/platform/drivers/dwc3")
    assert group(host, 30).hazards == ("smmu is bound to dwc3: unbind it, or bind it to a vfio driver",)
    host.link("/sys/devices/platform/smmu/driver", "../../../bus/platform/drivers/vfio-platform")
    assert group(host, 30).is_viable
    host.dangle(f"{GROUPS}/30/devices/smmu")
    assert not group(host, 30).is_viable


def test_a_name_that_is_no_number_is_told(host: Host) -> None:
    host.tree.mkdir(f"{GROUPS[1:]}/odd")
    found = read(host)
    assert [group.id for group in found.items] == [12]
    assert [problem.path for problem in found.problems] == [f"{GROUPS}/odd"]


def test_a_group_whose_members_cannot_be_listed_is_left_out(host: Host) -> None:
    host.vanish(f"{GROUPS}/12/devices")
    host.file(f"{GROUPS}/12/devices", "no directory")
    found = read(host)
    assert found.items == ()
    assert len(found.problems) == 1
