"""Device nodes: what /dev holds under a path."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from enum import StrEnum

from dray.errors import Error, HardwareError, NotFoundError
from dray.hardware.facts import Problem, problem_of
from dray.hardware.host_root import Place
from dray.runtime.files.safefile import told

_OPEN = os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class NodeKind(StrEnum):
    """What stands at the path. STAND_IN is a plain file in a tree that is not this machine's own."""

    CHAR = "char"
    BLOCK = "block"
    STAND_IN = "stand-in"


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device node, links followed. A stand-in has no numbers.

    `may_open` is about this process alone: a container gets the device whatever it says.
    """

    path: str
    kind: NodeKind
    major: int | None
    minor: int | None
    mode: int
    may_open: bool


def read_device_node(root: Place, path: str) -> DeviceNode:
    """The node at `path`. NotFoundError when nothing is there, HardwareError when it is not a device."""
    status = root.stat(path)
    kind = _kind(root, path, status.st_mode)
    number = None if kind is NodeKind.STAND_IN else status.st_rdev
    return DeviceNode(
        path=path,
        kind=kind,
        major=None if number is None else os.major(number),
        minor=None if number is None else os.minor(number),
        mode=stat.S_IMODE(status.st_mode),
        may_open=root.may_open(path),
    )


def has_device_node(root: Place, path: str, problems: list[Problem]) -> bool:
    """Whether a device node is at `path`. Nothing there, or something else, is none; not being able to look is a problem."""
    try:
        _kind(root, path, root.stat(path).st_mode)
    except (NotFoundError, HardwareError):
        return False
    except Error as error:
        problems.append(problem_of(error, path))
        return False
    return True


def open_device_node(root: Place, path: str) -> int:
    """A descriptor of the node at `path`, links followed below the root only. It may block for as long as its driver likes.

    The kernel loads the module behind a node that is opened. HardwareError where it is no device node but a stand-in.
    """
    with root.sweep() as sweep, sweep.open(path) as file:
        if _kind(sweep, path, file.stat().st_mode) is NodeKind.STAND_IN:
            raise HardwareError(f"{path} is a plain file that stands for a device node", path=path)
        with told("open", path):
            return os.open(file.proc_path, _OPEN)


def _kind(root: Place, path: str, mode: int) -> NodeKind:
    if stat.S_ISCHR(mode):
        return NodeKind.CHAR
    if stat.S_ISBLK(mode):
        return NodeKind.BLOCK
    if stat.S_ISREG(mode) and not root.is_this_host:
        return NodeKind.STAND_IN
    raise HardwareError(
        f"{path} is not a device node: remove it, and load the driver that makes it", path=path
    )
