"""How a server stands with the kubelet that it registers with, and whether its socket is still the one that it made.

The lives of device plugins (`deviceplugin/lifetime.py`) and DRA drivers (`dra/lifetime.py`) go by both.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class RegistrationPhase(StrEnum):
    """`REFUSED`: the kubelet did not take it, or somebody else has its name or socket. `FAILED`: anything else went wrong.

    Both are retried.
    """

    STARTING = "starting"
    WAITING = "waiting for kubelet"
    REGISTERED = "registered"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RegistrationState:
    """`reason` is what an operator can act on; `retry_s` are the seconds between it and the next try, where they are known."""

    phase: RegistrationPhase = RegistrationPhase.STARTING
    reason: str = ""
    retry_s: float | None = None

    def __str__(self) -> str:
        retry = "" if self.retry_s is None else f", next try in {self.retry_s:g} s"
        return f"{self.phase.value}: {self.reason}{retry}" if self.reason else self.phase.value


STARTING = RegistrationState(RegistrationPhase.STARTING)
WAITING = RegistrationState(RegistrationPhase.WAITING)
REGISTERED = RegistrationState(RegistrationPhase.REGISTERED)


@dataclass(frozen=True, slots=True)
class OwnSocket:
    """A socket that we listen on, as it was right after it was made. `inode` is None where it was gone by then."""

    path: Path
    inode: int | None

    @classmethod
    def at(cls, path: Path) -> OwnSocket:
        """The one that was just made at `path`."""
        return cls(path, _inode(path))

    @property
    def is_there(self) -> bool:
        """Whether it still has its name. Exact: the kernel gives its number to nobody while we hold it open."""
        return self.inode is not None and _inode(self.path) == self.inode


def _inode(path: Path) -> int | None:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return None
