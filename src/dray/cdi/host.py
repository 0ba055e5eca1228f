"""What the host's device nodes are: the one look that an injection needs. It is given, so that a test or a tree can lie."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostNode:
    """A device node of the host. `type` is b, c or p, and empty for what is no device node; `mode` has no type bits."""

    type: str
    major: int = 0
    minor: int = 0
    mode: int = 0
    uid: int = 0
    gid: int = 0


Stat = Callable[[str], HostNode | None]
"""The node at a path, None where there is nothing (or nothing that may be looked at). Links are not followed."""


def host_stat(path: str) -> HostNode | None:
    """The look at this machine."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return None
    kinds = {stat.S_IFBLK: "b", stat.S_IFCHR: "c", stat.S_IFIFO: "p"}
    kind = kinds.get(stat.S_IFMT(found.st_mode), "")
    major, minor = os.major(found.st_rdev), os.minor(found.st_rdev)
    return HostNode(kind, major, minor, stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid)
