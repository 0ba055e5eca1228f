from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dray.errors import ConflictError, DeniedError
from dray.testing.host import Host


def test_a_misc_device_is_in_dev_sysfs_and_proc(tmp_path: Path) -> None:
    host = Host(tmp_path)
    kvm = host.char_device("/dev/kvm", 10, 232, mode=0o666)
    tun = host.char_device("/dev/net/tun", 10, 200)
    assert kvm.path == tmp_path / "dev/kvm"
    assert kvm.path.stat().st_mode & 0o777 == 0o666
    assert os.readlink(tmp_path / "sys/class/misc/tun") == "../../devices/virtual/misc/tun"
    assert (tmp_path / "sys/dev/char/10:200").resolve() == tmp_path / "sys/devices/virtual/misc/tun"
    assert (tmp_path / "sys/class/misc/tun/uevent").read_text() == "MAJOR=10\nMINOR=200\nDEVNAME=net/tun\n"
    assert (tmp_path / "proc/misc").read_text() == "200 tun\n232 kvm\n"
    assert " 10 misc\n" in (tmp_path / "proc/devices").read_text()
    for _ in range(2):
        tun.remove()
        assert not (tmp_path / "dev/net/tun").exists()
        assert not (tmp_path / "sys/class/misc/tun").is_symlink()
        assert not (tmp_path / "sys/dev/char/10:200").is_symlink()
    tun.restore()
    assert tun.path.exists()
    with pytest.raises(ConflictError, match="/dev/net/tun"):
        tun.restore()


def test_other_nodes(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.char_device("/dev/nvidia0", 195, 0, mode=0o666)
    host.block_device("/dev/vda", 254, 0)
    devices = (tmp_path / "proc/devices").read_text()
    assert "195 nvidia\n" in devices.partition("Block devices:")[0]
    assert "254 device254\n" in devices.partition("Block devices:")[2]
    assert not (tmp_path / "sys/class/misc").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
def test_real_nodes(tmp_path: Path) -> None:
    host = Host(tmp_path, real_nodes=True)
    null = host.char_device("/dev/null", 1, 3, mode=0o666)
    status = null.path.stat()
    assert stat.S_ISCHR(status.st_mode)
    assert (os.major(status.st_rdev), os.minor(status.st_rdev)) == (1, 3)
    assert status.st_mode & 0o777 == 0o666
    card = host.pci("0000:01:00.0", vendor="8086", device="10d3", driver="vfio-pci", iommu_group=9)
    assert stat.S_ISCHR((tmp_path / "dev/vfio/9").stat().st_mode)
    card.unplug()
    assert not (tmp_path / "dev/vfio/9").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may make device nodes")
def test_real_nodes_need_root(tmp_path: Path) -> None:
    with pytest.raises(DeniedError, match="root"):
        Host(tmp_path, real_nodes=True)
