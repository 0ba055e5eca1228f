"""What KubeVirt's consumers see, row by row: resources, ids, variables, nodes with permissions, mounts, owners."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dray.cdi.edits import DeviceNode, Mount
from dray.deviceplugin.allocate import to_response
from dray.deviceplugin.listing import listing
from dray.drivers.contract import Device, Prepared
from dray.drivers.health import check_required
from dray.errors import HardwareError, NotFoundError
from dray.hardware.change import Chown
from dray.testing.launcher import take_gpus, take_host_devices
from tests.drivers.machine import DRIVERS, UUID, Machine, build


@dataclass(frozen=True)
class Row:
    kind: str
    resource: str
    devices: list[str]
    shares: list[str]
    count: int
    nodes: list[tuple[str, str]] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    mounts: list[str] = field(default_factory=list)
    owned: list[str] = field(default_factory=list)


VFIO = ("/dev/vfio/vfio", "mrw")
ROWS = [
    Row(
        "generic",
        "devices.kubevirt.io/kvm",
        ["kvm"],
        ["kvm0", "kvm1", "kvm999"],
        1000,
        nodes=[("/dev/kvm", "rwm")],
    ),
    Row(
        "generic",
        "devices.kubevirt.io/tun",
        ["tun"],
        ["tun0", "tun999"],
        1000,
        nodes=[("/dev/net/tun", "rwm")],
    ),
    Row(
        "iommufd",
        "devices.kubevirt.io/iommufd",
        ["iommufd"],
        ["iommufd0", "iommufd999"],
        1000,
        nodes=[("/dev/iommu", "mrw")],
    ),
    Row(
        "socket",
        "devices.kubevirt.io/pr-helper",
        ["pr-helper"],
        ["pr-helper0", "pr-helper999"],
        1000,
        mounts=["/var/run/kubevirt/daemons/pr"],
    ),
    Row(
        "socket",
        "devices.kubevirt.io/tdx",
        ["tdx"],
        ["tdx0", "tdx9"],
        10,
        mounts=["/var/run/tdx-qgs"],
    ),
    Row(
        "pci",
        "nvidia.com/GPU",
        ["5"],
        ["5", "12"],
        2,
        nodes=[VFIO, ("/dev/vfio/5", "mrw"), ("/dev/vfio/devices/vfio0", "mrw")],
        env={"PCI_RESOURCE_NVIDIA_COM_GPU": "0000:05:00.0"},
    ),
    Row(
        "pci",
        "nvidia.com/GPU",
        ["12", "5"],
        ["5", "12"],
        2,
        nodes=[
            VFIO,
            ("/dev/vfio/12", "mrw"),
            ("/dev/vfio/devices/vfio1", "mrw"),
            ("/dev/vfio/5", "mrw"),
            ("/dev/vfio/devices/vfio0", "mrw"),
        ],
        env={"PCI_RESOURCE_NVIDIA_COM_GPU": "0000:0c:00.0,0000:05:00.0"},
    ),
    Row(
        "pci",
        "intel.com/nic",
        ["32"],
        ["32"],
        1,
        nodes=[
            VFIO,
            ("/dev/vfio/32", "mrw"),
            ("/dev/vfio/devices/vfio2", "mrw"),
            ("/dev/vfio/devices/vfio3", "mrw"),
        ],
        env={"PCI_RESOURCE_INTEL_COM_NIC": "0000:20:00.0"},
    ),
    Row("pci", "nvidia.com/GPU", [], ["5", "12"], 2, env={"PCI_RESOURCE_NVIDIA_COM_GPU": ""}),
    Row(  # a virtual function with a vGPU profile is handed out by its address; no mediated device is involved
        "pci",
        "nvidia.com/VGPU",
        ["61"],
        ["61"],
        1,
        nodes=[VFIO, ("/dev/vfio/61", "mrw"), ("/dev/vfio/devices/vfio4", "mrw")],
        env={"PCI_RESOURCE_NVIDIA_COM_VGPU": "0000:41:00.4"},
    ),
    Row(
        "mdev",
        "nvidia.com/GRID_T4-1Q",
        ["71", "72"],
        ["71", "72"],
        2,
        nodes=[VFIO, ("/dev/vfio/71", "mrw"), ("/dev/vfio/72", "mrw")],
        env={"MDEV_PCI_RESOURCE_NVIDIA_COM_GRID_T4-1Q": f"{UUID.format(1)},{UUID.format(2)}"},
    ),
    Row(
        "usb",
        "kubevirt.io/storage",
        ["kubevirt.io/storage-1-2"],
        ["kubevirt.io/storage-1-1", "kubevirt.io/storage-1-2"],
        2,
        nodes=[("/dev/bus/usb/001/003", "mrw")],
        env={"USB_RESOURCE_KUBEVIRT_IO_STORAGE": "1:3"},
        owned=["/dev/bus/usb/001/003"],
    ),
    Row(
        "usb",
        "kubevirt.io/pair",
        ["kubevirt.io/pair-2-1+2-2"],
        ["kubevirt.io/pair-2-1+2-2"],
        1,
        nodes=[("/dev/bus/usb/002/002", "mrw"), ("/dev/bus/usb/002/003", "mrw")],
        env={"USB_RESOURCE_KUBEVIRT_IO_PAIR": "2:2,2:3"},
        owned=["/dev/bus/usb/002/002", "/dev/bus/usb/002/003"],
    ),
    Row("usb", "kubevirt.io/storage", [], ["kubevirt.io/storage-1-1"], 2),
]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return build(tmp_path)


def prepare(machine: Machine, kind: str, resource: str, ids: list[str]) -> Prepared:
    known = machine.look(kind)
    return DRIVERS[kind].prepare(resource, [known[name] for name in ids])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.resource}-{len(row.devices)}")
def test_a_row(row: Row, machine: Machine) -> None:
    served: list[Device] = [one for one in machine.look(row.kind).values() if one.resource == row.resource]
    shares = [share for device in served for share in device.share_ids]
    assert len(shares) == row.count
    assert set(row.shares) <= set(shares)
    prepared = prepare(machine, row.kind, row.resource, row.devices)
    assert dict(prepared.edits.env) == row.env
    assert prepared.edits.device_nodes == tuple(DeviceNode(path, path, may) for path, may in row.nodes)
    assert prepared.edits.mounts == tuple(Mount(path, path, read_only=False) for path in row.mounts)
    assert prepared.edits.annotations == ()
    assert prepared.changes == tuple(Chown(path, 107, 107) for path in row.owned)
    answer = to_response(prepared.edits)
    assert dict(answer.envs) == row.env
    assert [(one.host_path, one.container_path, one.permissions) for one in answer.devices] == [
        (path, path, may) for path, may in row.nodes
    ]
    assert [(one.host_path, one.container_path, one.read_only) for one in answer.mounts] == [
        (path, path, False) for path in row.mounts
    ]
    assert not answer.annotations
    assert not answer.cdi_devices


def test_mknod_is_asked_for_under_cgroup_2_only(machine: Machine) -> None:
    machine.host.cgroup(1)
    edits = prepare(machine, "generic", "devices.kubevirt.io/kvm", ["kvm"]).edits
    assert edits.device_nodes == (DeviceNode("/dev/kvm", "/dev/kvm", "rw"),)
    nodes = prepare(machine, "pci", "nvidia.com/GPU", ["5"]).edits.device_nodes
    assert {node.permissions for node in nodes} == {"mrw"}


def test_a_mediated_device_that_is_gone_is_an_error(machine: Machine) -> None:
    resource = "nvidia.com/GRID_T4-1Q"
    with pytest.raises(NotFoundError, match=resource):
        DRIVERS["mdev"].prepare(resource, [])
    prepared = prepare(machine, "mdev", resource, ["71"])
    check_required(machine.root, prepared)
    machine.parent.mdevs[UUID.format(1)].remove()
    with pytest.raises(HardwareError, match="/dev/vfio/71 does not exist"):
        check_required(machine.root, prepared)


def test_iommufd_that_is_gone_is_an_error(machine: Machine) -> None:
    prepared = prepare(machine, "iommufd", "devices.kubevirt.io/iommufd", ["iommufd"])
    machine.host.vanish("/dev/iommu")
    with pytest.raises(HardwareError, match="/dev/iommu"):
        check_required(machine.root, prepared)


def test_only_what_upstream_checks_is_required(machine: Machine) -> None:
    for kind in ("generic", "pci", "usb", "socket"):
        for device in machine.look(kind).values():
            assert DRIVERS[kind].prepare(device.resource, [device]).required == ()


def test_devices_are_opened_first_where_kubevirt_does(machine: Machine) -> None:
    assert prepare(machine, "generic", "devices.kubevirt.io/kvm", ["kvm"]).open_first == ()
    tun = prepare(machine, "generic", "devices.kubevirt.io/tun", ["tun"])
    assert tun.open_first == ("/dev/net/tun",)


def test_numa_nodes(machine: Machine) -> None:
    """As the kubelet is told: no topology, and not node 0, where the node is not known."""

    def nodes_of(kind: str) -> dict[str, list[int]]:
        told = listing(list(machine.look(kind).values())).message.devices
        assert all(one.HasField("topology") == bool(one.topology.nodes) for one in told)
        return {one.ID: [node.ID for node in one.topology.nodes] for one in told}

    assert nodes_of("pci") == {"5": [1], "12": [0], "32": [], "61": []}
    assert nodes_of("mdev") == {"71": [1], "72": [1]}
    assert {tuple(nodes) for nodes in nodes_of("usb").values()} == {()}


def test_virt_launcher_takes_the_addresses(machine: Machine) -> None:
    gpus = dict(prepare(machine, "pci", "nvidia.com/GPU", ["5", "12"]).edits.env)
    slices = dict(prepare(machine, "mdev", "nvidia.com/GRID_T4-1Q", ["71"]).edits.env)
    sticks = dict(prepare(machine, "usb", "kubevirt.io/storage", ["kubevirt.io/storage-1-1"]).edits.env)
    wanted = {"a": "nvidia.com/GPU", "b": "nvidia.com/GPU", "c": "nvidia.com/GRID_T4-1Q"}
    taken = take_gpus(wanted, gpus | slices)
    assert {one.name: (one.bus, one.address) for one in taken} == {
        "a": ("pci", "0000:05:00.0"),
        "b": ("pci", "0000:0c:00.0"),
        "c": ("mdev", UUID.format(1)),
    }
    (stick,) = take_host_devices({"stick": "kubevirt.io/storage"}, sticks)
    assert (stick.bus, stick.address) == ("usb", "1:2")
