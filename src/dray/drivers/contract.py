"""What a device kind is to the rest of Dray: it finds its devices. (Preparing them joins with `cdi/`.)"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from dray.hardware.facts import Problem
from dray.hardware.host_root import HostRoot

__all__ = ["Device", "Discovery", "Driver", "Health", "Problem"]


class Health(StrEnum):
    """The kubelet's words: it hands out healthy devices only."""

    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"


@dataclass(frozen=True, slots=True)
class Device:
    """One device of a machine, at the moment of looking.

    `id` is the same after a restart and after replugging, and unique within its kind. `resource` is its name as an
    extended resource. `reason` says why it is not healthy. `paths` are nodes on the host, as the host names them.
    """

    id: str
    kind: str
    resource: str
    health: Health
    reason: str = ""
    numa_node: int | None = None
    iommu_group: int | None = None
    attributes: Mapping[str, str | int | bool] = field(default_factory=dict)
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Discovery:
    """What one look found. `looked_at` names the places, for the user who expected more."""

    devices: tuple[Device, ...]
    problems: tuple[Problem, ...]
    looked_at: tuple[str, ...]


class Driver(Protocol):
    """One device kind."""

    @property
    def kind(self) -> str:
        """Its name: the folder's."""
        ...

    def discover(self, root: HostRoot) -> Discovery:
        """Look at the host. Called at start and whenever something changed; changes nothing and needs no rights."""
        ...
