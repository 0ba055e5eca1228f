"""A machine with something of every kind, and a driver of every kind configured for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dray.drivers.contract import Device, Driver
from dray.drivers.generic import GenericDriver
from dray.drivers.generic.config import KVM, TUN, GenericConfig, GenericDevice
from dray.drivers.iommufd import IommufdDriver
from dray.drivers.mdev import MdevDriver
from dray.drivers.mdev.config import MdevConfig, MdevSelector
from dray.drivers.pci import PciDriver
from dray.drivers.pci.config import PciConfig, PciSelector
from dray.drivers.sim import sim_drivers
from dray.drivers.sim.config import SimConfig, SimDevices, SimFault
from dray.drivers.socket import SocketDriver
from dray.drivers.socket.config import PR_HELPER, TDX, SocketConfig
from dray.drivers.usb import UsbDriver
from dray.drivers.usb.config import UsbConfig, UsbResource, UsbSelector
from dray.hardware.host_root import HostRoot
from dray.runtime.clock import FakeClock
from dray.testing.host import Host, MdevParent, MdevType, PciFunction, UsbDevice

UUID = "83b8f4f2-509f-382f-3c1e-e6bfe0fa{:04x}"
VGPU = {1414: "NVIDIA H200X-1-18C"}
SIM_FAULT = "/run/dray/faults/gpu-1"
SIM = SimConfig(
    devices=(
        SimDevices(name="gpu", count=4, resource_name="x.io/sim-gpu", numa_nodes=2, pcie_roots=2),
        SimDevices(
            name="nic", shape="nic", count=2, resource_name="x.io/sim-nic", shares=3, node="/dev/zero"
        ),
        SimDevices(name="key", shape="usb", resource_name="x.io/sim-key"),
    ),
    faults=(
        SimFault(device="gpu-1", while_file=SIM_FAULT),
        SimFault(device="nic-0", after_seconds=5.0, gone=True),
    ),
)

DRIVERS: dict[str, Driver] = {
    "generic": GenericDriver(
        GenericConfig((KVM, TUN, GenericDevice("disk", "/dev/nvme*n1", shares=None, resource="x.io/disk")))
    ),
    "pci": PciDriver(
        PciConfig(
            (
                PciSelector("nvidia.com/GPU", id="10DE:2330"),
                PciSelector("nvidia.com/VGPU", id="10de:2335"),
                PciSelector("intel.com/nic", id="8086:10d3"),
            )
        )
    ),
    "mdev": MdevDriver(MdevConfig((MdevSelector("nvidia.com/GRID_T4-1Q", "GRID T4-1Q"),))),
    "usb": UsbDriver(
        UsbConfig(
            (
                UsbResource("kubevirt.io/storage", (UsbSelector("46f4", "0001"),)),
                UsbResource("kubevirt.io/pair", (UsbSelector("1050", "0407"), UsbSelector("0951", "1666"))),
            )
        )
    ),
    "socket": SocketDriver(SocketConfig((PR_HELPER, TDX))),
    "iommufd": IommufdDriver(),
    "sim": sim_drivers(SIM, FakeClock())[0],
}


@dataclass
class Machine:
    """The host and handles to what can be unplugged."""

    host: Host
    gpus: list[PciFunction]
    parent: MdevParent
    sticks: list[UsbDevice]

    @property
    def root(self) -> HostRoot:
        return HostRoot(self.host.root)

    @property
    def garbage(self) -> dict[str, Callable[[], None]]:
        """For each kind: spoil one device, and one only."""
        sys = "/sys/bus"
        return {
            "generic": lambda: self.host.unreadable("/dev/kvm"),
            "pci": lambda: self.host.dangle(f"{sys}/pci/devices/0000:05:00.0/iommu_group"),
            "mdev": lambda: self.host.dangle(f"{sys}/mdev/devices/{UUID.format(1)}"),
            "usb": lambda: self.host.garbage(f"{sys}/usb/devices/1-1/uevent"),
            "socket": lambda: self.host.garbage("/sys/fs/cgroup/misc.capacity"),
            "iommufd": lambda: self.host.unreadable("/dev/iommu"),
            "sim": self._spoil_fault_file,
        }

    def _spoil_fault_file(self) -> None:
        """It is there, and says nothing that can be read."""
        self.host.file(SIM_FAULT, "")
        self.host.garbage(SIM_FAULT)

    def look(self, kind: str) -> dict[str, Device]:
        """The devices of a kind by id, at least one."""
        found = {device.id: device for device in DRIVERS[kind].discover(self.root).devices}
        assert found, f"no {kind} device"
        return found


def build(path: Path) -> Machine:
    """All of it; equal calls give equal machines."""
    host = Host(path, vfio="cdev")
    host.char_device("/dev/kvm", 10, 232)
    host.char_device("/dev/net/tun", 10, 200)
    host.char_device("/dev/iommu", 10, 125)
    host.char_device("/dev/null", 1, 3)
    host.char_device("/dev/zero", 1, 5)
    host.block_device("/dev/nvme0n1", 259, 0)
    host.block_device("/dev/nvme1n1", 259, 1)
    host.misc_capacity(tdx=10)
    host.file("/var/run/kubevirt/daemons/pr/pr-helper.sock", "")
    gpus = [
        host.pci(
            f"0000:{bus:02x}:00.0",
            vendor="10de",
            device="2330",
            driver="vfio-pci",
            iommu_group=bus,
            numa_node=bus % 2,
        )
        for bus in (5, 12)
    ]
    for function in (0, 1):
        host.pci(f"0000:20:00.{function}", vendor="8086", device="10d3", driver="vfio-pci", iommu_group=32)
    card = host.pci(
        "0000:41:00.0", vendor="10de", device="2335", driver="nvidia", iommu_group=20, sriov_total=4
    )
    card.vf(driver="nvidia", vgpu_types=VGPU, iommu_group=61).set_vgpu_type(1414)
    owner = host.pci(
        "0000:06:00.0", vendor="10de", device="1eb8", driver="nvidia", iommu_group=3, numa_node=1
    )
    parent = host.mdev_parent(owner, {"nvidia-222": MdevType(16, "GRID T4-1Q")})
    for index in (1, 2):
        parent.create("nvidia-222", UUID.format(index), iommu_group=70 + index)
    sticks = [host.usb(f"1-{port}", vendor="46f4", product="0001") for port in (1, 2)]
    host.usb("2-1", vendor="1050", product="0407", serial="7")
    host.usb("2-2", vendor="0951", product="1666")
    return Machine(host, gpus, parent, sticks)
