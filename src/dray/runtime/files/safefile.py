"""One open file: its acts go to the inode behind the descriptor, whatever its name means by now."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from collections.abc import Iterator
from typing import Self

from dray.errors import InvalidError, UnavailableError
from dray.runtime.files.oserrors import from_os_error

_LABEL = "security.selinux"
_CHUNK = 64 * 1024


class Descriptor:
    """An open O_PATH descriptor and the path to show for it. Leaving the block closes it."""

    def __init__(self, descriptor: int, shown: str) -> None:
        self._descriptor = descriptor
        self.shown = shown

    def fileno(self) -> int:
        """The descriptor, valid until closed."""
        return self._descriptor

    def close(self) -> None:
        """Give the descriptor back; safe to call twice."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shown!r})"


class SafeFile(Descriptor):
    """What can be done with any open file. `dray.runtime.files.safepath` opens them."""

    @property
    def proc_path(self) -> str:
        """A path that means exactly this file while it is open, for calls that take only paths."""
        return f"/proc/self/fd/{self.fileno()}"

    def stat(self) -> os.stat_result:
        """Its status now."""
        return os.fstat(self.fileno())

    def chown(self, uid: int, gid: int) -> None:
        """Give it to another owner; -1 leaves one as it is. Do it before `chmod`: the kernel drops set-id bits."""
        with told("chown", self.shown):
            os.chown(self.proc_path, uid, gid)

    def chmod(self, mode: int) -> None:
        """Set its permission bits exactly; the umask does not matter."""
        with told("chmod", self.shown):
            os.chmod(self.proc_path, mode)  # noqa: PTH101  (the link in /proc is the descriptor)

    def label(self) -> str:
        """Its SELinux label, empty where there is none."""
        try:
            return os.getxattr(self.proc_path, _LABEL).rstrip(b"\0").decode("utf-8", "replace")
        except OSError as error:
            if error.errno in (errno.ENODATA, errno.ENOTSUP):
                return ""
            raise from_os_error(error, "read the SELinux label of", self.shown) from error

    def relabel(self, label: str) -> bool:
        """Set its SELinux label; False when it had that label already."""
        if self.label() == label:
            return False
        with told("relabel", self.shown):
            os.setxattr(self.proc_path, _LABEL, label.encode() + b"\0")
        return True

    def read(self, limit: int = 1 << 20) -> bytes:
        """The content of a regular file (sysfs and procfs files are); InvalidError when it has more than `limit`."""
        with self.reopened(os.O_RDONLY, "read") as descriptor:
            content = bytearray()
            while len(content) <= limit and (
                part := os.read(descriptor, min(_CHUNK, limit + 1 - len(content)))
            ):
                content += part
        if len(content) > limit:
            raise InvalidError(f"{self.shown!r} has more than {limit} bytes", field=self.shown)
        return bytes(content)

    def write(self, data: bytes) -> None:
        """Write into the existing file with one single call, as sysfs wants it; nothing is cut off or created."""
        with self.reopened(os.O_WRONLY, "write") as descriptor:
            written = os.write(descriptor, data)
        if written != len(data):
            raise UnavailableError(f"only {written} of {len(data)} bytes were written to {self.shown!r}")

    def connect(self, timeout: float = 5.0) -> socket.socket:
        """A stream connection to this unix socket; its timeout stays set."""
        if not stat.S_ISSOCK(self.stat().st_mode):
            raise InvalidError(f"{self.shown!r} is not a socket", field=self.shown)
        with told("connect to", self.shown), closed_on_error(socket.socket(socket.AF_UNIX)) as connection:
            connection.settimeout(timeout)
            connection.connect(self.proc_path)
            return connection

    @contextlib.contextmanager
    def reopened(self, flags: int, doing: str) -> Iterator[int]:
        """A descriptor to read or write this very file. Devices and FIFOs are refused: opening them has effects."""
        kind = stat.S_IFDIR if flags & os.O_DIRECTORY else stat.S_IFREG
        if stat.S_IFMT(self.stat().st_mode) != kind:
            wanted = "directory" if kind == stat.S_IFDIR else "regular file"
            raise InvalidError(f"cannot {doing} {self.shown!r}: it is not a {wanted}", field=self.shown)
        with told(doing, self.shown):
            descriptor = os.open(self.proc_path, flags | os.O_CLOEXEC | os.O_NOCTTY)
            try:
                yield descriptor
            finally:
                os.close(descriptor)


@contextlib.contextmanager
def closed_on_error(connection: socket.socket) -> Iterator[socket.socket]:
    """Nobody gets the socket when the block fails, so it is closed."""
    try:
        yield connection
    except BaseException:
        connection.close()
        raise


@contextlib.contextmanager
def told(doing: str, path: str) -> Iterator[None]:
    """What the kernel refuses, as one of our errors."""
    try:
        yield
    except OSError as error:
        raise from_os_error(error, doing, path) from error
