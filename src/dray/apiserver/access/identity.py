"""Who asks. The groups are Kubernetes' own where it has one."""

from __future__ import annotations

from dataclasses import dataclass

ADMINS = "system:masters"
NODES = "system:nodes"
READERS = "dray:readers"
_NODE_PREFIX = "system:node:"


@dataclass(frozen=True, slots=True)
class Identity:
    """A user as Kubernetes names one."""

    name: str
    groups: tuple[str, ...] = ()

    @property
    def is_admin(self) -> bool:
        """May do everything."""
        return ADMINS in self.groups

    @property
    def is_reader(self) -> bool:
        """May read everything and write nothing."""
        return READERS in self.groups

    @property
    def node(self) -> str:
        """The node it is, or nothing."""
        is_one = NODES in self.groups and self.name.startswith(_NODE_PREFIX)
        return self.name.removeprefix(_NODE_PREFIX) if is_one else ""


ANONYMOUS = Identity("system:anonymous", ("system:unauthenticated",))


def admin(name: str = "admin") -> Identity:
    """May do everything."""
    return Identity(name, (ADMINS,))


def node(name: str) -> Identity:
    """A kubelet, with the drivers beside it."""
    return Identity(f"{_NODE_PREFIX}{name}", (NODES,))


def reader(name: str = "reader") -> Identity:
    """May read everything and write nothing."""
    return Identity(name, (READERS,))
