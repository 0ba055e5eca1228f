"""A machine made of files: `Host(tmp_path)` lays out /sys, /dev and /proc as a real kernel does, without hardware.

In: a directory, and lines that say which devices the machine has.
Out: a tree to pass as `--host-root`, handles with the verbs of hot plug, and files that act when they are written.
Next: discovery, health and preparation of any driver, run on that tree.

    host = Host(tmp_path)
    gpu = host.pci("0000:05:00.0", vendor="10de", device="2330", driver="vfio-pci", iommu_group=12, numa_node=1)
    key = host.usb("1-1", vendor="1050", product="0407", serial="0001")
    host.char_device("/dev/kvm", 10, 232)
    gpu.unbind()                       # /dev/vfio/12 goes
    key.unplug(); key.replug()         # same port, new device number
    with host.active():                # now writes act: bind, unbind, create, remove, sriov_numvfs ...
        (host.root / "sys/bus/pci/drivers/vfio-pci/bind").write_text("0000:05:00.0")
        host.settle()

Names, modes, link forms and texts follow a Linux 6.1 that was read file by file (the tests compare them). Devices appear
and vanish as on a host: whole directories, links before nodes. The tree is deterministic: the same lines give the same
bytes.
"""

from dray.testing.host.actions import Write
from dray.testing.host.machine import Host
from dray.testing.host.mdev import Mdev, MdevParent, MdevType
from dray.testing.host.nodes import Node
from dray.testing.host.pci import PciFunction
from dray.testing.host.pci_facts import PciFacts, Sriov
from dray.testing.host.usb import UsbDevice
from dray.testing.host.usb_files import UsbFacts

__all__ = [
    "Host",
    "Mdev",
    "MdevParent",
    "MdevType",
    "Node",
    "PciFacts",
    "PciFunction",
    "Sriov",
    "UsbDevice",
    "UsbFacts",
    "Write",
]
