"""A directory that belongs to one program: keys, tokens and who holds what are in it, so nobody else looks into it."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from pathlib import Path

from dray.errors import DeniedError
from dray.runtime.files.durable import make_directory
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.logs import get_log

_log = get_log("runtime.files")

_OTHERS = 0o077


def make_private(path: Path, ours: Collection[str] | None, *, flag: str) -> None:
    """Make the directory, mode 0700. One that is there is closed to others, and that is logged.

    DeniedError where it belongs to another user, who could put anything there; and where it is open and holds nothing
    of `ours` (names of files that the program makes): closing /tmp or a home would stop others. `flag` says which
    directory it is ("--data-dir"). With None as `ours` the directory is the program's whatever is in it.
    """
    try:
        make_directory(path)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise from_os_error(
            error, "make the directory", str(path), after=f"or give another {flag}"
        ) from error
    try:
        _close_to_others(descriptor, path, ours, flag)
    except OSError as error:
        raise from_os_error(error, "close", str(path), after=f"or give another {flag}") from error
    finally:
        os.close(descriptor)


def _close_to_others(descriptor: int, path: Path, ours: Collection[str] | None, flag: str) -> None:
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid():
        raise DeniedError(
            f"cannot use {str(path)!r}: it belongs to user {status.st_uid}, and this process is user {os.geteuid()};"
            f" change its owner, or give another {flag}",
            what=f"use {path}",
        )
    mode = stat.S_IMODE(status.st_mode)
    if not mode & _OTHERS:
        return
    names = set(os.listdir(descriptor))
    is_foreign = ours is not None and bool(names) and names.isdisjoint(ours)
    if mode & stat.S_ISVTX or is_foreign:
        raise DeniedError(
            f"cannot use {str(path)!r}: other users may look into it (mode {mode:04o}), and it holds files that are not"
            f" Dray's; give a {flag} of its own, or close it (chmod 700)",
            what=f"use {path}",
        )
    os.fchmod(descriptor, 0o700)
    _log.warning(
        "other users could look into the directory, closed to them", path=str(path), mode=f"{mode:04o}"
    )
