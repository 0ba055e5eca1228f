"""What the machine has besides devices: NUMA nodes and their processors, cgroup capacities, SELinux, modules."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from dray.errors import InvalidError
from dray.testing.host.tree import Attribute, Entry, Link, Tree, ro, wo

_NODES = "sys/devices/system/node"
_CPUS = "sys/devices/system/cpu"
_CGROUP = "sys/fs/cgroup"
_CONTROLLERS = "cpuset cpu io memory hugetlb pids rdma misc"

SelinuxState = Literal["enforcing", "permissive", "disabled"]


@dataclass(frozen=True, slots=True)
class _NumaNode:
    cpus: tuple[int, ...]
    memory_kb: int


class System:
    """One processor on no particular node, cgroup v2 and no SELinux, until a test says otherwise."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._nodes: dict[int, _NumaNode] = {}
        self.on_change: Callable[[], None] | None = None
        tree.write(f"{_CGROUP}/cgroup.controllers", ro(_CONTROLLERS))
        self._write_cpus()

    def cpus_near(self, node: int) -> tuple[int, ...]:
        """The processors of a node; all of them where the device has none (-1) or the node is unknown."""
        return self._nodes[node].cpus if node in self._nodes else self._all_cpus()

    def mask(self, cpus: tuple[int, ...]) -> str:
        """Processors as the kernel's mask: hexadecimal, in groups of 32 bits, as wide as the machine."""
        return cpu_mask(cpus, max(self._all_cpus()) + 1)

    def add_node(self, node: int, cpus: str, memory_kb: int) -> None:
        """Add or change one node. Distances are 10 at home and 20 elsewhere."""
        self._nodes[node] = _NumaNode(parse_cpus(cpus), memory_kb)
        self._write_cpus()
        for number in sorted(self._nodes):
            self._place_node(number)
        online = cpu_list(tuple(sorted(self._nodes)))
        for name in ("has_cpu", "has_memory", "has_normal_memory", "online", "possible"):
            self._tree.write(f"{_NODES}/{name}", ro(online))
        self._tree.write(f"{_NODES}/has_generic_initiator", ro(""))
        self._tree.write(f"{_NODES}/uevent", Attribute("", 0o644))
        if self.on_change is not None:
            self.on_change()

    def misc_capacity(self, capacity: Mapping[str, int]) -> None:
        """What the misc controller offers; the file is there and empty when nothing is."""
        text = "".join(f"{key} {value}\n" for key, value in capacity.items())
        self._tree.write(f"{_CGROUP}/misc.capacity", Attribute(text))

    def cgroup(self, version: int) -> None:
        """Version 2 has one tree (`cgroup.controllers` at its top), version 1 one per controller."""
        self._tree.remove(f"{_CGROUP}/cgroup.controllers")
        if version == 2:
            self._tree.write(f"{_CGROUP}/cgroup.controllers", ro(_CONTROLLERS))
        elif version == 1:
            for controller in ("cpuset", "devices", "memory", "misc", "pids"):
                self._tree.mkdir(f"{_CGROUP}/{controller}")
        else:
            raise InvalidError(f"cgroup version {version} does not exist: use 1 or 2", field="version")

    def selinux(self, state: SelinuxState) -> None:
        """The kernel's answer has no newline; a host without SELinux has no file at all."""
        if state == "disabled":
            self._tree.remove("sys/fs/selinux")
        else:
            self._tree.write("sys/fs/selinux/enforce", Attribute("1" if state == "enforcing" else "0", 0o644))

    def module(self, name: str, parameters: Mapping[str, str]) -> None:
        """A loaded kernel module. Told twice, the parameters of the second time are added."""
        directory = f"sys/module/{name.replace('-', '_')}"
        self._tree.write(f"{directory}/initstate", ro("live"))
        for key, value in parameters.items():
            self._tree.write(f"{directory}/parameters/{key}", ro(value))

    def _all_cpus(self) -> tuple[int, ...]:
        return tuple(sorted({cpu for node in self._nodes.values() for cpu in node.cpus})) or (0,)

    def _write_cpus(self) -> None:
        self._tree.mkdir("sys/bus/node/devices")
        for cpu in self._all_cpus():
            self._tree.mkdir(f"{_CPUS}/cpu{cpu}")
        for name in ("online", "possible", "present"):
            self._tree.write(f"{_CPUS}/{name}", ro(cpu_list(self._all_cpus())))

    def _place_node(self, node: int) -> None:
        cpus = self._nodes[node].cpus
        directory = f"{_NODES}/node{node}"
        distances = " ".join("10" if other == node else "20" for other in sorted(self._nodes))
        entries: dict[str, Entry] = {
            "compact": wo(),
            "cpulist": ro(cpu_list(cpus)),
            "cpumap": ro(self.mask(cpus)),
            "distance": ro(distances),
            "meminfo": ro(f"Node {node} MemTotal:       {self._nodes[node].memory_kb:8} kB"),
            "subsystem": Link("sys/bus/node"),
            "uevent": Attribute("", 0o644),
        }
        entries |= {f"cpu{cpu}": Link(f"{_CPUS}/cpu{cpu}") for cpu in cpus}
        self._tree.remove(directory)
        self._tree.place(directory, entries)
        self._tree.link(f"sys/bus/node/devices/node{node}", directory)


def parse_cpus(text: str) -> tuple[int, ...]:
    """A list as the kernel writes it (`0-3,8`) as numbers."""
    cpus: set[int] = set()
    for part in filter(None, text.split(",")):
        found = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", part)
        if found is None:
            raise InvalidError(f"{text!r} is not a list of processors: write it like 0-3,8", field="cpus")
        first, last = found.groups()
        cpus.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(cpus))


def cpu_list(cpus: tuple[int, ...]) -> str:
    """Numbers as the kernel lists them: `0-3,8`."""
    parts: list[str] = []
    start = 0
    for index, cpu in enumerate(cpus):
        if index + 1 == len(cpus) or cpus[index + 1] != cpu + 1:
            first = cpus[start]
            parts.append(str(cpu) if first == cpu else f"{first}-{cpu}")
            start = index + 1
    return ",".join(parts)


def cpu_mask(cpus: tuple[int, ...], width: int) -> str:
    """Numbers as the kernel's bit mask over `width` bits."""
    mask = sum(1 << cpu for cpu in cpus)
    groups = []
    for shift in range(0, width, 32):
        digits = (min(32, width - shift) + 3) // 4
        groups.append(f"{mask >> shift & 0xFFFFFFFF:0{digits}x}")
    return ",".join(reversed(groups))
