"""Directories and files of one claim, made where nothing was before, and removed: with the fewest calls that do it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from typing import Final

from dray.runtime.files.safefile import told
from dray.runtime.files.safepath import SafePath
from dray.runtime.files.saferesolve import check_name

_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def put_fresh(
    directory: SafePath, way: tuple[str, ...], name: str, data: bytes, modes: tuple[int, int]
) -> bool:
    """Write a file at the end of `way`, below directories that are made. False, and it is not written, where that is not
    so simple: the file is there, or something that is no directory is in the way.

    `modes` are those of directories and of the file. Nobody may know the file yet: half of it is there after a kill.
    """
    for one in (*way, name):
        check_name(one)
    with told("write", "/".join((directory.shown, *way, name))):
        at = os.dup(directory.fileno())
        try:
            for one in way:
                if (below := _enter(at, one, modes[0])) is None:
                    return False
                os.close(at)
                at = below
            return _create(at, name, data, modes[1])
        finally:
            os.close(at)


def remove_simple(directory: SafePath, name: str, below: Iterable[str], file: str) -> bool:
    """Remove the directory `name` with `file` in each of `below`. False where there is more, or anything is otherwise.

    What was removed by then stays so: the caller looks at what is left.
    """
    check_name(name)
    try:
        at = os.open(name, _DIRECTORY, dir_fd=directory.fileno())
        try:
            for one in below:
                check_name(one)
                inner = os.open(one, _DIRECTORY, dir_fd=at)
                try:
                    os.unlink(file, dir_fd=inner)
                finally:
                    os.close(inner)
                os.rmdir(one, dir_fd=at)
        finally:
            os.close(at)
        os.rmdir(name, dir_fd=directory.fileno())
    except OSError:
        return False
    return True


def _enter(at: int, name: str, mode: int) -> int | None:
    """The directory, made where it is missing; None where something else has the name."""
    try:
        os.mkdir(name, mode, dir_fd=at)
    except FileExistsError:
        try:
            return os.open(name, _DIRECTORY, dir_fd=at)
        except NotADirectoryError:  # a link too
            return None
    made = os.open(name, _DIRECTORY, dir_fd=at)
    if stat.S_IMODE(os.fstat(made).st_mode) != mode:  # the umask took some
        os.chmod(f"/proc/self/fd/{made}", mode)  # noqa: PTH101  (the link in /proc is the descriptor)
    return made


def _create(at: int, name: str, data: bytes, mode: int) -> bool:
    try:
        descriptor = os.open(name, _CREATE, mode, dir_fd=at)
    except FileExistsError:
        return False
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:
            os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)
    return True
