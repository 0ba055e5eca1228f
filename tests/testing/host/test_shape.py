"""The built tree against real kernels: one that was recorded file by file, and the one under this very test."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dray.testing.host import Host, MdevType, Sriov
from tests.testing.host.sysfs_shape import Shape, record

RECORDED: dict[str, Shape] = json.loads((Path(__file__).parent / "data/linux-6.1-qemu.json").read_text())

# What a kernel shows besides, and the builder leaves out: error counters, power, memory windows, other ports.
NOT_MODELLED = re.compile(
    r"/(aer_\w+|pools|l0s_aspm|resource\d|sriov_vf_msix_count|numastat|vmstat|sample_mdev_dev|ep_81.*|usbfs.*|"
    r"usb1-port\d.*|1-2-port\d.*)$|/[0-9a-f-]{36}/vendor$"
)
# Texts that hang on the very device (link speed), its age (urbnum) or the machine's size; names and modes must agree.
VARIES = re.compile(
    r"/(ari_enabled|\w+_link_speed|\w+_link_width|irq|power_state|resource|reset_method|d3cold_allowed|config|"
    r"local_cpu\w+|cpu\w*affinity|descriptors|bMax\w+|bmAttributes|configuration|maxchild|speed|urbnum|version|"
    r"bNumEndpoints|wMaxPacketSize|meminfo|revision|msi_bus|\w*dma_mask_bits)$|usb1/(manufacturer|product)$"
)


def vfio(host: Host) -> None:
    """Two functions of one card, in one IOMMU group, behind a root port, given to vfio-pci; and one elsewhere."""
    host.pci_bridge("0000:00:04.0", bus=1, iommu_group=4)
    host.pci_bridge("0000:40:00.0", bus=0x41, iommu_group=11)
    for address, group in (("0000:01:00.0", 9), ("0000:01:00.1", 9), ("0000:41:00.0", 12)):
        card = host.pci(
            address, vendor="8086", device="10d3", class_code="020000", driver="e1000e", iommu_group=group
        )
        card.bind("vfio-pci")


def sriov(host: Host) -> None:
    host.pci_bridge("0000:00:05.0", bus=2, iommu_group=5)
    nvme = host.pci(
        "0000:02:00.0",
        vendor="1b36",
        device="0010",
        class_code="010802",
        subsystem_vendor="1af4",
        subsystem_device="1100",
        driver="nvme",
        iommu_group=10,
        sriov=Sriov(total=2, offset=1),
    )
    nvme.vf(iommu_group=13)
    nvme.vf(iommu_group=14)


def mdev(host: Host) -> None:
    vfio(host)
    types = {"mtty-1": MdevType(24, "Single port serial"), "mtty-2": MdevType(12, "Dual port serial")}
    parent = host.mdev_parent("mtty", types)
    parent.create("mtty-1", "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001", iommu_group=13)
    parent.create("mtty-1", "83b8f4f2-509f-382f-3c1e-e6bfe0fa1002", iommu_group=14)


def usb(host: Host) -> None:
    controller = host.pci("0000:00:02.0", vendor="1b36", device="000d", driver="xhci_hcd", iommu_group=2)
    host.usb(
        "1-1",
        vendor="0627",
        product="0001",
        serial="KBD42",
        manufacturer="QEMU",
        name="QEMU USB Keyboard",
        release="0000",
        interface=(3, 1, 1),
        interface_driver="usbhid",
        controller=controller,
    )
    host.usb(
        "1-2",
        vendor="0409",
        product="55aa",
        serial="314159-0000:00:02.0-2",
        manufacturer="QEMU",
        name="QEMU USB Hub",
        release="0101",
        device_class=(9, 0, 0),
        interface=(9, 0, 0),
        interface_driver="hub",
    )
    host.usb(
        "1-2.3",
        vendor="0627",
        product="0001",
        serial="28754-0000:00:02.0-2.3",
        manufacturer="QEMU",
        name="QEMU USB Tablet",
        release="0000",
        interface=(3, 0, 0),
        interface_driver="usbhid",
    )


def numa(host: Host) -> None:
    host.numa_node(0, cpus="0")
    host.numa_node(1, cpus="1")


MACHINES: tuple[Callable[[Host], None], ...] = (vfio, sriov, mdev, usb, numa)


def differences(real: Shape, built: Shape) -> list[str]:
    """What a program could trip over when it goes from the built tree to the real one."""
    found = [f"not on a real host: {path}" for path in built if path not in real]
    for path, entry in real.items():
        mine = built.get(path)
        if mine is None:
            found += [] if NOT_MODELLED.search(f"/{path}") else [f"missing: {path} {entry}"]
        elif VARIES.search(f"/{path}") or "char" in entry:
            found += [] if mine.get("mode") == entry.get("mode") else [f"{path}: {mine} is really {entry}"]
        elif mine != entry:
            found.append(f"{path}: {mine} is really {entry}")
    return found


@pytest.mark.parametrize("build", MACHINES, ids=lambda build: build.__name__)
def test_the_tree_is_what_linux_6_1_showed(build: Callable[[Host], None], tmp_path: Path) -> None:
    build(Host(tmp_path))
    real = RECORDED[build.__name__]
    # The recording holds parts of the machine: what lies in a directory that it does not show is not compared.
    built = {
        path: entry
        for path, entry in record(tmp_path, ["sys", "dev"]).items()
        if path in real or real.get(path.rsplit("/", 1)[0], {}).get("dir")
    }
    elsewhere = re.compile(r"^sys/bus/pci/(drivers/(?!vfio-pci)|devices/0000:4)|/pci_bus|fa1002$")
    built = {path: entry for path, entry in built.items() if path in real or not elsewhere.search(path)}
    assert "\n".join(differences(real, built)) == ""


def test_no_link_dangles(tmp_path: Path) -> None:
    host = Host(tmp_path, vfio="cdev")
    for build in (mdev, sriov, usb, numa):
        build(host)
    dangling = {path.name for path in tmp_path.rglob("*") if path.is_symlink() and not path.exists()}
    assert dangling == set()


@pytest.mark.skipif(shutil.which("lspci") is None, reason="lspci (pciutils) is not installed")
def test_lspci_reads_it(tmp_path: Path) -> None:
    vfio(Host(tmp_path))
    command = ["lspci", "-A", "linux-sysfs", "-O", f"sysfs.path={tmp_path}/sys/bus/pci", "-Dnk"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "0000:01:00.1 0200: 8086:10d3" in done.stdout
    assert done.stdout.count("Kernel driver in use: vfio-pci") == 3


REAL_PCI = Path("/sys/bus/pci/devices")
REAL_USB = Path("/sys/bus/usb/devices")
# A function that is not PCI Express has no link; not each can be reset; a bridge may lie under any root.
OPTIONAL = {
    "current_link_speed",
    "current_link_width",
    "max_link_speed",
    "max_link_width",
    "reset",
    "reset_method",
}


def on_root_bus(link: Path) -> bool:
    return len(link.resolve().parts) == 5 and not (link / "secondary_bus_number").exists()


REAL_FUNCTIONS = [link.name for link in sorted(REAL_PCI.glob("*")) if on_root_bus(link)]


@pytest.mark.skipif(not REAL_FUNCTIONS, reason="this machine shows no PCI functions on a root bus")
def test_the_pci_functions_of_this_machine(tmp_path: Path) -> None:
    host = Host(tmp_path)
    for address in REAL_FUNCTIONS:
        link = REAL_PCI / address
        text = {
            name: (link / name).read_text().strip() for name in ("vendor", "device", "class", "numa_node")
        }
        function = host.pci(
            address,
            vendor=text["vendor"],
            device=text["device"],
            class_code=text["class"],
            subsystem_vendor=(link / "subsystem_vendor").read_text().strip(),
            subsystem_device=(link / "subsystem_device").read_text().strip(),
            numa_node=int(text["numa_node"]),
            iommu_group=int((link / "iommu_group").resolve().name)
            if (link / "iommu_group").exists()
            else None,
            driver=(link / "driver").resolve().name if (link / "driver").exists() else "",
        )
        built = record(tmp_path, [function.directory])
        real = record(Path("/"), [function.directory])
        extra = {path.rsplit("/", 1)[-1] for path in built if path not in real and "vfio" not in path}
        assert extra <= OPTIONAL, f"{address}: the builder makes files that this kernel does not show"
        shared = {path: entry for path, entry in real.items() if path in built}
        assert "\n".join(differences(shared, {path: built[path] for path in shared})) == ""
        assert (host.root / "sys/bus/pci/devices" / address).readlink() == link.readlink()


def usb_ports() -> list[str]:
    return [link.name for link in sorted(REAL_USB.glob("[0-9]*-[1-9]*")) if ":" not in link.name]


@pytest.mark.skipif(not usb_ports(), reason="this machine shows no USB devices")
def test_the_usb_devices_of_this_machine(tmp_path: Path) -> None:
    host = Host(tmp_path)
    for port in usb_ports():
        link = REAL_USB / port
        text = {
            name: (link / name).read_text().strip()
            for name in ("idVendor", "idProduct", "bcdDevice", "devnum")
        }
        device = host.usb(
            port,
            vendor=text["idVendor"],
            product=text["idProduct"],
            release=text["bcdDevice"],
            dev=int(text["devnum"]),
        )
        assert {entry.name for entry in device.path.iterdir()} - {"port"} <= {
            entry.name for entry in link.iterdir()
        }
        assert device.node.relative_to(tmp_path) == Path(
            f"dev/bus/usb/{device.facts.bus:03}/{device.number:03}"
        )
