from __future__ import annotations

import pytest

from dray.agent.config import (
    GenericRule,
    MdevRule,
    MdevTypes,
    PciRule,
    Served,
    SocketRule,
    Unit,
    UsbRule,
    VgpuRule,
    load_agent_config,
    served,
)
from dray.drivers.sim.config import SimConfig, SimDevices, SimFault

ALL = """
virtualMachineInstancesPerNode: 5
developerConfiguration:
  featureGates: [VSOCK, IOMMUFD, WorkloadEncryptionTDX, PersistentReservation]
permittedHostDevices:
  pciHostDevices:
  - {pciVendorSelector: "10DE:1EB8", resourceName: a.com/t4}
  - {pciVendorSelector: "10de:1eb8", resourceName: a.com/t4}
  - {pciVendorSelector: "10DE:2330", resourceName: a.com/h200, externalResourceProvider: true}
  mediatedDevices:
  - {mdevNameSelector: "GRID T4-1Q", resourceName: a.com/vgpu}
  - {mdevNameSelector: "GRID T4-2Q", resourceName: a.com/vgpu2, externalResourceProvider: true}
  usb:
  - {resourceName: a.com/kit, selectors: [{vendor: 46F4, product: "1"}, {vendor: 46F4, product: "2"}]}
  - {resourceName: a.com/stick, selectors: [{vendor: "1050", product: "0407"}], externalResourceProvider: true}
mediatedDevicesConfiguration:
  mediatedDeviceTypes: [nvidia-222]
  nodeMediatedDeviceTypes:
  - {nodeSelector: {zone: b}, mediatedDeviceTypes: [nvidia-223]}
dray:
  unit: function
  nodeLabels: {zone: b}
  generic:
  - {name: fuse, path: /dev/fuse, count: 10, preOpen: true}
  - {name: tty, glob: "/dev/ttyUSB*", resourceName: a.com/tty}
  select:
  - {usbSerial: "0001", resourceName: a.com/key}
  - {usbPort: 1-2.3, usbSerial: "0001", resourceName: a.com/key}
  - {pciAddress: "0000:AF:00.0", resourceName: a.com/nvme}
  vgpuProfiles:
  - {pciVendorSelector: "10DE:2330", profile: "1414"}
  - {address: "00000000:AF:00.4", profile: NVIDIA H200X-1-18C}
  sim:
    devices:
    - {name: gpu, count: 2}
    - {name: nic, shape: nic, resourceName: a.com/nic}
    faults: [{device: gpu-1}]
"""
KUBEVIRT = "devices.kubevirt.io/"
ADDED = (
    GenericRule("dray.internal/fuse", "fuse", "/dev/fuse", 10, pre_open=True),
    GenericRule("a.com/tty", "tty", "/dev/ttyUSB*", 1, is_glob=True),
)
SELECTED_USB = (UsbRule("a.com/key", port="1-2.3", serial="0001"), UsbRule("a.com/key", serial="0001"))
PROFILES = (VgpuRule("NVIDIA H200X-1-18C", address="0000:af:00.4"), VgpuRule(1414, "10de:2330"))

SIM = SimConfig(
    devices=(
        SimDevices(name="gpu", count=2, resource_name="dray.internal/sim-gpu"),
        SimDevices(name="nic", shape="nic", resource_name="a.com/nic"),
    ),
    faults=(SimFault(device="gpu-1"),),
)


def test_replace_serves_what_virt_handler_would_and_ours() -> None:
    assert served(load_agent_config(ALL, "x")) == Served(
        generic=(
            GenericRule(KUBEVIRT + "kvm", "kvm", "/dev/kvm", 5),
            GenericRule(KUBEVIRT + "tun", "tun", "/dev/net/tun", 5, pre_open=True),
            GenericRule(KUBEVIRT + "vhost-net", "vhost-net", "/dev/vhost-net", 5, pre_open=True),
            GenericRule(KUBEVIRT + "sev", "sev", "/dev/sev", 5, pre_open=True),
            GenericRule(KUBEVIRT + "vhost-vsock", "vhost-vsock", "/dev/vhost-vsock", 5, pre_open=True),
            *ADDED,
        ),
        sockets=(
            SocketRule(KUBEVIRT + "tdx", "tdx", "/var/run/tdx-qgs/qgs.socket", None, False, False, "tdx"),
            SocketRule(
                KUBEVIRT + "pr-helper",
                "pr-helper",
                "/var/run/kubevirt/daemons/pr/pr-helper.sock",
                5,
                required=True,
                owned=True,
            ),
        ),
        iommufd=5,
        pci=(PciRule("a.com/nvme", address="0000:af:00.0"), PciRule("a.com/t4", "10de:1eb8")),
        mdevs=(MdevRule("a.com/vgpu", "GRID_T4-1Q"),),
        usb=(*SELECTED_USB, UsbRule("a.com/kit", (("46f4", "0001"), ("46f4", "0002")))),
        unit=Unit.FUNCTION,
        mdev_types=MdevTypes(managed=True, desired=("nvidia-223",), external=("GRID_T4-2Q",)),
        vgpu_profiles=PROFILES,
        sim=SIM,
    )


def test_beside_kubevirt_serves_what_it_leaves_to_others_and_ours() -> None:
    text = ALL.replace("dray:\n", "dray:\n  role: beside-kubevirt\n")
    assert served(load_agent_config(text, "x")) == Served(
        generic=ADDED,
        pci=(PciRule("a.com/nvme", address="0000:af:00.0"), PciRule("a.com/h200", "10de:2330")),
        usb=(*SELECTED_USB, UsbRule("a.com/stick", (("1050", "0407"),))),
        unit=Unit.FUNCTION,
        mdev_types=MdevTypes(managed=False),
        vgpu_profiles=PROFILES,
        sim=SIM,
    )


def test_an_empty_file_serves_the_permanent_devices() -> None:
    result = served(load_agent_config("{}", "x"))
    assert result.resources == tuple(KUBEVIRT + name for name in ("kvm", "sev", "tun", "vhost-net"))
    assert {rule.count for rule in result.generic} == {1000}
    assert result.mdev_types == MdevTypes(managed=True)
    assert result.unit is Unit.IOMMU_GROUP


def test_simulated_resources_are_among_the_resources() -> None:
    resources = served(load_agent_config(ALL, "x")).resources
    assert {"dray.internal/sim-gpu", "a.com/nic", "a.com/t4"} <= set(resources)
    assert list(resources) == sorted(resources)


def test_an_empty_object_serves_nothing() -> None:
    config = load_agent_config("{apiVersion: kubevirt.io/v1, kind: KubeVirt}", "x")
    assert served(config) == Served()


def test_labels_of_the_node_win_over_the_files() -> None:
    config = load_agent_config(ALL, "x")
    assert served(config, {"zone": "c"}).mdev_types.desired == ("nvidia-222",)
    assert served(config, {"other": "c"}).mdev_types.desired == ("nvidia-223",)


@pytest.mark.parametrize("switch", ["enabled: false", "mediatedDeviceTypes: [x]"])
def test_mdev_handling_switched_off(switch: str) -> None:
    gates = "developerConfiguration: {featureGates: [DisableMDEVConfiguration]}"
    config = load_agent_config(f"mediatedDevicesConfiguration: {{{switch}}}\n{gates}", "x")
    assert served(config).mdev_types == MdevTypes(managed=False)


def test_equal_files_serve_equal_values_whatever_is_written_around_them() -> None:
    one = served(load_agent_config(ALL, "x"))
    assert one == served(load_agent_config("# a comment\nnetwork: {}\n" + ALL, "y"))
