"""Device nodes: what stands in /dev, and what sysfs and /proc say about it.

Only root may make device nodes. So a plain, empty file stands for each one, unless the host was made with
`real_nodes=True`; code that looks under a host root other than `/` takes a plain file for a device node.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import Literal

from dray.errors import ConflictError, DeniedError
from dray.testing.host.tree import Attribute, Entry, Link, Tree, ro, verb

NodeKind = Literal["char", "block"]
MISC_MAJOR = 10
_KNOWN_MAJORS = {
    1: "mem",
    5: "/dev/tty",
    MISC_MAJOR: "misc",
    189: "usb_device",
    195: "nvidia",
    226: "drm",
    246: "vfio",
}


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A device node as `stat` would show it on the host; `sysfs` is its device's directory, where it has one."""

    path: str
    kind: NodeKind
    major: int
    minor: int
    mode: int
    sysfs: str = ""

    @property
    def number(self) -> str:
        """The device number as sysfs writes it."""
        return f"{self.major}:{self.minor}"


class Node:
    """A node that a test can take away and bring back."""

    def __init__(self, nodes: Nodes, facts: NodeFacts) -> None:
        self._nodes = nodes
        self.facts = facts
        self.tree = nodes.tree
        self.path = nodes.tree.path(facts.path)

    @verb
    def remove(self) -> None:
        """The device vanishes: its node, and what sysfs says about it."""
        self._nodes.remove(self.facts.path)

    @verb
    def restore(self) -> None:
        """The device is back, with the same numbers."""
        self._nodes.add(self.facts)


class Nodes:
    """All nodes below /dev, kept so that /proc/devices, /proc/misc and /sys/dev tell the same story."""

    def __init__(self, tree: Tree, *, real: bool) -> None:
        if real and os.geteuid() != 0:
            raise DeniedError(
                "real device nodes need root: run as root or leave real_nodes out", what="mknod"
            )
        self.tree = tree
        self._real = real
        self._present: dict[str, NodeFacts] = {}
        tree.mkdir("dev")
        self._write_proc()

    def add(self, facts: NodeFacts) -> None:
        """Make the node last: whoever sees it finds its sysfs entry too."""
        if facts.path in self._present:
            raise ConflictError(f"the host has /{facts.path} already; remove it first")
        if facts.major == MISC_MAJOR and facts.kind == "char" and not facts.sysfs:
            self._place_misc(facts)
        elif facts.sysfs:
            self.tree.link(f"sys/dev/{facts.kind}/{facts.number}", facts.sysfs)
        self._present[facts.path] = facts
        self._write_proc()
        self._make(facts)

    def remove(self, path: str) -> None:
        """Take the node away first, then what sysfs says about it. Nothing happens when it is not there."""
        facts = self._present.pop(path, None)
        if facts is None:
            return
        self.tree.remove(path)
        self.tree.remove(f"sys/dev/{facts.kind}/{facts.number}")
        if facts.major == MISC_MAJOR and facts.kind == "char" and not facts.sysfs:
            self.tree.remove(f"sys/class/misc/{_base(facts)}")
            self.tree.remove(f"sys/devices/virtual/misc/{_base(facts)}")
        self._write_proc()

    def __contains__(self, path: str) -> bool:
        return path in self._present

    def _make(self, facts: NodeFacts) -> None:
        if not self._real:
            self.tree.write(facts.path, Attribute("", facts.mode))
            return
        place = self.tree.path(facts.path)
        place.parent.mkdir(parents=True, exist_ok=True)
        kind = stat.S_IFCHR if facts.kind == "char" else stat.S_IFBLK
        os.mknod(place, facts.mode | kind, os.makedev(facts.major, facts.minor))
        place.chmod(facts.mode)

    def _place_misc(self, facts: NodeFacts) -> None:
        device = f"sys/devices/virtual/misc/{_base(facts)}"
        entries: dict[str, Entry] = {
            "dev": ro(facts.number),
            "subsystem": Link("sys/class/misc"),
            "uevent": Attribute(uevent(facts), 0o644),
        }
        self.tree.place(device, entries)
        self.tree.link(f"sys/class/misc/{_base(facts)}", device)
        self.tree.link(f"sys/dev/char/{facts.number}", device)

    def _write_proc(self) -> None:
        characters = {facts.major for facts in self._present.values() if facts.kind == "char"} | {MISC_MAJOR}
        blocks = {facts.major for facts in self._present.values() if facts.kind == "block"}
        lines = ["Character devices:", *_major_lines(characters), "", "Block devices:", *_major_lines(blocks)]
        self.tree.write("proc/devices", Attribute("\n".join(lines) + "\n"))
        misc = sorted((f.minor, _base(f)) for f in self._present.values() if f.major == MISC_MAJOR)
        self.tree.write("proc/misc", Attribute("".join(f"{minor:3} {name}\n" for minor, name in misc)))


def uevent(facts: NodeFacts) -> str:
    """The lines of `uevent` that every device with a node has; the mode only where it is not the usual one."""
    name = facts.path.removeprefix("dev/")
    mode = "" if facts.mode == 0o600 else f"DEVMODE=0{facts.mode:o}\n"
    return f"MAJOR={facts.major}\nMINOR={facts.minor}\nDEVNAME={name}\n{mode}"


def _base(facts: NodeFacts) -> str:
    return facts.path.rsplit("/", 1)[-1]


def _major_lines(majors: set[int]) -> list[str]:
    return [f"{major:3} {_KNOWN_MAJORS.get(major, f'device{major}')}" for major in sorted(majors)]
