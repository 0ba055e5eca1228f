"""The host's file system, wherever it is mounted: everything is read below one root, and no link leads out of it."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from dray.errors import HardwareError, InvalidError, NotFoundError
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.files.safepath import Links, Root, SafePath


@dataclass(frozen=True, slots=True)
class HostRoot:
    """Where a host's /sys, /proc and /dev are. Paths are given as the host has them (`/dev/kvm`).

    Symbolic links are followed as the host would, so an absolute one stays below the root. Reading only: every call
    looks anew, and raises NotFoundError, DeniedError or HardwareError with the path in its text.
    """

    path: Path

    @property
    def is_this_host(self) -> bool:
        """Whether this is the machine we run on, as we see it; elsewhere plain files may stand for device nodes."""
        return self.path == Path("/")

    def exists(self, path: str) -> bool:
        """Whether something is there; a link that leads nowhere is nothing."""
        try:
            with Root(self.path) as root, self._open(root, path):
                return True
        except NotFoundError:
            return False

    def stat(self, path: str) -> os.stat_result:
        """Type, mode and numbers of what is there, links followed."""
        with Root(self.path) as root, self._open(root, path) as file:
            return file.stat()

    def may_open(self, path: str) -> bool:
        """Whether this process may read and write it. Opening it would tell for sure, and might have effects."""
        with Root(self.path) as root, self._open(root, path) as file:
            return os.access(file.proc_path, os.R_OK | os.W_OK)

    def read_text(self, path: str, limit: int = 1 << 20) -> str:
        """A small file's text, without the newline at its end. HardwareError where it is no text or too long."""
        with Root(self.path) as root, self._open(root, path) as file:
            try:
                return file.read(limit).decode().removesuffix("\n")
            except (UnicodeDecodeError, InvalidError) as error:
                raise HardwareError(
                    f"cannot read {path!r}: it does not hold a short text", path=path
                ) from error

    def read_link(self, path: str) -> str:
        """The text of a link, as it stands: for sysfs, whose links say what a device belongs to."""
        parent, _, name = path.rstrip("/").rpartition("/")
        with Root(self.path) as root, self._open(root, parent) as directory:
            return directory.readlink(name)

    def names(self, path: str) -> list[str]:
        """What a directory holds, sorted."""
        with Root(self.path) as root, self._open(root, path) as directory:
            return directory.listdir()

    def _open(self, root: Root, path: str) -> SafePath:
        return root.open(path.strip("/") or ".", links=Links.FOLLOW)


def open_host_root(path: str) -> HostRoot:
    """The root a user named, looked at once: InvalidError unless it is a directory, DeniedError where we may not look."""
    try:
        status = os.stat(path)  # noqa: PTH116  (an empty path must not become ".")
    except (FileNotFoundError, ValueError) as error:  # ValueError: a NUL in the path
        raise InvalidError(
            f"--host-root {path!r} does not exist: name the directory that holds the host's /dev and /sys",
            field="--host-root",
        ) from error
    except OSError as error:
        raise from_os_error(error, "look at --host-root", path) from error
    if not stat.S_ISDIR(status.st_mode):
        raise InvalidError(f"--host-root {path!r} is not a directory", field="--host-root")
    if not os.access(path, os.R_OK | os.X_OK):
        raise from_os_error(PermissionError(errno.EACCES, "permission denied"), "read --host-root", path)
    return HostRoot(Path(path).absolute())
