from __future__ import annotations

import os
from pathlib import Path

import pytest

from dray.errors import DeniedError, Error, HardwareError, InvalidError, NotFoundError
from dray.hardware.host_root import HostRoot, open_host_root
from dray.testing.host import Host


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = Host(tmp_path / "root")
    host.pci("0000:05:00.0", vendor="10de", device="2330", driver="vfio-pci", iommu_group=12)
    return host


@pytest.fixture
def root(host: Host) -> HostRoot:
    return HostRoot(host.root)


GPU = "/sys/bus/pci/devices/0000:05:00.0"


def test_it_reads_through_the_links_of_sysfs(root: HostRoot) -> None:
    assert root.read_text(f"{GPU}/vendor") == "0x10de"
    assert root.read_link(f"{GPU}/driver") == "../../../bus/pci/drivers/vfio-pci"
    assert root.names("/sys/bus/pci/devices") == ["0000:05:00.0"]
    assert "vendor" in root.names(GPU)
    assert root.stat(f"{GPU}/vendor").st_mode & 0o777 == 0o444
    assert root.exists(GPU)
    assert not root.exists("/sys/bus/usb")


def test_absolute_links_stay_below_the_root(host: Host, root: HostRoot) -> None:
    host.file("/etc/hostname", "inside")
    host.link("/dev/name", "/etc/hostname")
    host.link("/dev/up", "../../../../../../etc/hostname")
    assert root.read_text("/dev/name") == "inside"
    assert root.read_text("/dev/up") == "inside"
    host.link("/dev/out", str(Path(__file__).resolve()))
    assert not root.exists("/dev/out")


def test_loops_and_dangling_links(host: Host, root: HostRoot) -> None:
    host.link("/dev/loop", "/dev/loop")
    with pytest.raises(Error):
        root.read_text("/dev/loop")
    host.dangle(f"{GPU}/iommu_group")
    assert not root.exists(f"{GPU}/iommu_group")
    assert root.read_link(f"{GPU}/iommu_group").endswith("gone/iommu_group")


def test_what_cannot_be_read_says_which_file(host: Host, root: HostRoot) -> None:
    host.garbage(f"{GPU}/vendor")
    host.unreadable(f"{GPU}/uevent")
    host.garbage(f"{GPU}/class", b"x" * 5000)
    for name, kind in (
        ("vendor", HardwareError),
        ("uevent", HardwareError),
        ("class", HardwareError),
        ("no", NotFoundError),
    ):
        with pytest.raises(kind, match=name):
            root.read_text(f"{GPU}/{name}", limit=4096)
    with pytest.raises(InvalidError):
        root.read_text("/sys/../../etc/passwd")
    with pytest.raises(InvalidError):
        root.names(f"{GPU}/device")


def test_reading_a_device_node_is_refused(tmp_path: Path) -> None:
    """Opening one can have effects: a tape rewinds, a FIFO hangs."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Error, match="pipe"):
        HostRoot(tmp_path).read_text("/pipe")


def test_open_host_root(tmp_path: Path) -> None:
    assert open_host_root(str(tmp_path)).path == tmp_path
    assert open_host_root("/").is_this_host
    assert not open_host_root(str(tmp_path)).is_this_host
    (tmp_path / "file").touch()
    for bad in (str(tmp_path / "missing"), str(tmp_path / "file"), "", "a\0b"):
        with pytest.raises(InvalidError, match="--host-root"):
            open_host_root(bad)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_root_that_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    with pytest.raises(DeniedError, match="closed"):
        open_host_root(str(tmp_path / "closed"))
