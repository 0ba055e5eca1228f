"""Remove a directory that strangers filled: no link is followed, no mount is entered, no depth and no number is too much.

A tree may be deeper than Python's stack and have more directories on one way down than a process has descriptors, so what
lies deep is first renamed to the top. Where something is mounted in the tree, nothing behind it is touched, and the
error says where.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from dray.errors import ConflictError
from dray.runtime.files import syscalls
from dray.runtime.files.durable import temporary_name
from dray.runtime.files.oserrors import from_os_error

_MOST_OPEN = 32
"""Directories open at once, on the way down."""
_AT_ONCE = 1024
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: Path) -> None:
    """Remove `path` and all below it; nothing there is fine. Repeatable after an error or a kill.

    ConflictError where a mount is in the way: take it off first. May take long: not for the event loop.
    """
    try:
        _remove(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise from_os_error(error, "remove", str(error.filename or path)) from error


def _remove(path: Path) -> None:
    try:
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.lstat(path.name, dir_fd=parent).st_mode):
            os.unlink(path.name, dir_fd=parent)
            return
        top = _enter(parent, path.name, str(path))
        try:
            _empty(top, str(path))
        finally:
            os.close(top)
        os.rmdir(path.name, dir_fd=parent)
    finally:
        os.close(parent)


def _empty(top: int, shown: str) -> None:
    """Depth first, with few descriptors; directories that lie deeper come to the top, one after the other."""
    way = [_Level(top, "")]
    try:
        while True:
            level = way[-1]
            if not level.directories and not _remove_files(level, shown):
                if len(way) == 1:
                    return
                way.pop()
                os.close(level.descriptor)
                with contextlib.suppress(FileNotFoundError):
                    os.rmdir(level.name, dir_fd=way[-1].descriptor)
            elif level.directories:
                name = level.directories.pop()
                if len(way) > _MOST_OPEN:
                    _raise_to(top, level.descriptor, name, shown)
                else:
                    way.append(_Level(_enter(level.descriptor, name, shown), name))
    finally:
        for level in way[1:]:
            os.close(level.descriptor)


@dataclass
class _Level:
    """One directory on the way down, and those in it that were seen and are still there."""

    descriptor: int
    name: str
    directories: list[str] = field(default_factory=list)


def _remove_files(level: _Level, shown: str) -> bool:
    """Of the next entries, remove what is no directory and note what is one. False where nothing is left."""
    with os.scandir(level.descriptor) as entries:
        found = [(one.name, one.is_dir(follow_symlinks=False)) for one in itertools.islice(entries, _AT_ONCE)]
    for name, is_directory in found:
        if is_directory:
            level.directories.append(name)
            continue
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=level.descriptor)
        except OSError as error:
            raise _told(error, shown, name) from error
    return bool(found)


def _enter(at: int, name: str, shown: str) -> int:
    """A directory as it lies on this very mount; its owner may have closed it to himself."""
    for tries in (1, 0):
        try:
            if syscalls.has_openat2():
                return syscalls.openat2(
                    at, name, _OPEN, syscalls.RESOLVE_NO_XDEV | syscalls.RESOLVE_NO_SYMLINKS
                )
            return _opened_alike(at, name)
        except OSError as error:
            if error.errno != errno.EACCES or not tries:
                raise _told(error, shown, name) from error
        _open_up(at, name)
    raise AssertionError


def _open_up(at: int, name: str) -> None:
    """By descriptor: `chmod` of a name would follow a link that somebody put there meanwhile."""
    descriptor = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        os.chmod(f"/proc/self/fd/{descriptor}", 0o700)  # noqa: PTH101
    finally:
        os.close(descriptor)


def _opened_alike(at: int, name: str) -> int:
    """Without openat2 only a mount of another file system is noticed; the caller has taken off what it mounted itself."""
    descriptor = os.open(name, _OPEN, dir_fd=at)
    if os.fstat(descriptor).st_dev != os.fstat(at).st_dev:
        os.close(descriptor)
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), name)
    return descriptor


def _raise_to(top: int, at: int, name: str, shown: str) -> None:
    try:
        os.rename(name, temporary_name(), src_dir_fd=at, dst_dir_fd=top)
    except OSError as error:
        raise _told(error, shown, name) from error


def _told(error: OSError, shown: str, name: str) -> ConflictError | OSError:
    if error.errno in (errno.EXDEV, errno.EBUSY):
        return ConflictError(
            f"cannot remove {shown!r}: something is mounted on {name!r} in it; unmount it, and it is tried again"
        )
    return OSError(error.errno, error.strerror, f"{shown}/…/{name}")
