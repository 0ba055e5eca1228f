"""The host's file system, wherever it is mounted: everything is read below one root, and no link leads out of it."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from dray.errors import InvalidError
from dray.hardware.sweep import Sweep
from dray.runtime.files.oserrors import from_os_error


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

    def sweep(self) -> AbstractContextManager[Sweep]:
        """One look over many files, which opens the root once; it has the same calls."""
        return Sweep(self.path)

    def exists(self, path: str) -> bool:
        """Whether something is there; a link that leads nowhere is nothing."""
        with self.sweep() as sweep:
            return sweep.exists(path)

    def stat(self, path: str) -> os.stat_result:
        """Type, mode and numbers of what is there, links followed."""
        with self.sweep() as sweep:
            return sweep.stat(path)

    def may_open(self, path: str) -> bool:
        """Whether this process may read and write it. Opening it would tell for sure, and might have effects."""
        with self.sweep() as sweep:
            return sweep.may_open(path)

    def label(self, path: str) -> str:
        """Its SELinux label, empty where there is none."""
        with self.sweep() as sweep:
            return sweep.label(path)

    def read_text(self, path: str, limit: int = 1 << 20) -> str:
        """A small file's text, without the newline at its end. HardwareError where it is no text or too long."""
        with self.sweep() as sweep:
            return sweep.read_text(path, limit)

    def read_link(self, path: str) -> str:
        """The text of a link, as it stands: for sysfs, whose links say what a device belongs to."""
        with self.sweep() as sweep:
            return sweep.read_link(path)

    def names(self, path: str) -> list[str]:
        """What a directory holds, sorted."""
        with self.sweep() as sweep:
            return sweep.names(path)


Place = HostRoot | Sweep
"""Where to look: a host's root, or a sweep over it that is under way."""


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
