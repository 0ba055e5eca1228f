"""What a device kind is to the rest of Dray. It finds its devices, and says what a container needs to use them.

Kinds differ in that alone: serving, registering, watching and restarting are done for all of them alike. A kind is a
folder: `config.py` (what to serve), `discover.py`, `prepare.py`, `health.py` where health is more than nodes that exist;
its `__init__` holds the `Driver`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from dray.cdi.edits import ContainerEdits
from dray.drivers.naming import share_id
from dray.hardware.change import HostChange
from dray.hardware.facts import Problem
from dray.hardware.host_root import Place

__all__ = ["DescriptorPass", "Device", "Discovery", "Driver", "HasPreStart", "Health", "Prepared", "Problem"]


class Health(StrEnum):
    """The kubelet's words: it hands out healthy devices only."""

    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"


@dataclass(frozen=True, slots=True)
class Device:
    """One device of a machine, at the moment of looking. It is what is handed out as a whole: an IOMMU group, a USB set.

    `id` is the same after a restart and after replugging, and unique within its kind. `resource` is its name as an
    extended resource; empty where the config names none. `reason` says why it is not healthy. `label` is for people.
    """

    id: str
    kind: str
    resource: str
    health: Health
    reason: str = ""
    label: str = ""
    numa_node: int | None = None
    iommu_group: int | None = None
    pcie_root: str | None = None
    attributes: Mapping[str, str | int | bool] = field(default_factory=dict)

    paths: tuple[str, ...] = ()
    """Nodes, files and directories of the host that a container may get with it, as the host names them."""
    watch: tuple[str, ...] = ()
    """Paths whose coming and going calls for a new look. Without any, health never changes by itself."""
    shares: int | None = None
    """None: one owner at a time. A number: that many at once, and each has an id of its own (`share_ids`)."""

    addresses: tuple[str, ...] = ()
    """What the environment variable carries: PCI address, mdev UUID, `bus:number` of each USB device."""
    permissions: str = "mrw"
    """What the container may do with the nodes."""
    open_first: bool = False
    """Whether to open the node once before it is handed out, so that the kernel loads the module behind it."""
    upkeep: tuple[HostChange, ...] = ()
    """Changes to make whenever it is there (again): the owner of a socket that its daemon made anew."""

    @property
    def share_ids(self) -> tuple[str, ...]:
        """The ids that the kubelet sees: `kvm0`, `kvm1`, … of a shared device, else the id itself."""
        if self.shares is None:
            return (self.id,)
        return tuple(share_id(self.id, index) for index in range(self.shares))


@dataclass(frozen=True, slots=True)
class Discovery:
    """What one look found. `looked_at` names the places, for the user who expected more.

    `watch` are directories in which a name that comes or goes calls for a new look; they need not exist yet.
    """

    devices: tuple[Device, ...]
    problems: tuple[Problem, ...]
    looked_at: tuple[str, ...]
    watch: tuple[str, ...] = ()
    again_in: float | None = None
    """Seconds after which to look again though nothing was noticed; None: not needed."""


@dataclass(frozen=True, slots=True)
class DescriptorPass:
    """A node that is opened for one container, which takes the descriptor from a socket: once, and nobody else.

    The socket is `<directory>/<name>-<uuid>.sock` of the host, another one for each container, and is mounted at
    `container_path`.
    """

    node: str
    directory: str
    name: str
    container_path: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """What one container gets, and what must be done to the host first, in this order (`carry_out` does it).

    `required` are paths that must exist then, else the request fails; `open_first` is opened and closed once; `changes`
    are made by the one executor, and a failed one fails the request; `passes` come last and add mounts to the edits.
    """

    edits: ContainerEdits
    changes: tuple[HostChange, ...] = ()
    required: tuple[str, ...] = ()
    open_first: tuple[str, ...] = ()
    passes: tuple[DescriptorPass, ...] = ()


class Driver(Protocol):
    """One device kind with its config."""

    @property
    def kind(self) -> str:
        """Its name: the folder's."""
        ...

    def discover(self, root: Place, known: Sequence[Device] = ()) -> Discovery:
        """Look at the host. Called at start and whenever something changed; changes nothing and needs no rights.

        `known` are devices of this kind from before: of the last look and, after a restart, those that are held. What
        they hold together stays together.
        """
        ...

    def prepare(self, resource: str, devices: Sequence[Device]) -> Prepared:
        """What one container gets that was given these devices of `resource`, out of the values alone: no look, no wait.

        Called again after a restart with equal devices it answers the same. `devices` is empty where all that was
        asked for is gone: the kind says whether that is an error.
        """
        ...


@runtime_checkable
class HasPreStart(Protocol):
    """A driver with something to do right before a container starts, like a reset. PreStartRequired follows from it."""

    async def pre_start(self, resource: str, devices: Sequence[Device]) -> None:
        """Called once for each start of the container, so maybe often. An error keeps it from starting; it may be cancelled."""
        ...
