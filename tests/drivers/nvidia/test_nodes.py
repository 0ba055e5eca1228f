from __future__ import annotations

from pathlib import Path

import pytest

from dray.drivers.nvidia.nodes import capability_minor, control_nodes, drm_nodes, gpu_minor, gpu_node
from dray.hardware.host_root import HostRoot
from dray.testing.host import Host

ADDRESS = "0000:05:00.0"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_control_nodes_as_far_as_modules_are_loaded(host: Host) -> None:
    root = HostRoot(host.root)
    assert control_nodes(root) == ()
    host.char_device("/dev/nvidia-uvm", 238, 0)
    host.char_device("/dev/nvidiactl", 195, 255)
    assert control_nodes(root) == ("/dev/nvidiactl", "/dev/nvidia-uvm")


def test_nodes_for_graphics(host: Host) -> None:
    root = HostRoot(host.root)
    assert drm_nodes(root, ADDRESS) == ()
    host.pci(ADDRESS, vendor="10de", device="2335", driver="nvidia")
    for name in ("card1", "renderD128", "controlD64", "version"):
        (host.root / f"sys/bus/pci/devices/{ADDRESS}/drm/{name}").mkdir(parents=True)
    host.char_device("/dev/dri/card1", 226, 1)
    assert drm_nodes(root, ADDRESS) == ("/dev/dri/card1",)
    host.char_device("/dev/dri/renderD128", 226, 128)
    assert drm_nodes(root, ADDRESS) == ("/dev/dri/card1", "/dev/dri/renderD128")
    assert drm_nodes(root, "../../etc") == ()


def test_minors() -> None:
    assert gpu_minor(gpu_node(12)) == 12
    assert capability_minor("/dev/nvidia-caps/nvidia-cap31") == 31
    for path in ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0/../sda", "/dev/nvidia\u0661", ""):
        assert gpu_minor(path) is None and capability_minor(path) is None
