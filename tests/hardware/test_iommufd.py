from __future__ import annotations

import os
from pathlib import Path

import pytest

from dray.errors import HardwareError
from dray.hardware.host_root import HostRoot
from dray.hardware.iommufd import IOMMU_OPTION, check_iommufd, open_iommufd
from dray.hardware.vfio import IOMMUFD
from dray.testing.host import Host

# No kernel here has iommufd, so what is seen is how each refusal is told; success takes Linux 6.2 with CONFIG_IOMMUFD.


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def test_a_host_without_it(tmp_path: Path) -> None:
    with pytest.raises(
        HardwareError, match=r"does not support iommufd: /dev/iommu does not exist; .*CONFIG_IOMMUFD"
    ):
        open_iommufd(HostRoot(tmp_path), IOMMUFD)
    with pytest.raises(HardwareError, match="does not support iommufd") as caught:
        check_iommufd(HostRoot(tmp_path), IOMMUFD)
    assert caught.value.path == IOMMUFD


def test_another_character_device_does_not_know_the_request() -> None:
    before = descriptors()
    with pytest.raises(
        HardwareError, match=r"cannot set up /dev/null for a container \(ENOTTY\): no iommufd"
    ):
        open_iommufd(HostRoot(Path("/")), "/dev/null")
    assert descriptors() == before
    assert divmod(IOMMU_OPTION, 256) == (ord(";"), 0x87)  # as <linux/iommufd.h> numbers it


def test_only_a_character_device_is_opened(tmp_path: Path) -> None:
    host, root = Host(tmp_path), HostRoot(tmp_path)
    node = host.char_device(IOMMUFD, 10, 125)  # a plain file that stands for one
    check_iommufd(root, IOMMUFD)
    with pytest.raises(HardwareError, match="cannot open /dev/iommu for a container: it is not a character"):
        open_iommufd(root, IOMMUFD)
    node.remove()
    (tmp_path / "dev").mkdir(exist_ok=True)
    os.mkfifo(tmp_path / "dev/iommu")
    with pytest.raises(HardwareError, match="not a device node"):
        open_iommufd(root, IOMMUFD)


def test_a_link_does_not_lead_out_of_the_host(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/iommu").symlink_to("../../../../../../../../dev/null")
    with pytest.raises(HardwareError, match="/dev/iommu does not exist"):
        open_iommufd(HostRoot(tmp_path), IOMMUFD)
