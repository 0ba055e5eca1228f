"""What a device kind is to the rest of Dray. It finds its devices, and says what a container needs to use them.

Kinds differ in that alone: serving, registering, watching and restarting are done for all of them alike. A kind is a
folder: `config.py` (what to serve), `discover.py`, `prepare.py`, `health.py` where health is more than nodes that exist;
its `__init__` holds the `Driver`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from dray.api.resource.slice import CounterSet, DeviceCapacity, DeviceCounterConsumption
from dray.api.taints import DeviceTaint
from dray.cdi.edits import ContainerEdits
from dray.drivers.naming import share_id
from dray.hardware.change import HostChange
from dray.hardware.facts import Problem
from dray.hardware.host_root import HostRoot, Place

__all__ = [
    "Asked",
    "DescriptorPass",
    "Device",
    "Discovery",
    "Driver",
    "HasLeftovers",
    "HasPreStart",
    "Health",
    "Prepared",
    "Problem",
    "Releases",
    "TakesClaims",
]


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
    share_join: str | None = None
    """What stands between the id and the number of a share; None: as little as keeps them apart."""
    one_share: bool = False
    """Whether a container that asks for several shares is refused: they would give it no more than one."""

    addresses: tuple[str, ...] = ()
    """What the environment variable carries: PCI address, mdev UUID, `bus:number` of each USB device."""
    permissions: str = "mrw"
    """What the container may do with the nodes."""
    open_first: bool = False
    """Whether to open the node once before it is handed out, so that the kernel loads the module behind it."""
    upkeep: tuple[HostChange, ...] = ()
    """Changes to make whenever it is there (again): the owner of a socket that its daemon made anew."""

    name: str = ""
    """Its name in a ResourceSlice, a DNS label; empty: made of the id."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Attributes that are semantic versions; the others are in `attributes`."""
    capacity: Mapping[str, DeviceCapacity] = field(default_factory=dict)
    consumes: tuple[DeviceCounterConsumption, ...] = ()
    """What it takes of the counters of its kind (`Discovery.counters`): partitions of one GPU."""
    taints: tuple[DeviceTaint, ...] = ()
    """What DRA is told beside health. An unhealthy device is tainted without any."""
    hardware: tuple[str, ...] = ()
    """Names of the things it is made of, the same whatever kind or door offers them (`pci:0000:05:00.0`); see `parts`."""

    @property
    def share_ids(self) -> tuple[str, ...]:
        """The ids that the kubelet sees: `kvm0`, `kvm1`, … of a shared device, else the id itself."""
        if self.shares is None:
            return (self.id,)
        if self.share_join is not None:
            return tuple(f"{self.id}{self.share_join}{index}" for index in range(self.shares))
        return tuple(share_id(self.id, index) for index in range(self.shares))

    @property
    def is_exclusive(self) -> bool:
        """Whether one owner at a time has it."""
        return self.shares is None or self.shares == 1

    @property
    def parts(self) -> tuple[str, ...]:
        """What nobody else may hold while somebody holds it: two devices with a part in common are never both given."""
        return self.hardware or (f"{self.kind}:{self.id}",)


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
    counters: tuple[CounterSet, ...] = ()
    """What `Device.consumes` draws on, for DRA."""


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
    `finish` is called after the changes, in a thread, where what the container gets is known only then (a partition that
    was just made): its edits come on top.
    """

    edits: ContainerEdits
    changes: tuple[HostChange, ...] = ()
    required: tuple[str, ...] = ()
    open_first: tuple[str, ...] = ()
    passes: tuple[DescriptorPass, ...] = ()
    finish: Callable[[HostRoot], ContainerEdits] | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """One request of a claim, as a kind sees it: the devices that were allocated for it, in the order of the allocation.

    `label` is unique within a pod (`<claim>/<request>`, the claim by its name in the pod) and takes the place of the
    resource in names of variables. `parameters` are those of the class and then of the claim that apply, so the last
    one counts most; each was accepted by `check_parameters`. `consumed` has one entry for each device.
    """

    claim_uid: str
    label: str
    devices: tuple[Device, ...]
    parameters: tuple[Mapping[str, Any], ...] = ()
    admin_access: bool = False
    consumed: tuple[Mapping[str, str], ...] = ()
    named: tuple[bool, ...] = ()
    """For each of the parameters whether it names this request; the others are for all requests of the claim."""


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


@runtime_checkable
class HasLeftovers(Protocol):
    """A driver that makes things on the host for claims, which may be left there when nobody could take them away."""

    def leftovers(self, root: HostRoot, held: Sequence[Device]) -> tuple[HostChange, ...]:
        """What takes away all that was made and that none of these devices is, which prepared claims have.

        Called in a thread, once before claims are served.
        """
        ...


@runtime_checkable
class TakesClaims(Protocol):
    """A driver that does more for a claim than `prepare`: it takes opaque parameters, or has something to undo.

    A claim for a driver without this is prepared by `prepare(asked.label, asked.devices)`, and its parameters are refused.
    """

    def check_parameters(self, parameters: Mapping[str, Any]) -> None:
        """InvalidError, which names the field, for parameters that a claim or class may not carry. Pure.

        Called for each before a claim is prepared, and by a webhook when it is applied.
        """
        ...

    def prepare_claim(self, asked: Asked) -> Prepared:
        """As `prepare`, for one request of a claim; called again after a crash in the middle of what it asked for."""
        ...

    def release_claim(self, asked: Asked) -> tuple[HostChange, ...]:
        """What to change on the host when the claim is given back; also after a prepare that never ended, and twice.

        The devices are as they were when they were prepared: they may be gone by now.
        """
        ...


@runtime_checkable
class Releases(Protocol):
    """A driver that undoes a claim itself, by other means than host changes: one of somebody else (`dray.sdk`)."""

    def release(self, asked: Asked) -> None:
        """Called in a thread before `release_claim`, under the same terms. An error keeps the claim, and it is called again."""
        ...
