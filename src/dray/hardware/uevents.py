"""What the kernel says when devices come, go or change drivers: the only notice for sysfs, where inotify sees nothing."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass

from dray.errors import UnavailableError

_PROTOCOL = 15  # NETLINK_KOBJECT_UEVENT
_KERNEL = 1  # the multicast group of the kernel itself; 2 is udev's
_BUFFER = 1 << 20
_SIZE = 1 << 16
_SUBSYSTEMS = frozenset({"drivers", "iommu", "mdev", "pci", "usb", "vfio", "vfio-dev"})


@dataclass(frozen=True, slots=True)
class Uevent:
    """One notice. `path` is the device's, below /sys."""

    action: str
    path: str
    subsystem: str
    has_mdev_state: bool = False

    @property
    def is_about_devices(self) -> bool:
        """Whether it can change what a look finds. Containers that start cause many that cannot."""
        return self.subsystem in _SUBSYSTEMS or self.has_mdev_state


def parse_uevent(message: bytes) -> Uevent | None:
    """The notice in a message of the kernel; None where it is something else, like udev's own."""
    head, *lines = message.split(b"\0")
    action, separator, path = head.partition(b"@")
    if not separator or not path.startswith(b"/"):
        return None
    facts = dict(line.split(b"=", 1) for line in lines if b"=" in line)
    subsystem = facts.get(b"SUBSYSTEM", b"").decode(errors="replace")
    return Uevent(
        action.decode(errors="replace"), path.decode(errors="replace"), subsystem, b"MDEV_STATE" in facts
    )


class Uevents:
    """The kernel's notices, from now on. Made = listening; has a `fileno` to wait on; one thread uses it.

    UnavailableError where the kernel or a sandbox does not allow it: then only looking now and then helps. The kernel
    sends them to the network namespaces of its own user namespace, so a pod need not have the host's network.
    """

    def __init__(self) -> None:
        try:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _PROTOCOL)
        except OSError as error:
            raise UnavailableError(f"the kernel's device notices cannot be had: {error}") from error
        try:
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
            self._socket.bind((0, _KERNEL))
        except OSError as error:
            self._socket.close()
            raise UnavailableError(f"the kernel's device notices cannot be had: {error}") from error

    def __enter__(self) -> Uevents:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def fileno(self) -> int:
        """To wait on until there is something to drain."""
        return self._socket.fileno()

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()

    def drain(self) -> bool:
        """Take what has come; whether any of it is about devices. Notices that the kernel had to drop count as such."""
        concerns = False
        while True:
            try:
                message, _, _, (sender, _) = self._socket.recvmsg(_SIZE)
            except BlockingIOError:
                return concerns
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                concerns = True
                continue
            event = parse_uevent(message) if sender == 0 else None
            concerns = concerns or (event is not None and event.is_about_devices)
