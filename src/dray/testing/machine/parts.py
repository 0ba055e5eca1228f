"""What a guest needs, and where the installed copies lie: one directory of the cache per content of these lists."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from dray.testing.kubernetes.tools import cache_dir

PACKAGES = ("busybox-static", "linux-image-amd64", "pciutils", "qemu-system-x86", "usbutils")
BUILD_PACKAGES = ("linux-headers-amd64", "linux-source", "make")
# The libraries above it must fit the C library's loader, and that is the machine's own.
LEFT_OUT = ("libc6",)

MODULES = (
    "virtio_pci",
    "virtio_console",
    "9pnet_virtio",
    "9p",
    "xhci_pci",
    "usb_storage",
    "usbhid",
    "hid_generic",
    "e1000",
    "e1000e",
    "nvme",
    "vfio_iommu_type1",
    "vfio_pci",
    "mdev",
    "mtty",
)
"""Loaded at boot, in this order, each after those it depends on."""

_PROGRAMS = {
    "qemu": "usr/bin/qemu-system-x86_64",
    "busybox": "bin/busybox",
    "lspci": "usr/bin/lspci",
    "lsusb": "usr/bin/lsusb",
}
_LIBRARIES = ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu")
_VERSION = 2  # raise it when the installer puts other things in the same place


@dataclass(frozen=True)
class Parts:
    """The installed parts. `directory` appears when all of it is complete."""

    directory: Path

    @property
    def kernel(self) -> Path:
        """The kernel that the guest boots."""
        return self.directory / "vmlinuz"

    @property
    def modules(self) -> Path:
        """A directory with the modules and a file `order` that names them in the order to load."""
        return self.directory / "modules"

    def program(self, name: str) -> Path:
        """`qemu`, `busybox`, `lspci` or `lsusb`; all but busybox need `libraries`."""
        return self.directory / "root" / _PROGRAMS[name]

    @property
    def libraries(self) -> dict[str, str]:
        """The environment in which the programs find their libraries."""
        return library_path(self.directory / "root")

    @property
    def firmware(self) -> tuple[Path, ...]:
        """Where QEMU finds what it loads into the guest."""
        share = self.directory / "root" / "usr" / "share"
        return (share / "qemu", share / "seabios")

    def is_installed(self) -> bool:
        """Whether a guest can be started."""
        return self.directory.is_dir()


def library_path(root: Path) -> dict[str, str]:
    """The environment for programs of packages that were unpacked below `root`."""
    return {"LD_LIBRARY_PATH": os.pathsep.join(str(root / part) for part in _LIBRARIES)}


def locate() -> Parts:
    """Where the parts lie, or will."""
    key = repr((_VERSION, PACKAGES, BUILD_PACKAGES, LEFT_OUT, MODULES)).encode()
    return Parts(cache_dir() / f"machine-{hashlib.sha256(key).hexdigest()[:12]}")
