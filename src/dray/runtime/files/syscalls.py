"""The few Linux calls that Python's `os` does not have. Each raises OSError like `os` does; nothing else is done here."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
from dataclasses import dataclass

_libc = ctypes.CDLL(None, use_errno=True)

AT_SYMLINK_NOFOLLOW = 0x100
AT_EMPTY_PATH = 0x1000

RESOLVE_NO_XDEV = 0x01
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08
RESOLVE_IN_ROOT = 0x10

# openat2 came after the system call numbers of all architectures were joined, so it has one number (but on alpha).
_SYS_OPENAT2 = 437
_STATX_BTIME = 0x800
_STATX_BASIC_STATS = 0x7FF


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class _StatxTimestamp(ctypes.Structure):
    _fields_ = (("sec", ctypes.c_int64), ("nsec", ctypes.c_uint32), ("reserved", ctypes.c_int32))


class _Statx(ctypes.Structure):
    _fields_ = (
        ("mask", ctypes.c_uint32),
        ("blksize", ctypes.c_uint32),
        ("attributes", ctypes.c_uint64),
        ("nlink", ctypes.c_uint32),
        ("uid", ctypes.c_uint32),
        ("gid", ctypes.c_uint32),
        ("mode", ctypes.c_uint16),
        ("pad", ctypes.c_uint16),
        ("ino", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("blocks", ctypes.c_uint64),
        ("attributes_mask", ctypes.c_uint64),
        ("atime", _StatxTimestamp),
        ("btime", _StatxTimestamp),
        ("ctime", _StatxTimestamp),
        ("mtime", _StatxTimestamp),
        ("rdev_major", ctypes.c_uint32),
        ("rdev_minor", ctypes.c_uint32),
        ("dev_major", ctypes.c_uint32),
        ("dev_minor", ctypes.c_uint32),
        ("spare", ctypes.c_uint64 * 14),
    )


@dataclass(frozen=True, slots=True)
class Statx:
    """What `statx` told. `birth_ns` is 0 where the file system does not keep a birth time (sysfs, procfs)."""

    mode: int
    device: int
    inode: int
    birth_ns: int


def statx(path: str, *, dir_fd: int, follow: bool = False) -> Statx:
    """Type, identity and birth time of one entry; an empty `path` means `dir_fd` itself."""
    flags = (0 if follow else AT_SYMLINK_NOFOLLOW) | (AT_EMPTY_PATH if not path else 0)
    raw = _Statx()
    function = getattr(_libc, "statx", None)
    if function is None:  # a C library from before 2018
        return _plain_stat(path, dir_fd, follow)
    wanted = _STATX_BASIC_STATS | _STATX_BTIME
    if function(dir_fd, os.fsencode(path), flags, wanted, ctypes.byref(raw)) != 0:
        code = ctypes.get_errno()
        if code in (errno.ENOSYS, errno.EPERM):  # old kernel, or a container runtime that filters the call
            return _plain_stat(path, dir_fd, follow)
        raise OSError(code, os.strerror(code), path)
    birth = raw.btime.sec * 1_000_000_000 + raw.btime.nsec if raw.mask & _STATX_BTIME else 0
    return Statx(raw.mode, os.makedev(raw.dev_major, raw.dev_minor), raw.ino, birth)


def _plain_stat(path: str, dir_fd: int, follow: bool) -> Statx:
    status = os.stat(path, dir_fd=dir_fd, follow_symlinks=follow) if path else os.fstat(dir_fd)
    return Statx(status.st_mode, status.st_dev, status.st_ino, 0)


@functools.cache
def has_openat2() -> bool:
    """Whether the kernel (5.6) has it and no container runtime filters it."""
    try:
        os.close(openat2(-100, "/", os.O_PATH, RESOLVE_NO_MAGICLINKS))
    except OSError:
        return False
    return True


def openat2(dir_fd: int, path: str, flags: int, resolve: int) -> int:
    """Open `path` below `dir_fd` under the rules of `resolve` (RESOLVE_*); close-on-exec is always set."""
    how = _OpenHow(flags | os.O_CLOEXEC, 0, resolve)
    name = os.fsencode(path)
    descriptor = _libc.syscall(
        ctypes.c_long(_SYS_OPENAT2),
        ctypes.c_long(dir_fd),
        ctypes.c_char_p(name),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    return _checked(descriptor, path)


def inotify_init() -> int:
    """A new inotify descriptor, non-blocking and close-on-exec."""
    return _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify")


def inotify_add_watch(descriptor: int, path: str, mask: int) -> int:
    """Watch `path`; the same inode gives the same number again."""
    return _checked(_libc.inotify_add_watch(descriptor, os.fsencode(path), ctypes.c_uint32(mask)), path)


def inotify_rm_watch(descriptor: int, watch: int) -> None:
    """End one watch; OSError EINVAL when the kernel ended it before (its directory is gone)."""
    _checked(_libc.inotify_rm_watch(descriptor, watch), f"watch {watch}")


def _checked(result: int, path: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
    return int(result)
