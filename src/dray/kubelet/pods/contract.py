"""What the pods of a node need from the rest of the kubelet."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from dray.api.core import Pod
from dray.api.core.container import Container, ResourceStatus
from dray.api.core.pod import PodStatus
from dray.cdi.edits import ContainerEdits
from dray.kubelet.pods.environment import Sources
from dray.kubelet.pods.events import PodEvent
from dray.kubelet.rejection import Rejection
from dray.kubelet.runtimes.contract import Runtime


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What devices add to one start of a container."""

    edits: ContainerEdits = field(default_factory=ContainerEdits)
    cdi_devices: tuple[str, ...] = ()


class Objects(Sources, Protocol):
    """ConfigMaps and Secrets, for variables and volumes."""

    async def fetch(self, pod: Pod) -> None:
        """Before each start of a container: read anew what the pod names."""
        ...


class Admission(Protocol):
    """Decides whether this node takes a pod, and reserves its devices. Asked again after a restart, for all pods."""

    async def admit(self, pod: Pod, others: Collection[Pod]) -> Rejection | None:
        """None: taken. `others` are the pods that are taken and not over, as they are when it looks at them: several pods
        may be asked about at once, but never two that want the same resource of a plugin."""
        ...

    def ended(self, pod: Pod) -> None:
        """The pod is over: what it held is free."""
        ...


class Devices(Protocol):
    """Device plugins, as the start of a container sees them."""

    async def run_options(self, pod: Pod, container: Container) -> RunOptions:
        """Before every start of a container: it may reset devices."""
        ...

    def allocated_status(self, pod: Pod, container: Container) -> tuple[ResourceStatus, ...]:
        """For the pod's status."""
        ...


class Claims(Protocol):
    """ResourceClaims of pods."""

    async def prepare(self, pod: Pod) -> None:
        """Before the pod's sandbox is made. Errors are tried again later: the pod stays Pending."""
        ...

    async def unprepare(self, pod: Pod) -> None:
        """After all containers ended. Errors are tried again: the pod stays Terminating."""
        ...

    def uids(self, pod: Pod) -> Iterator[str]:
        """Of the pod's claims that are prepared, or begun: what its traces are called after."""
        ...

    def cdi_devices(self, pod: Pod, container: Container) -> tuple[str, ...]:
        """The CDI names of what a container uses of the claims."""
        ...

    def allocated_status(self, pod: Pod, container: Container) -> tuple[ResourceStatus, ...]:
        """For the pod's status."""
        ...


class Statuses(Protocol):
    """Where statuses go: the API server, or a file for pods that have none."""

    def tell(self, pod: Pod, status: PodStatus) -> None:
        """The newest status of a pod; written soon, at least once, never an older one after a newer one."""
        ...

    def ended(self, pod: Pod) -> None:
        """All of the pod is given back: where it is being deleted, its object may go."""
        ...


class Events(Protocol):
    """Where people look for what happened to a pod."""

    def record(self, event: PodEvent) -> None:
        """Never waits. The same event again only counts up."""
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What pods are made of."""

    runtime: Runtime
    admission: Admission
    devices: Devices
    claims: Claims
    statuses: Statuses
    objects: Objects
    events: Events
