"""Turn a relative path into a descriptor without ever leaving the root. Two ways that agree: openat2 and a walk.

Both return an O_PATH descriptor and raise OSError; ELOOP then names the symbolic link in `filename`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable
from enum import StrEnum

from dray.errors import InvalidError
from dray.runtime.files import syscalls

_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_PARTS_ALLOWED = 256
_LINKS_ALLOWED = 40
# The kernel gives up with EAGAIN when somebody renames while it follows a "..". An attacker can make that last.
_TRIES = 16


class Links(StrEnum):
    """What a symbolic link on the way means.

    REFUSE: an error, wherever it points; for all that we change. FOLLOW: followed as if the root were "/", so absolute
    links and ".." stay inside; for sysfs and /dev, which are made of links. WITHIN: followed while it stays below the
    root; an absolute one, or one that climbs out, is the error EXDEV; for a subPath, where that is the kubelet's rule.
    """

    REFUSE = "refuse"
    FOLLOW = "follow"
    WITHIN = "within"


_RULES = {
    Links.REFUSE: syscalls.RESOLVE_BENEATH | syscalls.RESOLVE_NO_SYMLINKS,
    Links.FOLLOW: syscalls.RESOLVE_IN_ROOT,
    Links.WITHIN: syscalls.RESOLVE_BENEATH,
}

Resolver = Callable[[int, str, Links], int]


def check_relative(path: str) -> None:
    """InvalidError unless `path` is relative and clean; "." is the root itself."""
    parts = path.split("/")
    if path != "." and any(part in ("", ".", "..") for part in parts):
        raise InvalidError(f"{path!r} must be a relative path without empty parts, '.' and '..'", field=path)
    if "\0" in path:
        raise InvalidError(f"{path!r} contains a NUL character", field=path)


def check_name(name: str) -> None:
    """InvalidError unless `name` is one single entry of a directory."""
    check_relative(name)
    if "/" in name or name == ".":
        raise InvalidError(f"{name!r} must be a single name without '/'", field=name)


def best_resolver() -> Resolver:
    """openat2 where the kernel (5.6) has it and no container runtime filters it; else the walk."""
    return by_openat2 if syscalls.has_openat2() else by_walking


def by_openat2(root: int, path: str, links: Links) -> int:
    """The kernel resolves the whole path in one call."""
    rules = syscalls.RESOLVE_NO_MAGICLINKS | _RULES[links]
    for _ in range(_TRIES):
        try:
            return syscalls.openat2(root, path, os.O_PATH, rules)
        except OSError as error:
            if error.errno == errno.ELOOP and links is Links.REFUSE:
                break
            if error.errno != errno.EAGAIN:
                raise
    # The walk never gives up, and it knows which part is the link. If that is gone by now, its answer is as good.
    return by_walking(root, path, links)


def by_walking(root: int, path: str, links: Links) -> int:
    """One part at a time, each opened without following; links are resolved here, as text."""
    with contextlib.ExitStack() as stack:
        trail = [root]  # the way down from the root; ".." goes back along it, never by asking the file system
        todo = _parts(path)
        budget, followed = _PARTS_ALLOWED, 0
        while todo:
            name, budget = todo.pop(), budget - 1
            if budget < 0 or followed > _LINKS_ALLOWED:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            if name in (".", ".."):
                _demand_directory(trail[-1], path)
                if name == ".." and len(trail) == 1 and links is Links.WITHIN:
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
                trail = trail[:-1] if name == ".." and len(trail) > 1 else trail
                continue
            descriptor = os.open(name, _STEP, dir_fd=trail[-1])
            stack.callback(os.close, descriptor)
            if not stat.S_ISLNK(os.fstat(descriptor).st_mode):
                trail.append(descriptor)
                continue
            if links is Links.REFUSE:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
            text = os.readlink("", dir_fd=descriptor)
            followed += 1
            if text.startswith("/") and links is Links.WITHIN:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
            trail = trail[:1] if text.startswith("/") else trail
            todo += _parts(text)
        return os.dup(trail[-1])


def _parts(path: str) -> list[str]:
    """The parts, last one first. A slash at the end demands a directory, as the part "." does."""
    parts = [part for part in path.split("/") if part]
    return ([*parts, "."] if path.endswith("/") else parts)[::-1]


def _demand_directory(descriptor: int, path: str) -> None:
    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
