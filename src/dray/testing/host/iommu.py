"""IOMMU groups, and the VFIO devices that user space opens: by group (/dev/vfio/12) and by device (/dev/vfio/devices)."""

from __future__ import annotations

from collections.abc import Container
from itertools import count
from typing import Literal

from dray.testing.host.nodes import MISC_MAJOR, NodeFacts, Nodes, uevent
from dray.testing.host.tree import Attribute, Entry, Link, Tree, ro, rw

VfioStyle = Literal["group", "devices", "cdev"]
_GROUPS = "sys/kernel/iommu_groups"
_IOMMU = "sys/devices/virtual/iommu/dmar0"
_GROUP_MAJOR = 246
_CDEV_MAJOR = 511
_MSI_WINDOW = "0x00000000fee00000 0x00000000feefffff msi"


class IommuGroups:
    """Groups exist while they have a device, as in the kernel."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._members: dict[int, set[str]] = {}

    def free(self) -> int:
        """The number the kernel would give to a new group: the lowest that is not in use."""
        return lowest_free(self._members)

    def members(self, group: int) -> list[str]:
        """The device directories in a group."""
        return sorted(self._members.get(group, ()))

    def entries(self, group: int, *, behind_iommu: bool) -> dict[str, Entry]:
        """The links of a device in `group` (a mediated device is behind no IOMMU of its own)."""
        links: dict[str, Entry] = {"iommu_group": Link(f"{_GROUPS}/{group}")}
        if behind_iommu:
            links["iommu"] = Link(_IOMMU)
        return links

    def join(self, group: int, device: str, *, behind_iommu: bool) -> None:
        """Called before the device's directory appears."""
        if group not in self._members:
            self._members[group] = set()
            self._tree.place(f"{_GROUPS}/{group}", _group_entries(behind_iommu))
        self._members[group].add(device)
        name = device.rsplit("/", 1)[-1]
        self._tree.link(f"{_GROUPS}/{group}/devices/{name}", device)
        if behind_iommu:
            self._place_iommu()
            self._tree.link(f"{_IOMMU}/devices/{name}", device)

    def leave(self, group: int, device: str) -> None:
        """Called before the device's directory goes."""
        name = device.rsplit("/", 1)[-1]
        self._tree.remove(f"{_IOMMU}/devices/{name}")
        self._tree.remove(f"{_GROUPS}/{group}/devices/{name}")
        self._members[group].discard(device)
        if not self._members[group]:
            del self._members[group]
            self._tree.remove(f"{_GROUPS}/{group}")

    def _place_iommu(self) -> None:
        if self._tree.exists(_IOMMU):
            return
        entries: dict[str, Entry] = {
            "intel-iommu/version": ro("1:0"),
            "subsystem": Link("sys/class/iommu"),
            "uevent": Attribute("", 0o644),
        }
        self._tree.place(_IOMMU, entries)
        self._tree.link("sys/class/iommu/dmar0", _IOMMU)


class Vfio:
    """Devices that a vfio driver has: their class entries and their nodes.

    `style` is the kernel's age: "group" has groups only, "devices" (6.1) also `vfio-dev/vfioN` in sysfs, and "cdev"
    (6.6 with CONFIG_VFIO_DEVICE_CDEV) a node /dev/vfio/devices/vfioN for each, and /dev/iommu.
    """

    def __init__(self, tree: Tree, nodes: Nodes, groups: IommuGroups, style: VfioStyle) -> None:
        self._tree = tree
        self._nodes = nodes
        self._groups = groups
        self._style = style
        self._indexes: dict[int, str] = {}
        self._minors: dict[int, int] = {}
        self._users: dict[int, set[str]] = {}

    def load(self) -> None:
        """The vfio module is there: its container node is, whether or not a device is bound."""
        if "dev/vfio/vfio" not in self._nodes:
            self._nodes.add(NodeFacts("dev/vfio/vfio", "char", MISC_MAJOR, 196, 0o666))
        if self._style == "cdev" and "dev/iommu" not in self._nodes:
            self._nodes.add(NodeFacts("dev/iommu", "char", MISC_MAJOR, 124, 0o600))

    def attach(self, device: str, group: int | None) -> None:
        """A vfio driver took the device; its group's node appears with the first device of the group."""
        self.load()
        self._attach_device(device)
        if group is None:
            return
        users = self._users.setdefault(group, set())
        users.add(device)
        if len(users) == 1:
            self._minors[lowest_free(self._minors)] = group
            self._attach_group(group)

    def detach(self, device: str, group: int | None) -> None:
        """The driver let go; the group's node goes with its last device. Nothing happens when it was not attached."""
        self._detach_device(device)
        users = self._users.get(group, set()) if group is not None else set()
        users.discard(device)
        if group is not None and group in self._users and not users:
            del self._users[group]
            self._nodes.remove(f"dev/vfio/{group}")
            self._tree.remove(f"sys/class/vfio/{group}")
            self._tree.remove(f"sys/devices/virtual/vfio/{group}")
            self._minors = {minor: other for minor, other in self._minors.items() if other != group}

    def _attach_group(self, group: int) -> None:
        minor = next(minor for minor, other in self._minors.items() if other == group)
        device = f"sys/devices/virtual/vfio/{group}"
        facts = NodeFacts(f"dev/vfio/{group}", "char", _GROUP_MAJOR, minor, 0o600, device)
        entries: dict[str, Entry] = {
            "dev": ro(facts.number),
            "subsystem": Link("sys/class/vfio"),
            "uevent": Attribute(uevent(facts), 0o644),
        }
        self._tree.place(device, entries)
        self._tree.link(f"sys/class/vfio/{group}", device)
        self._nodes.add(facts)

    def _attach_device(self, device: str) -> None:
        if self._style == "group":
            return
        index = lowest_free(self._indexes)
        self._indexes[index] = device
        place = f"{device}/vfio-dev/vfio{index}"
        facts = NodeFacts(f"dev/vfio/devices/vfio{index}", "char", _CDEV_MAJOR, index, 0o600, place)
        cdev = self._style == "cdev"
        entries: dict[str, Entry] = {
            "device": Link(device),
            "subsystem": Link("sys/class/vfio-dev"),
            "uevent": Attribute(uevent(facts) if cdev else "", 0o644),
        }
        self._tree.place(place, entries | ({"dev": ro(facts.number)} if cdev else {}))
        self._tree.link(f"sys/class/vfio-dev/vfio{index}", place)
        if cdev:
            self._nodes.add(facts)

    def _detach_device(self, device: str) -> None:
        for index in [index for index, owner in self._indexes.items() if owner == device]:
            self._nodes.remove(f"dev/vfio/devices/vfio{index}")
            self._tree.remove(f"sys/class/vfio-dev/vfio{index}")
            self._tree.remove(f"{device}/vfio-dev")
            del self._indexes[index]


def lowest_free(taken: Container[int]) -> int:
    """The number the kernel hands out next: the lowest that is not in use."""
    return next(number for number in count() if number not in taken)


def _group_entries(behind_iommu: bool) -> dict[str, Entry]:
    if behind_iommu:
        return {"reserved_regions": ro(_MSI_WINDOW), "type": rw("DMA")}
    return {"name": ro("vfio-noiommu"), "reserved_regions": Attribute(""), "type": rw("unknown")}
