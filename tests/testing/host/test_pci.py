from __future__ import annotations

import os
from pathlib import Path

import pytest

from dray.errors import ConflictError, InvalidError
from dray.testing.host import Host, MdevType, Sriov


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def text(path: Path) -> str:
    return path.read_text().strip()


def vfio_nodes(host: Host) -> list[str]:
    return sorted(node.name for node in (host.root / "dev/vfio").iterdir())


def test_a_function_reads_as_on_a_host(host: Host) -> None:
    host.numa_node(0, cpus="0-3")
    host.numa_node(1, cpus="4-7")
    gpu = host.pci(
        "0000:05:00.0",
        vendor="10DE",
        device="0x2330",
        class_code="030200",
        driver="vfio-pci",
        iommu_group=12,
        numa_node=1,
    )
    link = host.root / "sys/bus/pci/devices/0000:05:00.0"
    assert os.readlink(link) == "../../../devices/pci0000:05/0000:05:00.0"
    assert link.resolve() == gpu.path
    assert [text(link / name) for name in ("vendor", "device", "class")] == ["0x10de", "0x2330", "0x030200"]
    assert text(link / "uevent").splitlines()[:3] == [
        "DRIVER=vfio-pci",
        "PCI_CLASS=30200",
        "PCI_ID=10DE:2330",
    ]
    assert text(link / "modalias") == "pci:v000010DEd00002330sv000010DEsd00000000bc03sc02i00"
    assert [text(link / name) for name in ("numa_node", "local_cpulist", "local_cpus")] == ["1", "4-7", "f0"]
    assert (link / "driver").resolve() == host.root / "sys/bus/pci/drivers/vfio-pci"
    assert (link / "iommu_group").resolve() == host.root / "sys/kernel/iommu_groups/12"
    assert (link / "config").read_bytes()[:4] == bytes.fromhex("de103023")
    assert vfio_nodes(host) == ["12", "vfio"]


def test_binding_moves_the_function_and_its_vfio_node(host: Host) -> None:
    card = host.pci("0000:01:00.0", vendor="8086", device="10d3", driver="e1000e", iommu_group=9)
    assert not (host.root / "dev/vfio").exists()
    card.bind("vfio-pci")
    assert vfio_nodes(host) == ["9", "vfio"]
    assert text(host.root / "sys/devices/virtual/vfio/9/dev") == "246:0"
    assert os.listdir(card.path / "vfio-dev") == ["vfio0"]
    assert (host.root / "sys/bus/pci/drivers/vfio-pci" / card.address).resolve() == card.path
    assert not (host.root / "sys/bus/pci/drivers/e1000e" / card.address).exists()
    for _ in range(2):
        card.unbind()
        assert card.driver == ""
        assert not (card.path / "driver").exists()
        assert "DRIVER" not in text(card.path / "uevent")
        assert not (card.path / "vfio-dev").exists()
        assert vfio_nodes(host) == ["vfio"]


def test_the_node_of_a_shared_group_goes_with_its_last_function(host: Host) -> None:
    pair = [
        host.pci(f"0000:01:00.{n}", vendor="8086", device="10d3", driver="vfio-pci", iommu_group=9)
        for n in (0, 1)
    ]
    group = host.root / "sys/kernel/iommu_groups/9/devices"
    assert sorted(os.listdir(group)) == ["0000:01:00.0", "0000:01:00.1"]
    pair[0].unbind()
    assert vfio_nodes(host) == ["9", "vfio"]
    pair[1].unplug()
    assert vfio_nodes(host) == ["vfio"]
    assert os.listdir(group) == ["0000:01:00.0"]
    pair[0].unplug()
    assert not group.parent.exists()


def test_unplug_leaves_nothing_and_replug_brings_it_all_back(host: Host) -> None:
    gpu = host.pci("0000:05:00.0", vendor="10de", device="2330", driver="vfio-pci", iommu_group=12)
    gpu.unplug()
    gpu.unplug()
    assert not gpu.present
    left = [path for path in host.root.rglob("*") if "0000:05:00.0" in path.name]
    assert left == []
    assert vfio_nodes(host) == ["vfio"]
    gpu.replug()
    gpu.replug()
    assert gpu.present
    assert gpu.driver == "vfio-pci"
    assert vfio_nodes(host) == ["12", "vfio"]
    gpu.unplug()
    gpu.replug(driver="")
    assert gpu.driver == ""


def test_bind_of_an_unplugged_function_says_so(host: Host) -> None:
    gpu = host.pci("0000:05:00.0", vendor="10de", device="2330")
    gpu.unplug()
    with pytest.raises(ConflictError, match="replug"):
        gpu.bind("vfio-pci")


def test_behind_a_bridge(host: Host) -> None:
    port = host.pci_bridge("0000:00:04.0", bus=5)
    gpu = host.pci("0000:05:00.0", vendor="10de", device="2330")
    assert gpu.path.parent == port.path
    assert text(port.path / "secondary_bus_number") == "5"
    assert (host.root / "sys/class/pci_bus/0000:05").resolve() == port.path / "pci_bus/0000:05"
    port.unplug()
    assert not gpu.present
    assert os.listdir(host.root / "sys/bus/pci/devices") == []
    port.replug()
    gpu.replug()
    assert (host.root / "sys/bus/pci/devices/0000:05:00.0").resolve() == gpu.path


def test_set_changes_what_a_reader_gets(host: Host) -> None:
    gpu = host.pci("0000:05:00.0", vendor="10de", device="2330", driver="vfio-pci", iommu_group=12)
    gpu.set(numa_node=3, device="2331")
    assert [text(gpu.path / name) for name in ("numa_node", "device")] == ["3", "0x2331"]
    assert "PCI_ID=10DE:2331" in text(gpu.path / "uevent")
    gpu.set(iommu_group=40)
    assert vfio_nodes(host) == ["40", "vfio"]
    assert gpu.driver == "vfio-pci"
    gpu.unplug()
    gpu.set(numa_node=0)
    gpu.replug()
    assert text(gpu.path / "numa_node") == "0"


