from __future__ import annotations

from pathlib import Path

from dray.hardware.host_root import HostRoot
from dray.hardware.pci import read_pci
from dray.hardware.vfio import Vfio, device_path, group_path, read_vfio
from dray.testing.host import Host
from dray.testing.host.iommu import VfioStyle

NOTHING = Vfio(has_container=False, has_iommufd=False, groups=(), noiommu_groups=(), devices=())


def built(path: Path, style: VfioStyle) -> HostRoot:
    host = Host(path, vfio=style)
    for bus, group in ((5, 12), (6, 9)):
        host.pci(f"0000:{bus:02}:00.0", vendor="10de", device="2330", driver="vfio-pci", iommu_group=group)
    return HostRoot(path)


def test_a_host_without_vfio(tmp_path: Path) -> None:
    assert read_vfio(HostRoot(tmp_path)) == NOTHING


def test_groups_only(tmp_path: Path) -> None:
    vfio = read_vfio(built(tmp_path, "group"))
    assert vfio == Vfio(has_container=True, has_iommufd=False, groups=(9, 12), noiommu_groups=(), devices=())


def test_names_in_sysfs_without_nodes(tmp_path: Path) -> None:
    """Linux 6.1: nothing may be promised to a container that is not in /dev."""
    root = built(tmp_path, "devices")
    vfio, function = read_vfio(root), read_pci(root).items[0]
    assert function.vfio_devices == ("vfio0",)
    assert vfio.device_paths(function.vfio_devices) == ()


def test_nodes_for_each_device(tmp_path: Path) -> None:
    root = built(tmp_path, "cdev")
    vfio, function = read_vfio(root), read_pci(root).items[0]
    assert (vfio.has_iommufd, vfio.devices) == (True, ("vfio0", "vfio1"))
    assert vfio.device_paths(function.vfio_devices) == ("/dev/vfio/devices/vfio0",)


def test_groups_without_protection_are_apart(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.char_device("/dev/vfio/noiommu-3", 246, 0)
    host.char_device("/dev/vfio/odd", 246, 1)
    vfio = read_vfio(HostRoot(tmp_path))
    assert (vfio.groups, vfio.noiommu_groups, vfio.problems) == ((), (3,), ())


def test_what_is_no_node_does_not_count(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.tree.mkdir("dev/vfio/7")
    host.link("/dev/vfio/8", "/dev/none")
    host.link("/dev/vfio/9", "9")
    vfio = read_vfio(HostRoot(tmp_path))
    assert vfio.groups == ()
    assert [problem.path for problem in vfio.problems] == ["/dev/vfio/9"]


def test_a_file_in_place_of_the_directory_is_told(tmp_path: Path) -> None:
    Host(tmp_path).file("/dev/vfio", "")
    assert {problem.path for problem in read_vfio(HostRoot(tmp_path)).problems} >= {"/dev/vfio"}


def test_paths() -> None:
    assert group_path(12) == "/dev/vfio/12"
    assert device_path("vfio0") == "/dev/vfio/devices/vfio0"
