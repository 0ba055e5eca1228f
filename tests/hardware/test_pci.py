from __future__ import annotations

import threading
from pathlib import Path

import pytest

from dray.hardware.facts import Found
from dray.hardware.host_root import HostRoot
from dray.hardware.pci import PciFunction, Sriov, read_pci
from dray.testing.host import Host
from dray.testing.host import PciFunction as HostFunction
from tests.campaign import campaign
from tests.counting import Calls

DEVICES = "/sys/bus/pci/devices"
GPU = f"{DEVICES}/0000:05:00.0"
NIC = f"{DEVICES}/0000:06:00.0"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A GPU that tests break, and a network card beside it that must not notice."""
    host = Host(tmp_path / "root")
    host.pci_bridge("0000:00:04.0", bus=5, iommu_group=4)
    host.pci(
        "0000:05:00.0",
        vendor="10de",
        device="2330",
        class_code="030200",
        subsystem_vendor="10de",
        subsystem_device="16c1",
        revision="a1",
        driver="vfio-pci",
        iommu_group=12,
        numa_node=1,
    )
    host.pci(
        "0000:06:00.0", vendor="8086", device="10d3", class_code="020000", driver="e1000e", iommu_group=13
    )
    return host


def read(host: Host) -> Found[PciFunction]:
    return read_pci(HostRoot(host.root))


def function(host: Host, address: str = "0000:05:00.0") -> PciFunction:
    return next(item for item in read(host).items if item.address == address)


def test_every_fact_of_a_function(host: Host) -> None:
    found = read(host)
    assert found.problems == ()
    assert [item.address for item in found.items] == ["0000:00:04.0", "0000:05:00.0", "0000:06:00.0"]
    bridge, gpu, nic = found.items
    assert gpu == PciFunction(
        address="0000:05:00.0",
        vendor="10de",
        device="2330",
        class_code="030200",
        subsystem_vendor="10de",
        subsystem_device="16c1",
        revision="a1",
        driver="vfio-pci",
        iommu_group=12,
        numa_node=1,
        pcie_root="pci0000:00",
        bridge="0000:00:04.0",
        vfio_devices=("vfio0",),
    )
    assert gpu.id == "10de:2330"
    assert (bridge.is_bridge, gpu.is_bridge) == (True, False)
    assert (nic.driver, nic.numa_node, nic.pcie_root, nic.bridge) == ("e1000e", None, "pci0000:06", None)


def test_a_host_without_pci(tmp_path: Path) -> None:
    assert read(Host(tmp_path)) == Found()


def test_no_driver_and_no_group(host: Host) -> None:
    host.pci("0000:07:00.0", vendor="8086", device="1")
    assert (function(host, "0000:07:00.0").driver, function(host, "0000:07:00.0").iommu_group) == (None, None)


def test_sriov(host: Host) -> None:
    nic = host.pci(
        "0000:41:00.0", vendor="15b3", device="101d", driver="mlx5_core", iommu_group=20, sriov_total=16
    )
    vfs = [nic.vf(driver="vfio-pci") for _ in range(12)]
    physical, virtual = function(host, "0000:41:00.0"), function(host, vfs[0].address)
    assert physical.sriov == Sriov(16, tuple(vf.address for vf in vfs))  # virtfn10 comes after virtfn9
    assert (physical.is_physical, physical.is_virtual) == (True, False)
    assert (virtual.is_physical, virtual.is_virtual) == (False, True)
    assert virtual.physical_function == "0000:41:00.0"


def test_a_physical_function_is_one_whatever_its_counts_say(host: Host) -> None:
    host.file(f"{GPU}/sriov_totalvfs", "many")
    host.file(f"{GPU}/virtfn0", "no link")
    host.link(f"{GPU}/virtfn1", "../odd")
    found = read(host)
    gpu = found.items[1]
    assert (gpu.is_physical, gpu.sriov) == (True, Sriov(None, ()))
    assert {problem.path for problem in found.problems} == {
        f"{GPU}/{name}" for name in ("sriov_totalvfs", "virtfn0", "virtfn1")
    }


def vgpu(host: Host) -> HostFunction:
    gpu = host.pci(
        "0000:41:00.0", vendor="10de", device="2331", driver="nvidia", iommu_group=20, sriov_total=4
    )
    return gpu.vf(driver="nvidia", vgpu_types={256: "NVIDIA A40-4Q"})


@pytest.mark.parametrize(("text", "profile"), [("256\n", "256"), ("0\n", None), ("", None), (" 7 \n", "7")])
def test_vgpu_profile(host: Host, text: str, profile: str | None) -> None:
    vf = vgpu(host)
    host.garbage(vf.path / "nvidia/current_vgpu_type", text.encode())
    assert (function(host, vf.address).is_vgpu, function(host, vf.address).vgpu_profile) == (True, profile)


def test_vgpu_profile_that_is_not_there_or_not_readable(host: Host) -> None:
    vf = vgpu(host)
    host.unreadable(vf.path / "nvidia/current_vgpu_type")
    assert (function(host, vf.address).is_vgpu, function(host, vf.address).vgpu_profile) == (True, None)
    assert "vGPU profile not known" in read(host).problems[0].message
    host.vanish(vf.path / "nvidia/current_vgpu_type")
    assert function(host, vf.address).is_vgpu is False
    assert function(host).is_vgpu is False


# KubeVirt reads the ids from the first line PCI_ID; other files stand in where that is not there.


@pytest.mark.parametrize(
    "text",
    ["PCI_ID=8086:0D3A\n", "DRIVER=x\nPCI_ID= 8086:0d3a \nPCI_ID=1:2\n"],
)
def test_ids_come_from_uevent(host: Host, text: str) -> None:
    host.garbage(f"{GPU}/uevent", text.encode())
    assert function(host).id == "8086:0d3a"


@pytest.mark.parametrize("text", [b"", b"PCI_ID\n", b"PCI_ID=x:y\n", b"PCI_ID=10DE\n", b"\xff\xfe"])
def test_ids_fall_back_to_their_own_files(host: Host, text: bytes) -> None:
    host.garbage(f"{GPU}/uevent", text)
    gpu = function(host)
    assert (gpu.id, gpu.class_code, gpu.subsystem_device) == ("10de:2330", "030200", "16c1")


# What hides a function, always alone and with a reason.


@pytest.mark.parametrize("name", ["vendor", "device", "class"])
@pytest.mark.parametrize("break_it", [Host.garbage, Host.unreadable, Host.vanish])
def test_no_ids_at_all_hide_it(host: Host, name: str, break_it: object) -> None:
    host.vanish(f"{GPU}/uevent")
    assert callable(break_it)
    break_it(host, f"{GPU}/{name}")
    hides(host, 2)


def test_wrong_ids_hide_it(host: Host) -> None:
    host.vanish(f"{GPU}/uevent")
    host.garbage(f"{GPU}/vendor", b"0x10dee\n")
    hides(host, 2)


def test_an_iommu_group_that_is_no_number_hides_it(host: Host) -> None:
    host.dangle(f"{GPU}/iommu_group")
    hides(host, 1)


@pytest.mark.parametrize("name", ["driver", "iommu_group"])
def test_what_should_be_a_link_hides_it(host: Host, name: str) -> None:
    """A driver that cannot be named must not count as none: without driver a device is safe to hand out."""
    host.unreadable(f"{GPU}/{name}")
    hides(host, 1)


def test_a_physical_function_that_cannot_be_named_hides_it(host: Host) -> None:
    host.link(f"{GPU}/physfn", "../odd")
    hides(host, 1)


def test_a_name_that_is_no_address_is_told(host: Host) -> None:
    host.link(f"{DEVICES}/odd", "0000:05:00.0")
    found = read(host)
    assert len(found.items) == 3
    assert [problem.path for problem in found.problems] == [f"{DEVICES}/odd"]


def hides(host: Host, problems: int) -> None:
    found = read(host)
    assert [item.address for item in found.items] == ["0000:00:04.0", "0000:06:00.0"]
    assert len(found.problems) == problems
    assert all(problem.path.startswith(GPU) for problem in found.problems)
    assert found.problems[-1].message.startswith("0000:05:00.0 is left out: ")


# What it can live without.


@pytest.mark.parametrize("text", [b"one\n", b"", b"\xff", b"1 2\n"])
def test_a_numa_node_that_is_no_number_is_not_node_0(host: Host, text: bytes) -> None:
    host.garbage(f"{GPU}/numa_node", text)
    found = read(host)
    assert found.items[1].numa_node is None
    assert [problem.path for problem in found.problems] == [f"{GPU}/numa_node"]


def test_files_it_need_not_have(host: Host) -> None:
    for name in ("numa_node", "revision", "vfio-dev"):
        host.vanish(f"{GPU}/{name}")
    gpu, problems = function(host), read(host).problems
    assert (gpu.numa_node, gpu.revision, gpu.vfio_devices, problems) == (None, "", (), ())
    host.garbage(f"{NIC}/revision")
    assert [problem.path for problem in read(host).problems] == [f"{NIC}/revision"]
    host.garbage(f"{NIC}/uevent", b"PCI_ID=8086:10D3\nPCI_CLASS=20000\n")
    host.garbage(f"{NIC}/subsystem_vendor")
    assert function(host, "0000:06:00.0").subsystem_vendor == ""
    host.vanish(f"{NIC}/subsystem_vendor")
    assert function(host, "0000:06:00.0").subsystem_vendor == ""


def test_a_root_of_a_large_domain(host: Host) -> None:
    """Behind Intel's VMD a second root lies below the first; the first is where the card's lanes end."""
    host.tree.place("sys/devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e1:00.0", {})
    place = "sys/devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e1:00.0"
    for name, text in {"uevent": "PCI_ID=144D:A808\nPCI_CLASS=10802\n", "numa_node": "0\n"}.items():
        host.file(f"/{place}/{name}", text)
    host.tree.link(f"{DEVICES[1:]}/10000:e1:00.0", place)
    disk = function(host, "10000:e1:00.0")
    assert (disk.pcie_root, disk.bridge, disk.numa_node) == ("pci0000:00", None, 0)


def test_many_functions_are_read_quickly(tmp_path: Path) -> None:
    """Each takes the same work, however many there are."""
    number = campaign(100, 1000)
    few, many = _work(tmp_path / "few", number // 4), _work(tmp_path / "many", number)
    assert many < 5 * few
    assert many < number * 1200, "some six hundred calls a function"


def _work(path: Path, number: int) -> int:
    host = Host(path)
    for index in range(number):
        address = f"0000:{index // 32:02x}:{index % 32:02x}.0"
        host.pci(address, vendor="10de", device="2330", driver="vfio-pci", iommu_group=index)
    with Calls() as calls:
        assert len(read(host).items) == number
    return calls.count


def test_functions_that_come_and_go_while_it_looks(host: Host) -> None:
    """No call fails, what stays is found each time, and what went does not stay as a problem."""
    guests = [
        host.pci(f"0000:07:{slot:02x}.0", vendor="8086", device="1", driver="vfio-pci", iommu_group=40 + slot)
        for slot in range(8)
    ]
    done = threading.Event()

    def plug() -> None:
        for index in range(campaign(16, 2000)):
            guest = guests[index % len(guests)]
            guest.unplug()
            guest.replug()
        done.set()

    thread = threading.Thread(target=plug)
    thread.start()
    while not done.is_set():
        addresses = {item.address for item in read(host).items}
        assert {"0000:00:04.0", "0000:05:00.0", "0000:06:00.0"} <= addresses
    thread.join(60)
    assert (len(read(host).items), read(host).problems) == (11, ())
