"""Mounts and namespaces of the host: the few calls that running containers needs, and what is mounted where."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Sequence
from pathlib import Path

from dray.runtime.files.oserrors import from_os_error

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND = 0x1, 0x2, 0x4, 0x8, 0x1000
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8

_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: Path, kind: str, flags: int = 0, options: str = "") -> None:
    """mount(2). The errors name the target."""
    arguments = (source, str(target), kind)
    encoded = [os.fsencode(one) for one in arguments]
    if _libc.mount(*encoded, ctypes.c_ulong(flags), os.fsencode(options) if options else None) != 0:
        code = ctypes.get_errno()
        raise from_os_error(OSError(code, os.strerror(code)), f"mount {kind or 'a bind'} on", str(target))


def unmount(target: Path) -> None:
    """Take the topmost mount off, even if it is in use; nothing there is fine."""
    if _libc.umount2(os.fsencode(target), _MNT_DETACH | _UMOUNT_NOFOLLOW) != 0:
        code = ctypes.get_errno()
        if code not in (errno.EINVAL, errno.ENOENT):
            raise from_os_error(OSError(code, os.strerror(code)), "unmount", str(target))


def mounted_below(directory: Path) -> list[Path]:
    """All that is mounted at or below this directory, the last mounted first."""
    lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    paths = [Path(os.fsdecode(_unescaped(line.split(b" ")[4]))) for line in lines]
    return [path for path in reversed(paths) if path == directory or directory in path.parents]


def unmount_below(directory: Path) -> None:
    """Take off all that is mounted at or below this directory."""
    for path in mounted_below(directory.resolve()):
        unmount(path)


def is_namespace(path: Path) -> bool:
    """Whether a namespace is held there. After a reboot only the empty file is left."""
    try:
        return path.stat().st_dev == Path("/proc/self/ns/mnt").stat().st_dev
    except FileNotFoundError:
        return False


def has_filesystem(kind: str) -> bool:
    """Whether the kernel knows it now; a module that is not loaded does not count."""
    return any(line.split()[-1] == kind for line in Path("/proc/filesystems").read_text().splitlines())


def overlay_options(lower: Sequence[Path], upper: Path, work: Path) -> str:
    """Colons and commas in paths are escaped as the kernel wants it."""
    layers = ":".join(_escaped(path) for path in lower)
    return f"lowerdir={layers},upperdir={_escaped(upper)},workdir={_escaped(work)}"


def _escaped(path: Path) -> str:
    return str(path).replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")


def _unescaped(field: bytes) -> bytes:
    for code, plain in ((rb"\040", b" "), (rb"\011", b"\t"), (rb"\012", b"\n"), (rb"\134", b"\\")):
        field = field.replace(code, plain)
    return field
