"""Discovery on what real kernels showed: a recorded Linux 6.1 guest, and the machine under this test."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from dray.hardware.host_root import HostRoot
from dray.hardware.iommu import read_iommu_groups
from dray.hardware.mdev import Mdev, MdevType, read_mdev_parents, read_mdevs
from dray.hardware.numa import read_numa
from dray.hardware.pci import PciFunction, Sriov, read_pci
from dray.hardware.usb import read_usb
from dray.hardware.vfio import read_vfio

SHAPES = Path(__file__).parent.parent / "testing/host/data/linux-6.1-qemu.json"
RECORDED: dict[str, dict[str, dict[str, str]]] = json.loads(SHAPES.read_text())
THIS = HostRoot(Path("/"))


def rebuilt(root: Path, section: str) -> HostRoot:
    """The recorded part as files; a plain file stands for a node."""
    for name, entry in RECORDED[section].items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if "link" in entry:
            place.symlink_to(entry["link"])
        elif "dir" in entry:
            place.mkdir(exist_ok=True)
        else:
            place.write_text(entry.get("text", ""))
    return HostRoot(root)


def test_vfio(tmp_path: Path) -> None:
    root = rebuilt(tmp_path, "vfio")
    functions = {function.address: function for function in read_pci(root).items}
    assert functions["0000:01:00.0"] == PciFunction(
        address="0000:01:00.0",
        vendor="8086",
        device="10d3",
        class_code="020000",
        subsystem_vendor="8086",
        subsystem_device="0000",
        revision="00",
        driver="vfio-pci",
        iommu_group=9,
        pcie_root="pci0000:00",
        bridge="0000:00:04.0",
        vfio_devices=("vfio0",),
    )
    vfio = read_vfio(root)
    assert (vfio.has_container, vfio.groups, vfio.devices) == (True, (9,), ())
    groups = {group.id: group for group in read_iommu_groups(root, functions.values()).items}
    assert groups[9].pci == ("0000:01:00.0", "0000:01:00.1")
    assert (groups[9].is_viable, groups[9].has_node) == (True, True)


def test_sriov(tmp_path: Path) -> None:
    """The recording has the devices without their bus."""
    root = rebuilt(tmp_path, "sriov")
    devices = tmp_path / "sys/bus/pci/devices"
    devices.mkdir(parents=True, exist_ok=True)
    for place in (tmp_path / "sys/devices/pci0000:00/0000:00:05.0").iterdir():
        if (place / "uevent").exists() and not (devices / place.name).exists():
            (devices / place.name).symlink_to(f"../../../devices/pci0000:00/0000:00:05.0/{place.name}")
    functions = {function.address: function for function in read_pci(root).items}
    assert functions["0000:02:00.0"].sriov == Sriov(2, ("0000:02:00.1", "0000:02:00.2"))
    assert functions["0000:02:00.0"].driver == "nvme"
    virtual = [function for function in functions.values() if function.is_virtual]
    assert all(function.physical_function == "0000:02:00.0" for function in virtual)


def test_mdev(tmp_path: Path) -> None:
    root = rebuilt(tmp_path, "mdev")
    parents = read_mdev_parents(root)
    assert parents.problems == ()
    (parent,) = parents.items
    assert (parent.name, parent.types[0].id) == ("mtty", "mtty-1")
    single = parent.types[0]
    assert single == MdevType(
        "mtty-1", "Single_port_serial", single.available, "Single port serial", "", "vfio-pci"
    )
    mdevs = {mdev.uuid: mdev for mdev in read_mdevs(root).items}
    uuid = "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"
    assert mdevs[uuid] == Mdev(uuid, "mtty-1", "Single_port_serial", "mtty", 13, None, ("vfio3",))


def test_usb(tmp_path: Path) -> None:
    found = read_usb(rebuilt(tmp_path, "usb"))
    assert found.problems == ()
    keyboard, hub, tablet = found.items
    assert (keyboard.port, keyboard.id, keyboard.serial, keyboard.text) == (
        "1-1",
        "0627:0001",
        "KBD42",
        "QEMU USB Keyboard",
    )
    assert (hub.is_hub, keyboard.is_hub, tablet.port) == (True, False, "1-2.3")
    assert all(device.has_node and device.controller == "0000:00:02.0" for device in found.items)


def test_numa(tmp_path: Path) -> None:
    """The recording left meminfo out: its text changes all the time."""
    found = read_numa(rebuilt(tmp_path, "numa"))
    assert [(node.id, node.cpus) for node in found.items] == [(0, (0,)), (1, (1,))]


def test_this_machine_has_no_problems() -> None:
    functions = read_pci(THIS)
    assert functions.problems == ()
    assert read_iommu_groups(THIS, functions.items).problems == ()
    assert read_numa(THIS).problems == ()
    assert read_usb(THIS).problems == ()
    assert read_mdevs(THIS).problems == read_mdev_parents(THIS).problems == ()
    assert read_vfio(THIS).problems == ()


@pytest.mark.skipif(not Path("/sys/bus/pci/devices").exists(), reason="this machine has no PCI")
def test_the_functions_of_this_machine() -> None:
    functions = read_pci(THIS).items
    places = sorted(Path("/sys/bus/pci/devices").iterdir())
    assert [function.address for function in functions] == [place.name for place in places]
    for function, place in zip(functions, places, strict=True):
        assert function.id == ":".join((place / name).read_text()[2:6] for name in ("vendor", "device"))
        assert f"0x{function.class_code}\n" == (place / "class").read_text()
        assert (function.driver or "driver") == (place / "driver").resolve().name
        assert str(place.resolve()).startswith(f"/sys/devices/{function.pcie_root}/")


@pytest.mark.skipif(shutil.which("lspci") is None, reason="lspci (pciutils) is not installed")
def test_lspci_agrees() -> None:
    done = subprocess.run(["lspci", "-Dn"], capture_output=True, text=True, check=True)
    told = {line.split()[0]: line.split()[2] for line in done.stdout.splitlines()}
    assert {function.address: function.id for function in read_pci(THIS).items} == told
