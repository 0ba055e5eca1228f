from __future__ import annotations

from pathlib import Path

import pytest

from dray.errors import HardwareError, NotFoundError
from dray.hardware.host_root import HostRoot
from dray.hardware.nvml.capabilities import gpu_instance_file, read_capability_node, read_mig_nodes
from dray.testing.host import Host


def test_the_nodes_of_a_mig_device(tmp_path: Path) -> None:
    host = Host(tmp_path)
    start = "/proc/driver/nvidia/capabilities/gpu1/mig/gi3"
    host.file(f"{start}/access", "DeviceFileMinor: 165\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
    host.file(f"{start}/ci0/access", "DeviceFileMinor: 166\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
    nodes = read_mig_nodes(HostRoot(tmp_path), 1, 3, 0)
    assert nodes == ("/dev/nvidia-caps/nvidia-cap165", "/dev/nvidia-caps/nvidia-cap166")
    with pytest.raises(NotFoundError):
        read_mig_nodes(HostRoot(tmp_path), 1, 3, 1)


def test_a_file_that_says_nothing_is_told(tmp_path: Path) -> None:
    path = gpu_instance_file(0, 7)
    Host(tmp_path).file(path, "DeviceFileMode: 292\n")
    with pytest.raises(HardwareError, match="names no DeviceFileMinor"):
        read_capability_node(HostRoot(tmp_path), path)
