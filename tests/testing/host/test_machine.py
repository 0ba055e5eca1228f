from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dray.errors import ConflictError, InvalidError, NotFoundError
from dray.testing.host import Host, MdevType, PciFunction
from tests.testing.host.sysfs_shape import record


def build(root: Path) -> Host:
    host = Host(root)
    host.numa_node(0, cpus="0-3")
    host.char_device("/dev/kvm", 10, 232)
    gpu = host.pci(
        "0000:05:00.0", vendor="10de", device="1eb8", driver="nvidia", iommu_group=12, sriov_total=4
    )
    gpu.vf(driver="vfio-pci")
    parent = host.mdev_parent(gpu, {"nvidia-222": MdevType(16, "GRID T4-1B")})
    parent.create("nvidia-222", "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001")
    host.usb("1-2.3", vendor="46f4", product="0001")
    return host


@pytest.fixture
def gpu(tmp_path: Path) -> PciFunction:
    return Host(tmp_path).pci("0000:05:00.0", vendor="10de", device="2330", driver="vfio-pci", iommu_group=12)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = Host(tmp_path)
    host.pci("0000:05:00.0", vendor="10de", device="2330", driver="vfio-pci", iommu_group=12)
    return host


def test_the_same_lines_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        build(tmp_path / name)
    assert record(tmp_path / "a", ["sys", "dev", "proc"]) == record(tmp_path / "b", ["sys", "dev", "proc"])


def test_a_missing_root_is_made(tmp_path: Path) -> None:
    assert Host(tmp_path / "deep" / "root").root.is_dir()


def test_file_and_link(host: Host) -> None:
    assert host.file("/proc/cmdline", "intel_iommu=on").read_text() == "intel_iommu=on\n"
    assert host.file("proc/cmdline", b"raw", mode=0o600).read_bytes() == b"raw"
    assert os.readlink(host.link("/dev/core", "/proc/kcore")) == "/proc/kcore"
    assert os.readlink(host.link("/dev/core", "../etc")) == "../etc"


def test_garbage_keeps_the_other_files(host: Host) -> None:
    device = "/sys/bus/pci/devices/0000:05:00.0"
    host.garbage(f"{device}/vendor")
    with pytest.raises(UnicodeDecodeError):
        (host.root / device[1:] / "vendor").read_text()
    assert (host.root / device[1:] / "device").read_text() == "0x2330\n"
    host.garbage(f"{device}/numa_node", b"")
    assert (host.root / device[1:] / "numa_node").read_bytes() == b""


def test_unreadable_fails_for_root_too(host: Host) -> None:
    host.unreadable("sys/bus/pci/devices/0000:05:00.0/uevent")
    with pytest.raises(IsADirectoryError):
        (host.root / "sys/bus/pci/devices/0000:05:00.0/uevent").read_text()


def test_deny_takes_all_permissions(host: Host) -> None:
    path = host.root / "sys/bus/pci/devices/0000:05:00.0/uevent"
    host.deny(path)
    assert path.stat().st_mode & 0o777 == 0
    if os.geteuid() != 0:
        with pytest.raises(PermissionError):
            path.read_text()


def test_dangle_and_vanish(host: Host) -> None:
    link = "sys/bus/pci/devices/0000:05:00.0/iommu_group"
    host.dangle(link)
    assert (host.root / link).is_symlink()
    assert not (host.root / link).exists()
    with pytest.raises(InvalidError, match="not a link"):
        host.dangle("sys/bus/pci/devices/0000:05:00.0/vendor")
    host.vanish(link)
    assert not (host.root / link).is_symlink()


@pytest.mark.parametrize("verb", [Host.garbage, Host.deny, Host.unreadable, Host.dangle, Host.vanish])
def test_nothing_is_broken_that_is_not_there(host: Host, verb: Callable[[Host, str], None]) -> None:
    with pytest.raises(NotFoundError, match="sys/nothing"):
        verb(host, "sys/nothing")


def test_settle_needs_active(host: Host) -> None:
    with pytest.raises(ConflictError, match="active"):
        host.settle()
    with host.active(), pytest.raises(ConflictError, match="one active"), host.active():
        pass


def test_handles_say_what_they_are(gpu: PciFunction) -> None:
    assert repr(gpu) == "<PciFunction 0000:05:00.0 10de:2330 vfio-pci>"
