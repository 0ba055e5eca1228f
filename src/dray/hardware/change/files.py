"""Who may open a file of the host: owner, mode, SELinux label. One open, and all is done to that very file."""

from __future__ import annotations

import errno
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from dray.errors import Error
from dray.hardware.change.access import Access, refused
from dray.hardware.change.value import Capability, Effect, HostChange, check_path, check_range
from dray.runtime.files.safepath import SafePath

CONTAINER_FILE = "system_u:object_r:container_file_t:s0"
"""The label that lets containers use a file."""

_KEEP = -1


class Chown(HostChange, frozen=True):
    """Give a device node, socket or directory to a user and group; -1 keeps one of them."""

    files: ClassVar[tuple[str, ...]] = ("{path}",)
    needs: ClassVar[tuple[Capability, ...]] = (Capability.CHOWN,)
    undone_by: ClassVar[str] = "Chown"

    path: str
    uid: int
    gid: int

    def __post_init__(self) -> None:
        check_path(self.path)
        check_range(self.uid, _KEEP, 2**32 - 2, "uid")
        check_range(self.gid, _KEEP, 2**32 - 2, "gid")

    @property
    def device(self) -> str:
        """The path."""
        return self.path

    def describe(self) -> str:
        """One line."""
        return f"give {self.path} to user {self.uid}, group {self.gid}"

    def is_so(self, host: Access) -> bool:
        """Owner and group are these."""
        with _opened(host, self.path) as file:
            return self._suits(file)

    def perform(self, host: Access) -> Effect:
        """Change the owner of the file that has the name now."""
        unmapped = (
            f"user {self.uid} or group {self.gid} is not mapped in the user namespace that Dray runs in"
        )
        with _opened(host, self.path, unmapped) as file:
            if self._suits(file):
                return Effect(changed=False)
            before = file.stat()
            file.chown(self.uid, self.gid)
            return Effect(changed=True, undo=Chown(self.path, before.st_uid, before.st_gid))

    def _suits(self, file: SafePath) -> bool:
        status = file.stat()
        return self.uid in (_KEEP, status.st_uid) and self.gid in (_KEEP, status.st_gid)


class Chmod(HostChange, frozen=True):
    """Set the permission bits of a device node, socket or directory."""

    files: ClassVar[tuple[str, ...]] = ("{path}",)
    needs: ClassVar[tuple[Capability, ...]] = (Capability.FOWNER,)
    undone_by: ClassVar[str] = "Chmod"

    path: str
    mode: int

    def __post_init__(self) -> None:
        check_path(self.path)
        check_range(self.mode, 0, 0o1777, "mode")  # set-id bits have no place on a device

    @property
    def device(self) -> str:
        """The path."""
        return self.path

    def describe(self) -> str:
        """One line."""
        return f"set the mode of {self.path} to {self.mode:04o}"

    def is_so(self, host: Access) -> bool:
        """The permission bits are exactly these."""
        with _opened(host, self.path) as file:
            return stat.S_IMODE(file.stat().st_mode) == self.mode

    def perform(self, host: Access) -> Effect:
        """Change the mode of the file that has the name now."""
        with _opened(host, self.path) as file:
            before = stat.S_IMODE(file.stat().st_mode)
            if before == self.mode:
                return Effect(changed=False)
            file.chmod(self.mode)
            # A file that was set-id does not become it again by us.
            return Effect(changed=True, undo=Chmod(self.path, before & 0o1777))


class Relabel(HostChange, frozen=True):
    """Set the SELinux label of a file or socket, where it differs.

    The caller knows whether SELinux enforces: with `enforcing` False a failure is reported and not raised. Where
    SELinux is off, do not ask for it at all.
    """

    files: ClassVar[tuple[str, ...]] = ("{path}",)
    needs: ClassVar[tuple[Capability, ...]] = (Capability.FOWNER, Capability.SYS_ADMIN)
    undone_by: ClassVar[str] = "Relabel"

    path: str
    label: str = CONTAINER_FILE
    enforcing: bool = True

    def __post_init__(self) -> None:
        check_path(self.path)
        check_range(len(self.label), 1, 4096, "length of label")

    @property
    def required(self) -> bool:
        """A label that nobody enforces is not worth a failed pod."""
        return self.enforcing

    @property
    def device(self) -> str:
        """The path."""
        return self.path

    def describe(self) -> str:
        """One line."""
        return f"label {self.path} as {self.label}"

    def is_so(self, host: Access) -> bool:
        """The label is exactly this."""
        with _opened(host, self.path) as file:
            return file.label() == self.label

    def perform(self, host: Access) -> Effect:
        """Change the label of the file that has the name now."""
        with _opened(host, self.path, f"the loaded SELinux policy does not know {self.label}") as file:
            before = file.label()
            if not file.relabel(self.label):
                return Effect(changed=False)
            return Effect(changed=True, undo=Relabel(self.path, before, self.enforcing) if before else None)


@contextmanager
def _opened(host: Access, path: str, invalid: str = "") -> Iterator[SafePath]:
    """The file; `invalid` is what it means when the kernel calls the new value invalid."""
    advice = {errno.EINVAL: invalid} if invalid else {}
    try:
        root, file = host.open(path)
        with root, file:
            yield file
    except Error as error:
        raise refused(error, path, path, advice) from error
