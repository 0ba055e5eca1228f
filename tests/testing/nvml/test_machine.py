from __future__ import annotations

from pathlib import Path

import pytest

from dray.errors import NotFoundError
from dray.hardware.device_nodes import read_device_node
from dray.hardware.host_root import HostRoot
from dray.hardware.nvml.capabilities import read_mig_nodes
from dray.hardware.nvml.facts import Placement
from dray.hardware.nvml.library import has_driver
from dray.hardware.pci import read_pci
from dray.testing.host import Host
from dray.testing.nvml.machine import RECORDINGS, GpuMachine, recording


def test_every_recording_says_where_it_comes_from() -> None:
    names = sorted(path.stem for path in RECORDINGS.glob("*.json"))
    assert names == ["a100-mig", "eight-h100", "h200"]
    for name in names:
        about = recording(name).recording["about"]
        assert about.startswith("recorded on a real machine" if name == "h200" else "composed by hand")


def test_an_unknown_recording_names_the_known_ones() -> None:
    with pytest.raises(NotFoundError, match="a100-mig, eight-h100, h200"):
        recording("../../secret")


def test_the_files_go_with_the_cards(tmp_path: Path) -> None:
    GpuMachine(Host(tmp_path), recording("eight-h100"))
    root = HostRoot(tmp_path)
    assert has_driver(root)
    functions = [one for one in read_pci(root).items if one.vendor == "10de"]
    assert [(one.driver, one.numa_node) for one in functions] == [("nvidia", 0)] * 4 + [("nvidia", 1)] * 4
    for path in ("/dev/nvidiactl", "/dev/nvidia-uvm", *(f"/dev/nvidia{minor}" for minor in range(8))):
        read_device_node(root, path)


def test_the_kernels_files_follow_mig_devices(tmp_path: Path) -> None:
    machine = GpuMachine(Host(tmp_path), recording("h200"))
    root = HostRoot(tmp_path)
    with machine.cards.open() as nvml:
        handle = nvml.handle(0)
        nvml.set_mig_mode(handle, on=True)
        number = nvml.create_gpu_instance(handle, 19, Placement(0, 1))
        compute, _ = nvml.create_compute_instance(handle, number, 1)
        nodes = read_mig_nodes(root, 0, number, compute)
        assert nodes == ("/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13")
        for path in nodes:
            read_device_node(root, path)
        nvml.destroy_compute_instance(handle, number, compute)
        with pytest.raises(NotFoundError):
            read_mig_nodes(root, 0, number, compute)
