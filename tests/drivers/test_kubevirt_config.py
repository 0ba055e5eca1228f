"""From KubeVirt's configuration to what the kubelet sees, and the pages that say which test shows what."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from dray.drivers.contract import Device, Health, Prepared
from dray.hardware.host_root import HostRoot
from dray.testing.host import Host, MdevType
from tests.drivers.configured import drivers_by_resource, sockets_by_resource

PAGE = Path("docs/reference/kubevirt.md")
PREFIX = "devices.kubevirt.io/"
ALL_GATES = "VSOCK, IOMMUFD, WorkloadEncryptionTDX, PersistentReservation, ConfigurableHypervisor"


def look(host: Host, text: str, resource: str) -> list[Device]:
    found = drivers_by_resource(text)[resource].discover(HostRoot(host.root)).devices
    return [device for device in found if device.resource == resource]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = Host(tmp_path)
    host.cgroup(2)
    host.misc_capacity(tdx=10)
    return host


# name: node or mounted directory, whether it is opened first, ids of three
SERVED = {
    "kvm": ("/dev/kvm", False, ["kvm0", "kvm1", "kvm2"]),
    "mshv": ("/dev/mshv", False, ["mshv0", "mshv1", "mshv2"]),
    "tun": ("/dev/net/tun", True, ["tun0", "tun1", "tun2"]),
    "vhost-net": ("/dev/vhost-net", True, ["vhost-net0", "vhost-net1", "vhost-net2"]),
    "sev": ("/dev/sev", True, ["sev0", "sev1", "sev2"]),
    "vhost-vsock": ("/dev/vhost-vsock", True, ["vhost-vsock0", "vhost-vsock1", "vhost-vsock2"]),
    "pr-helper": ("/var/run/kubevirt/daemons/pr", False, ["pr-helper0", "pr-helper1", "pr-helper2"]),
    "tdx": ("/var/run/tdx-qgs", False, [f"tdx{number}" for number in range(10)]),
}


@pytest.mark.parametrize("name", SERVED)
def test_what_gates_add(host: Host, name: str) -> None:
    path, opened, ids = SERVED[name]
    hypervisor = "kvm" if name == "kvm" else "hyperv-direct"
    text = (
        f"{{virtualMachineInstancesPerNode: 3, hypervisors: [{{name: {hypervisor}}}],"
        f" developerConfiguration: {{featureGates: [{ALL_GATES}]}}}}"
    )
    (device,) = look(host, text, PREFIX + name)
    assert list(device.share_ids) == ids
    prepared: Prepared = drivers_by_resource(text)[PREFIX + name].prepare(PREFIX + name, [device])
    given = {(node.host_path, node.permissions) for node in prepared.edits.device_nodes}
    assert given | {(mount.host_path, "") for mount in prepared.edits.mounts} == {
        (path, "rwm" if path.startswith("/dev/") else "")
    }
    assert prepared.open_first == ((path,) if opened else ())
    assert prepared.edits.env == ()
    assert sockets_by_resource(drivers_by_resource(text))[PREFIX + name] == f"kubevirt-{name}.sock"


def test_what_is_there_without_gates() -> None:
    assert set(drivers_by_resource("{}")) == {PREFIX + name for name in ("kvm", "tun", "vhost-net", "sev")}
    without = "developerConfiguration: {disabledFeatureGates: [WorkloadEncryptionSEV]}"
    assert set(drivers_by_resource(without)) == {PREFIX + name for name in ("kvm", "tun", "vhost-net")}


PCI = """
permittedHostDevices:
  pciHostDevices:
  - pciVendorSelector: "DEAD:BEEF"
    resourceName: example.org/deadbeef
"""


def test_one_pci_device_of_a_configuration(host: Host) -> None:
    host.pci("0000:05:00.0", vendor="dead", device="beef", driver="vfio-pci", iommu_group=7, numa_node=1)
    host.pci("0000:06:00.0", vendor="dead", device="bee0", driver="vfio-pci", iommu_group=8)
    (device,) = look(host, PCI, "example.org/deadbeef")
    assert (device.id, device.iommu_group, device.numa_node) == ("7", 7, 1)
    assert (device.attributes["driver"], device.addresses) == ("vfio-pci", ("0000:05:00.0",))
    sockets = sockets_by_resource(drivers_by_resource(PCI))
    assert sockets["example.org/deadbeef"] == "kubevirt-example.org-deadbeef.sock"


MDEV = """
permittedHostDevices:
  mediatedDevices:
  - mdevNameSelector: "FAKE 123"
    resourceName: example.org/fake123
"""


def test_one_mediated_device_of_a_configuration(host: Host) -> None:
    uuid = "53764d0e-85a0-42b4-af5c-2046b460b1dc"
    card = host.pci("0000:06:00.0", vendor="10de", device="1eb8", driver="nvidia", iommu_group=3, numa_node=1)
    types = {"nvidia-222": MdevType(16, "FAKE 123"), "nvidia-223": MdevType(16, "FAKE 12")}
    parent = host.mdev_parent(card, types)
    parent.create("nvidia-222", uuid, iommu_group=71)
    parent.create("nvidia-223", uuid.replace("5", "6"), iommu_group=72)
    (device,) = look(host, MDEV, "example.org/fake123")
    assert (device.id, device.numa_node, device.addresses) == ("71", 1, (uuid,))
    assert (device.attributes["parent"], device.attributes["type"]) == ("0000:06:00.0", "FAKE_123")


USB = """
permittedHostDevices:
  usb:
  - resourceName: kubevirt.io/storage
    selectors: [{vendor: "46F4", product: "0001"}]
"""


def test_usb_devices_of_a_configuration(host: Host) -> None:
    for port in ("1-1", "1-2"):
        host.usb(port, vendor="46f4", product="0001")
    devices = look(host, USB, "kubevirt.io/storage")
    assert [device.addresses for device in devices] == [("1:2",), ("1:3",)]
    assert {device.health for device in devices} == {Health.HEALTHY}


@pytest.mark.parametrize(
    ("text", "resource"),
    [(PCI, "example.org/deadbeef"), (MDEV, "example.org/fake123"), (USB, "kubevirt.io/storage")],
)
def test_an_entry_comes_goes_or_is_left_to_others(text: str, resource: str) -> None:
    """Null permittedHostDevices too: what KubeVirt always serves stays, as it was."""
    without, with_it = drivers_by_resource("permittedHostDevices: null"), drivers_by_resource(text)
    assert set(with_it) - set(without) == {resource}
    assert set(without) <= set(with_it)
    assert all(with_it[name] == driver for name, driver in without.items())
    external = text.rstrip() + "\n    externalResourceProvider: true\n"
    assert set(drivers_by_resource(external)) == set(without)


@cache
def functions_of(path: str) -> set[str]:
    tree = ast.parse(Path(path).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE.read_text())
    assert len(named) > 80
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not Path(path).is_file() or (name and name not in functions_of(path))
    ]
    assert missing == []
