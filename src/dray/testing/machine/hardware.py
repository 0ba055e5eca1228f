"""The guest's devices: what QEMU is told, and the names by which tests know them.

node 0   alone         one function, alone in its IOMMU group
         pair0, pair1  two functions of one device: one IOMMU group
         old0, old1    two functions behind a bridge that cannot keep them apart: one IOMMU group, the bridge in it
         disk          an NVMe disk that offers two virtual functions
         hot0, hot1    free slots for functions that come later
         usb           a USB controller: port 1 keyboard, 2 stick, 3 a hub with a mouse at 3.1, 4 to 8 free
node 1   far           one function, alone in its IOMMU group
"""

from __future__ import annotations

from collections.abc import Iterable

NETWORK = "8086:10d3"
"""`vendor:device` of alone, pair0, pair1 and far (e1000e)."""
OLD_NETWORK = "8086:100e"
"""`vendor:device` of old0 and old1 (e1000)."""
KEYBOARD, STICK, MOUSE = "KBD-1", "STICK-1", "MOUSE-1"
"""Serial numbers of the USB devices."""

_MEMORY_MB = 768

_MACHINE = (
    ("-machine", "q35,kernel-irqchip=split"),
    ("-cpu", "Nehalem"),
    ("-smp", "2"),
    ("-m", f"{2 * _MEMORY_MB}M"),
    *(
        option
        for node in (0, 1)
        for option in (
            ("-object", f"memory-backend-ram,id=memory{node},size={_MEMORY_MB}M"),
            ("-numa", f"node,nodeid={node},cpus={node},memdev=memory{node}"),
        )
    ),
    ("-device", "intel-iommu,intremap=on,caching-mode=on"),
)

_VIRTUAL_FUNCTIONS = "sriov_max_vfs=2,max_ioqpairs=6,msix_qsize=7,sriov_vq_flexible=4,sriov_vi_flexible=2"
_PCI = (
    "e1000e,id=alone,bus=pcie.0,addr=0x4.0,romfile=",
    "rtl8139,id=pair0,bus=pcie.0,addr=0x5.0,multifunction=on,romfile=",
    "rtl8139,id=pair1,bus=pcie.0,addr=0x5.1,romfile=",
    "pcie-pci-bridge,id=oldbus,bus=pcie.0,addr=0x6.0",
    "e1000,id=old0,bus=oldbus,addr=0x1.0,romfile=",
    "e1000,id=old1,bus=oldbus,addr=0x2.0,romfile=",
    "pcie-root-port,id=diskport,bus=pcie.0,addr=0x7.0,chassis=1,slot=1",
    "nvme-subsys,id=disks,nqn=disks",
    f"nvme,id=disk,bus=diskport,serial=DISK-1,subsys=disks,{_VIRTUAL_FUNCTIONS}",
    "pcie-root-port,id=hot0,bus=pcie.0,addr=0x8.0,chassis=2,slot=2",
    "pcie-root-port,id=hot1,bus=pcie.0,addr=0x9.0,chassis=3,slot=3",
    "pxb-pcie,id=node1,bus=pcie.0,addr=0xa.0,bus_nr=128,numa_node=1",
    "pcie-root-port,id=farport,bus=node1,chassis=4,slot=4",
    "e1000e,id=far,bus=farport,romfile=",
)

_USB = (
    "qemu-xhci,id=usb,bus=pcie.0,addr=0xb.0,p2=8,p3=2",
    f"usb-kbd,id=keyboard,bus=usb.0,port=1,serial={KEYBOARD}",
    f"usb-storage,id=stick,bus=usb.0,port=2,drive=stickdata,serial={STICK}",
    "usb-hub,id=hub,bus=usb.0,port=3",
    f"usb-mouse,id=mouse,bus=usb.0,port=3.1,serial={MOUSE}",
)


def blank_disk(name: str) -> dict[str, object]:
    """A disk of zeros, for `-blockdev` and `blockdev-add`."""
    return {"driver": "null-co", "node-name": name, "size": 1 << 20, "read-zeroes": True}


def options(more_devices: Iterable[str] = ()) -> list[str]:
    """The hardware as QEMU's command line has it; `more_devices` are added as `-device`."""
    disk = ",".join(
        f"{key}={'on' if value is True else value}" for key, value in blank_disk("stickdata").items()
    )
    words = [word for option in _MACHINE for word in option]
    words += ["-blockdev", disk]
    return words + [word for device in (*_PCI, *_USB, *more_devices) for word in ("-device", device)]
