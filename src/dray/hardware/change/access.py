"""The hands of all changes: look at the host, write one file of it, wait for the effect; every error names the device."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dray.errors import ConflictError, DeniedError, Error, HardwareError, NotFoundError
from dray.hardware.host_root import HostRoot
from dray.hardware.nvml.protocol import OpenNvml
from dray.hardware.nvml.session import open_nvml
from dray.runtime.files.safepath import Links, Root, SafePath

Advice = Mapping[int, str]

_RIGHTS = "run Dray as root, with the capability that docs/reference/host-changes.md names for this change"
_ADVICE: Advice = {
    errno.ENOENT: "the file does not exist",
    errno.ENODEV: "the kernel knows no such device, or the driver does not take it",
    errno.EACCES: f"permission denied: {_RIGHTS}",
    errno.EPERM: f"not permitted: {_RIGHTS}",
    errno.EROFS: "the file system is read-only here: give the container a writable /sys, or let Dray enter the host's "
    "mount namespace (hostPID: true and CAP_SYS_ADMIN)",
    errno.EBUSY: "the device is in use: stop the workload that holds it",
    errno.EEXIST: "it exists already",
    errno.EINVAL: "the kernel calls the value invalid; its log may say why",
    errno.EIO: "the device did not answer: look at the kernel log",
    errno.ENOTSUP: "the file system or the driver does not support it",
}
_NOT_FOUND = {errno.ENOENT, errno.ENODEV, errno.ENXIO}
_CONFLICT = {errno.EBUSY, errno.EEXIST, errno.ETXTBSY}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP}


@dataclass(frozen=True, slots=True)
class Limits:
    """How long to wait, in seconds. A kernel acts before the write returns; device nodes come a moment later.

    `process` bounds a change that runs in a process of its own, whatever the kernel does with it.
    """

    effect: float = 5.0
    node: float = 5.0
    process: float = 30.0


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Access:
    """A host below `root`, to change. Links are followed in /sys only, and never lead out of the root.

    `nvml` opens NVIDIA's library, or a recording of it.
    """

    root: Path
    limits: Limits = DEFAULT_LIMITS
    nvml: OpenNvml = open_nvml

    @property
    def reading(self) -> HostRoot:
        """The same host, to look at."""
        return HostRoot(self.root)

    def read(self, path: str) -> str | None:
        """A small file's text, trimmed; None where it is not there."""
        try:
            return self.reading.read_text(path, limit=65536).strip()
        except NotFoundError:
            return None

    def read_number(self, path: str) -> int | None:
        """A file's number; None where there is no file or no number in it."""
        text = self.read(path)
        return int(text) if text is not None and text.isascii() and text.isdecimal() else None

    def link_name(self, path: str) -> str | None:
        """The last part of what a link of sysfs leads to (a driver's or a group's name); None without the link."""
        target = self.link(path)
        return None if target is None else target.rsplit("/", 1)[-1]

    def link(self, path: str) -> str | None:
        """The text of a link; None where it is not there."""
        try:
            return self.reading.read_link(path)
        except NotFoundError:
            return None

    def names(self, path: str) -> list[str]:
        """What a directory holds, sorted; nothing where it is not there or is none."""
        try:
            return self.reading.names(path)
        except Error:
            return []

    def open(self, path: str) -> tuple[Root, SafePath]:
        """The file to change; both are to be closed. Outside /sys a symbolic link on the way is refused."""
        links = Links.FOLLOW if path.startswith("/sys/") else Links.REFUSE
        root = Root(self.root)
        try:
            return root, root.open(self._real(path).strip("/"), links=links)
        except BaseException:
            root.close()
            raise

    def is_read_only(self, path: str) -> bool:
        """Whether the file system that holds it can only be read as we see it; False where it cannot be told."""
        try:
            root, file = self.open(path)
        except Error:
            return False
        with root, file:
            return bool(os.fstatvfs(file.fileno()).f_flag & os.ST_RDONLY)

    def write(self, device: str, path: str, text: str, advice: Advice | None = None) -> None:
        """Write a line into an existing file with one call. The kernel's refusal is raised with `advice` for its errno."""
        try:
            root, file = self.open(path)
            with root, file:
                file.write(f"{text}\n".encode())
        except Error as error:
            raise refused(error, device, path, advice or {}) from error

    def wait(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Look until it holds, at growing intervals; whether it did in time."""
        deadline, pause = time.monotonic() + seconds, 0.001
        while not holds():
            if time.monotonic() >= deadline:
                return False
            time.sleep(pause)
            pause = min(pause * 2, 0.05)
        return True

    def _real(self, path: str) -> str:
        # /var/run is a link on every host of today. Only root could make it another one.
        if path.startswith("/var/run/") and self._runs_elsewhere():
            return path.removeprefix("/var")
        return path

    def _runs_elsewhere(self) -> bool:
        try:
            return self.link("/var/run") in ("/run", "../run")
        except Error:  # a directory
            return False


def refused(error: Error, device: str, path: str, advice: Advice) -> Error:
    """The same failure with the device, the file and what to do. What no kernel call caused stays as it is."""
    cause = error.__cause__
    if not isinstance(cause, OSError):
        return error
    code = cause.errno or 0
    if code == errno.ELOOP or (code == errno.EXDEV and isinstance(error, DeniedError)):
        return error  # it names the link in the way
    reason = advice.get(code) or _ADVICE.get(code) or os.strerror(code)
    name = errno.errorcode.get(code, str(code))
    message = (
        f"{device}: cannot write {path}: {reason} ({name})"
        if device != path
        else f"{path}: {reason} ({name})"
    )
    if code in _NOT_FOUND:
        return NotFoundError(message, kind="device", name=device)
    if code in _DENIED:
        return DeniedError(message, what=path)
    if code in _CONFLICT:
        return ConflictError(message)
    return HardwareError(message, device=device, path=path)