def test_virtual_functions(host: Host) -> None:
    card = host.pci(
        "0000:41:00.0", vendor="10de", device="2335", driver="nvidia", iommu_group=1, sriov_total=3
    )
    first = card.vf(driver="vfio-pci", iommu_group=40, numa_node=1)
    second = card.vf()
    assert [first.address, second.address] == ["0000:41:00.4", "0000:41:00.5"]
    assert text(card.path / "sriov_totalvfs") == "3"
    assert text(card.path / "sriov_numvfs") == "2"
    assert (card.path / "virtfn1").resolve() == second.path
    assert os.readlink(first.path / "physfn") == "../0000:41:00.0"
    assert not (first.path / "sriov_totalvfs").exists()
    assert not (first.path / "remove").exists()
    assert vfio_nodes(host) == ["40", "vfio"]
    assert (second.path / "iommu_group").resolve().name == "0"
    card.vf()
    with pytest.raises(ConflictError, match="sriov_total"):
        card.vf()
    card.unbind()
    assert os.listdir(host.root / "sys/bus/pci/devices") == ["0000:41:00.0"]
    assert text(card.path / "sriov_numvfs") == "0"
    with pytest.raises(ConflictError, match="taken back"):
        first.replug()


def test_virtual_functions_cross_to_the_next_slot(host: Host) -> None:
    nic = host.pci(
        "0000:3b:00.0",
        vendor="8086",
        device="10fb",
        sriov=Sriov(total=64, offset=128, stride=2, vf_device="10ed"),
    )
    made = [nic.vf() for _ in range(2)]
    assert [vf.address for vf in made] == ["0000:3b:10.0", "0000:3b:10.2"]
    assert text(made[0].path / "device") == "0x10ed"
    assert text(nic.path / "sriov_vf_device") == "10ed"


def test_nvidia_vgpu_profiles_come_with_the_nvidia_driver(host: Host) -> None:
    card = host.pci(
        "0000:41:00.0", vendor="10de", device="2335", driver="nvidia", iommu_group=1, sriov_total=4
    )
    vf = card.vf(driver="nvidia", vgpu_types={1414: "NVIDIA H200X-1-18C", 256: "GRID A100-4C"})
    assert text(vf.path / "nvidia/current_vgpu_type") == "0"
    assert (vf.path / "nvidia/creatable_vgpu_types").read_text().splitlines() == [
        "ID    : vGPU Name",
        "256   : GRID A100-4C",
        "1414  : NVIDIA H200X-1-18C",
    ]
    vf.set_vgpu_type(1414)
    assert text(vf.path / "nvidia/current_vgpu_type") == "1414"
    assert vfio_nodes(host) == ["0", "vfio"]
    vf.bind("vfio-pci")
    assert not (vf.path / "nvidia").exists()


def test_vfio_by_the_age_of_the_kernel(tmp_path: Path) -> None:
    hosts = {style: Host(tmp_path / style, vfio=style) for style in ("group", "devices", "cdev")}
    cards = {
        style: host.pci("0000:01:00.0", vendor="8086", device="10d3", driver="vfio-pci", iommu_group=9)
        for style, host in hosts.items()
    }
    assert not (cards["group"].path / "vfio-dev").exists()
    assert sorted(os.listdir(cards["devices"].path / "vfio-dev/vfio0")) == ["device", "subsystem", "uevent"]
    assert not (tmp_path / "devices/dev/vfio/devices").exists()
    assert (tmp_path / "cdev/dev/vfio/devices/vfio0").exists()
    assert (tmp_path / "cdev/dev/iommu").exists()
    assert text(cards["cdev"].path / "vfio-dev/vfio0/dev") == "511:0"


def test_two_drivers_of_one_parent_take_the_mdevs_along(host: Host) -> None:
    gpu = host.pci("0000:06:00.0", vendor="10de", device="1eb8", driver="nvidia", iommu_group=3)
    parent = host.mdev_parent(gpu, {"nvidia-222": MdevType(16, "GRID T4-1B")})
    mdev = parent.create("nvidia-222", "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001")
    gpu.bind("vfio-pci")
    assert not mdev.present
    assert not (host.root / "sys/class/mdev_bus/0000:06:00.0").exists()
    assert not (gpu.path / "mdev_supported_types").exists()
    assert os.listdir(host.root / "sys/bus/mdev/devices") == []
    gpu.bind("nvidia")
    assert text(parent.type_path("nvidia-222") / "available_instances") == "16"


@pytest.mark.parametrize("address", ["05:00.0", "0000:05:00", "0000:05:00.8", "0000:05:2f.0", "", "../x"])
def test_a_bad_address_is_refused(host: Host, address: str) -> None:
    with pytest.raises(InvalidError, match=r"0000:05:00\.0"):
        host.pci(address, vendor="10de", device="2330")


@pytest.mark.parametrize(("vendor", "device"), [("zz", "1"), ("10de", "123456"), ("", "1")])
def test_bad_ids_are_refused(host: Host, vendor: str, device: str) -> None:
    with pytest.raises(InvalidError, match="hexadecimal"):
        host.pci("0000:05:00.0", vendor=vendor, device=device)


def test_an_address_is_given_once(host: Host) -> None:
    host.pci("0000:05:00.0", vendor="10de", device="2330")
    with pytest.raises(ConflictError, match=r"0000:05:00\.0"):
        host.pci("0000:05:00.0", vendor="10de", device="2330")
