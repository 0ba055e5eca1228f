"""Nodes of NVIDIA's driver that no module makes by itself: those that let a container use a part of a divided card."""

from __future__ import annotations

import os
import stat
from typing import ClassVar

from dray.errors import ConflictError, Error, HardwareError, NotFoundError
from dray.hardware.change.access import Access, refused
from dray.hardware.change.value import Capability, Effect, HostChange, check_range
from dray.hardware.nvml.capabilities import NODES, read_mig_nodes
from dray.runtime.files.safepath import SafePath

_MODE = 0o444
_DIRECTORY_MODE = 0o755


class MakeCapabilityNode(HostChange, frozen=True):
    """Make `/dev/nvidia-caps/nvidia-cap<minor>`, as nvidia-modprobe would. It stays: the driver uses the number again."""

    files: ClassVar[tuple[str, ...]] = (f"{NODES}/nvidia-cap{{minor}}",)
    needs: ClassVar[tuple[Capability, ...]] = (Capability.MKNOD,)

    minor: int

    def __post_init__(self) -> None:
        check_range(self.minor, 0, 2**20 - 1, "minor")

    @property
    def device(self) -> str:
        """The node."""
        return self.target

    def describe(self) -> str:
        """One line."""
        return f"make the node {self.target}"

    def is_so(self, host: Access) -> bool:
        """A node is there; its number is looked at where it is no stand-in."""
        try:
            status = host.reading.stat(self.target)
        except NotFoundError:
            return False
        return not stat.S_ISCHR(status.st_mode) or status.st_rdev == self._number(host)

    def perform(self, host: Access) -> Effect:
        """Make it, and its directory where that is missing. ConflictError where another device has the name."""
        if self.is_so(host):
            return Effect(changed=False)
        number = self._number(host)
        try:
            root, dev = host.open("/dev")
            with root, dev, _directory(dev, NODES.rpartition("/")[2]) as directory:
                directory.mknod(self.target.rpartition("/")[2], stat.S_IFCHR | _MODE, number)
        except ConflictError:
            if not self.is_so(host):  # somebody else made another one
                raise
            return Effect(changed=False)
        except Error as error:
            raise refused(error, self.target, self.target, {}) from error
        return Effect(changed=True)

    def _number(self, host: Access) -> int:
        for line in (host.read("/proc/devices") or "").splitlines():
            major, _, name = line.strip().partition(" ")
            if name == "nvidia-caps" and major.isdecimal():
                return os.makedev(int(major), self.minor)
        message = "/proc/devices has no nvidia-caps: the driver that is loaded cannot divide cards"
        raise HardwareError(message, device=self.target, path="/proc/devices")


def make_nodes(host: Access, minor: int, gpu_instance: int, compute_instance: int) -> None:
    """Both nodes of a MIG device, for a change that made one. A host that tells nothing of them has none to make."""
    try:
        paths = read_mig_nodes(host.reading, minor, gpu_instance, compute_instance)
    except NotFoundError:
        return
    for path in paths:
        MakeCapabilityNode(int(path.removeprefix(f"{NODES}/nvidia-cap"))).perform(host)


def _directory(dev: SafePath, name: str) -> SafePath:
    try:
        return dev.child(name)
    except NotFoundError:
        return dev.mkdir(name, _DIRECTORY_MODE)
