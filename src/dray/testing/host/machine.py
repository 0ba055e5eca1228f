"""`Host`: the machine a test builds, in a few lines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from dray.errors import ConflictError, InvalidError
from dray.testing.host.actions import Actions, Write
from dray.testing.host.iommu import IommuGroups, Vfio, VfioStyle
from dray.testing.host.mdev import MdevBus, MdevParent, MdevType
from dray.testing.host.nodes import Node, NodeFacts, NodeKind, Nodes
from dray.testing.host.pci import PciFunction
from dray.testing.host.pci_bus import PciBus
from dray.testing.host.pci_facts import PciFacts, PciOptions, Sriov
from dray.testing.host.system import SelinuxState, System
from dray.testing.host.tree import Attribute, Link, Tree, ro, verb
from dray.testing.host.usb import UsbBus, UsbDevice
from dray.testing.host.usb_files import UsbFacts, UsbOptions
from dray.testing.host.watcher import LEASES, Watcher

_JUNK = bytes(range(128, 256)) + b"\x00 not what you expect \xff\n"


@dataclass(frozen=True, slots=True)
class _VirtualDevice:
    directory: str
    driver: str = ""


class Host:
    """A machine below `root`, which is what `--host-root` gets.

    `real_nodes` makes device nodes where plain files would stand (root only). `vfio` is the kernel's age: "group" knows
    groups only, "devices" (the default, as 6.1) has `vfio-dev/vfioN` in sysfs too, "cdev" also a node for each.
    Paths may be given as on a host (`/dev/kvm`) or below the root. One thread at a time calls the verbs.
    """

    def __init__(self, root: str | Path, *, real_nodes: bool = False, vfio: VfioStyle = "devices") -> None:
        self.root = Path(root)
        self.tree = Tree(self.root)
        self._actions = Actions(self.tree)
        self._system = System(self.tree)
        self._nodes = Nodes(self.tree, real=real_nodes)
        groups = IommuGroups(self.tree)
        vfio_class = Vfio(self.tree, self._nodes, groups, vfio)
        self._pci = PciBus(self.tree, self._actions, groups, vfio_class, self._system)
        self._mdev = MdevBus(self.tree, self._actions, groups, vfio_class)
        self._usb = UsbBus(self.tree, self._actions, self._nodes)
        self._watcher: Watcher | None = None

    # Devices.

    @verb
    def pci(
        self,
        address: str,
        *,
        driver: str = "",
        sriov_total: int = 0,
        sriov: Sriov | None = None,
        **facts: Unpack[PciOptions],
    ) -> PciFunction:
        """A PCI function; `facts` are those of `PciFacts` (`vendor="10de"`, `device="2330"`, `iommu_group=12`, …).

        It lies behind the bridge that has its bus (`pci_bridge`), else on a root bus of its own. `sriov_total` lets it
        make that many virtual functions (`Sriov` says more about them).
        """
        sriov = sriov or (Sriov(sriov_total) if sriov_total else None)
        function = PciFunction(self._pci, PciFacts(address, **facts), sriov)
        self._pci.add(function, driver)
        return function

    def pci_bridge(
        self, address: str, *, bus: int, driver: str = "pcieport", **facts: Unpack[PciOptions]
    ) -> PciFunction:
        """A root port or bridge with `bus` behind it; add it before the functions on that bus."""
        port: PciOptions = {"vendor": "1b36", "device": "000c", "class_code": "060400", "secondary_bus": bus}
        return self.pci(address, driver=driver, **(port | facts))

    @verb
    def driver(self, name: str, ids: Iterable[str] = ()) -> None:
        """Load a PCI driver that no device has yet; `ids` (`"8086:10d3"`) are the devices it takes when asked."""
        self._pci.driver(name, ids)

    @verb
    def mdev_parent(
        self,
        owner: PciFunction | str,
        types: Mapping[str, MdevType],
        *,
        driver: str = "",
        exclusive: bool = False,
    ) -> MdevParent:
        """Let a function, or a virtual device of this name (`"mtty"`), make mediated devices.

        `driver` is the one that takes the instances. With `exclusive` a parent makes one type at a time.
        """
        if isinstance(owner, PciFunction):
            known = driver or ("nvidia-vgpu-vfio" if owner.driver == "nvidia" else "vfio_mdev")
            parent = self._mdev.add(owner, types, known, exclusive)
            owner.followers.append(parent)
            return parent
        directory = f"sys/devices/virtual/{owner}/{owner}"
        self.tree.place(directory, {"subsystem": Link(f"sys/class/{owner}"), "uevent": Attribute("", 0o644)})
        self.tree.link(f"sys/class/{owner}/{owner}", directory)
        return self._mdev.add(_VirtualDevice(directory), types, driver or owner, exclusive)

    @verb
    def usb(
        self,
        port: str,
        *,
        dev: int | None = None,
        controller: PciFunction | None = None,
        **facts: Unpack[UsbOptions],
    ) -> UsbDevice:
        """A USB device on a port (`1-2.3`: bus 1, port 2, there port 3); hubs on the way are made.

        `facts` are those of `UsbFacts` (`vendor="46f4"`, `product="0001"`, `serial="7"`, …). `dev` is its device number,
        by default the next of the bus. The first device of a bus says which PCI function is its controller; without one
        the bus hangs on a platform device and no PCI function is made for it.
        """
        return self._usb.add(UsbFacts(port, **facts), dev, controller)

    def char_device(self, path: str, major: int, minor: int, *, mode: int = 0o600) -> Node:
        """A character device; one of major 10 gets its entry in /sys/class/misc."""
        return self._add_node(path, "char", major, minor, mode)

    def block_device(self, path: str, major: int, minor: int, *, mode: int = 0o600) -> Node:
        """A block device."""
        return self._add_node(path, "block", major, minor, mode)

    # The machine.

    @verb
    def numa_node(self, node: int, *, cpus: str, memory_kb: int = 1048576) -> None:
        """A NUMA node with its processors (`"0-3,8"`); devices near it list them in `local_cpulist`."""
        self._system.add_node(node, cpus, memory_kb)

    @verb
    def misc_capacity(self, **capacity: int) -> None:
        """What cgroup's misc controller offers: `misc_capacity(sev=500, sev_es=99, tdx=10)`."""
        self._system.misc_capacity(capacity)

    @verb
    def cgroup(self, version: int) -> None:
        """The host's cgroup version: 1 or 2 (which it has from the start)."""
        self._system.cgroup(version)

    @verb
    def selinux(self, state: SelinuxState) -> None:
        """Whether SELinux is enforcing, permissive or disabled (as it is from the start)."""
        self._system.selinux(state)

    @verb
    def module(self, name: str, **parameters: str) -> None:
        """A loaded kernel module and its parameters: `module("kvm_intel", nested="Y")`."""
        self._system.module(name, parameters)

    @verb
    def file(self, path: str | Path, text: str | bytes, *, mode: int = 0o444) -> Path:
        """Any other file, replaced in one step: `file("/proc/cmdline", "intel_iommu=on")`."""
        name = self.tree.name(path)
        self.tree.write(
            name, Attribute(text, mode) if isinstance(text, bytes) else ro(text.removesuffix("\n"))
        )
        self.tree.path(name).chmod(mode)
        return self.tree.path(name)

    @verb
    def link(self, path: str | Path, target: str) -> Path:
        """A symbolic link with exactly this text, absolute or leading anywhere."""
        place = self.tree.path(self.tree.name(path))
        self.tree.remove(self.tree.name(path))
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
        return place

    # What breaks.

    @verb
    def garbage(self, path: str | Path, data: bytes = _JUNK) -> None:
        """Replace what an existing file holds by bytes nobody expects."""
        name = self.tree.name(path)
        self.tree.require(name)
        self.tree.write(name, Attribute(data))

    @verb
    def deny(self, path: str | Path) -> None:
        """Take all permissions from an existing file or directory. Root reads it all the same: see `unreadable`."""
        self.tree.require(self.tree.name(path)).chmod(0)

    @verb
    def unreadable(self, path: str | Path) -> None:
        """Make reading an existing file fail for root too (EISDIR: a directory stands in its place)."""
        name = self.tree.name(path)
        self.tree.require(name)
        self.tree.remove(name)
        self.tree.mkdir(name)

    @verb
    def dangle(self, path: str | Path) -> None:
        """Let an existing link lead nowhere."""
        name = self.tree.name(path)
        if not self.tree.require(name).is_symlink():
            raise InvalidError(f"{name!r} is not a link", field="path")
        self.link(name, f"../gone/{name.rsplit('/', 1)[-1]}")

    @verb
    def vanish(self, path: str | Path) -> None:
        """Remove any file, link or directory, whatever it belongs to."""
        name = self.tree.name(path)
        self.tree.require(name)
        self.tree.remove(name)

    # Files that act.

    @contextmanager
    def active(self, *, leases: bool = True) -> Iterator[Host]:
        """Inside the block writes to the files below act, as on a kernel; wait for their effect, or `settle()`.

        PCI: a driver's `bind`, `unbind`, `new_id` and `remove_id`, the bus's `drivers_probe` and `rescan`, a function's
        `driver_override`, `remove`, `reset`, `numa_node`, `sriov_numvfs` and `nvidia/current_vgpu_type`.
        Mediated devices: a type's `create`, an instance's `remove`. USB: a device's `remove`.

        A writer's open() waits a moment until the file is ready for it (`watcher.py`); one with O_NONBLOCK gets EAGAIN.
        With `leases=False` no open waits, and of several quick writes to one file only the last may be seen.
        """
        if self._watcher is not None:
            raise ConflictError("the host's files act already: one active() at a time")
        with Watcher(self.tree, self._actions, leases=LEASES if leases else 0) as self._watcher:
            try:
                yield self
                self.settle()
            finally:
                self._watcher = None

    def settle(self, timeout: float = 10.0) -> None:
        """Return when all writes so far have been acted upon; held ones aside."""
        if self._watcher is None:
            raise ConflictError("the host's files do not act: use settle() inside `with host.active():`")
        self._watcher.settle(timeout)

    @property
    def writes(self) -> tuple[Write, ...]:
        """Every write that was seen, in order, with how the kernel took it."""
        with self.tree.lock:
            return tuple(self._actions.log)

    def ignore_writes(self, pattern: str, times: float = 1) -> None:
        """Let the next writes to files like `"*/create"` do nothing, as a driver does that fails in silence."""
        self._actions.ignore(pattern, times)

    def delay_writes(self, pattern: str, seconds: float, times: float = math.inf) -> None:
        """Let writes to files like `"*/create"` act that much later, as a slow device does."""
        self._actions.delay(pattern, seconds, times)

    def hold_writes(self, pattern: str) -> AbstractContextManager[None]:
        """Inside the block let no write to files like `"*/create"` act; they all do when it ends."""
        return self._actions.hold(pattern)

    @verb
    def _add_node(self, path: str, kind: NodeKind, major: int, minor: int, mode: int) -> Node:
        node = Node(self._nodes, NodeFacts(self.tree.name(path), kind, major, minor, mode))
        self._nodes.add(node.facts)
        return node
