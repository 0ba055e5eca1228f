from __future__ import annotations

import os
from pathlib import Path

import pytest

from dray.errors import HardwareError, NotFoundError
from dray.hardware.device_nodes import DeviceNode, NodeKind, read_device_node
from dray.hardware.host_root import HostRoot
from dray.testing.host import Host


def test_the_nodes_of_this_machine() -> None:
    null = read_device_node(HostRoot(Path("/")), "/dev/null")
    assert (null.kind, null.major, null.minor, null.may_open) == (NodeKind.CHAR, 1, 3, True)


def test_a_plain_file_stands_for_a_node_in_a_tree(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.char_device("/dev/kvm", 10, 232, mode=0o666)
    node = read_device_node(HostRoot(tmp_path), "/dev/kvm")
    assert node == DeviceNode("/dev/kvm", NodeKind.STAND_IN, None, None, 0o666, may_open=True)


def test_a_plain_file_on_this_machine_is_no_device(tmp_path: Path) -> None:
    (tmp_path / "kvm").touch()
    with pytest.raises(HardwareError, match="not a device node"):
        read_device_node(HostRoot(Path("/")), str(tmp_path / "kvm"))


def test_other_things_are_no_devices(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    os.mkfifo(tmp_path / "dev/fifo")
    for path in ("/dev", "/dev/fifo"):
        with pytest.raises(HardwareError, match=path):
            read_device_node(HostRoot(tmp_path), path)
    with pytest.raises(NotFoundError):
        read_device_node(HostRoot(tmp_path), "/dev/none")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
def test_real_nodes_below_a_root(tmp_path: Path) -> None:
    host = Host(tmp_path, real_nodes=True)
    host.char_device("/dev/kvm", 10, 232)
    host.block_device("/dev/vda", 254, 3)
    host.link("/dev/disk", "/dev/vda")
    kvm = read_device_node(HostRoot(tmp_path), "/dev/kvm")
    assert (kvm.kind, kvm.major, kvm.minor, kvm.mode) == (NodeKind.CHAR, 10, 232, 0o600)
    disk = read_device_node(HostRoot(tmp_path), "/dev/disk")
    assert (disk.kind, disk.major, disk.minor) == (NodeKind.BLOCK, 254, 3)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open everything")
def test_a_node_that_this_user_may_not_open(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.char_device("/dev/kvm", 10, 232, mode=0o000)
    assert not read_device_node(HostRoot(tmp_path), "/dev/kvm").may_open
