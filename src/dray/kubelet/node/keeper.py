"""Keeps the Node object and its Lease: made if missing, alive as long as this runs, resources as they are now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from dray import __version__
from dray.api.kinds import LEASES, NODES
from dray.api.meta import format_micro_time, format_time
from dray.api.quantity import Quantity
from dray.client.client import Client
from dray.client.requests import PatchType
from dray.errors import ConflictError, Error, NotFoundError
from dray.kubelet.node.machine import Machine
from dray.kubelet.node.resources import DeviceCapacity, NodeResources, is_extended, node_resources
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.runtime.tasks import wait_first

_log = get_log("kubelet.node")

LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
_RENEW = 10.0
_REST = 0.2
"""Seconds after each report: devices that come and go without end do not keep the API server busy."""
_REPORT = 300.0
"""Seconds between two reports when nothing changed."""


@dataclass(frozen=True, slots=True)
class NodeDoor:
    """Where the API server reaches the kubelet, and by which annotations it knows it; port 0: nowhere."""

    port: int = 0
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """Who the node is. `labels` are added to those that every node has."""

    name: str
    labels: Mapping[str, str]
    runtime: str
    version: str = f"v1.36.0-dray.{__version__}"
    door: NodeDoor = NodeDoor()


class NodeKeeper:
    """`run` keeps it until cancelled. `wait_changed` returns when capacities may have changed.

    `reset` says that the machine was set up anew: extended resources that the object still has are zeroed first.
    """

    def __init__(
        self,
        client: Client,
        machine: Machine,
        options: NodeOptions,
        clock: Clock,
        *,
        capacity: Callable[[], DeviceCapacity],
        reset: bool = False,
    ) -> None:
        self._client = client
        self._machine = machine
        self._options = options
        self._clock = clock
        self._capacity = capacity
        self._reset = reset
        self._capacity_before: Mapping[str, Quantity] = {}
        self._written: dict[str, Any] | None = None
        self._written_at = 0.0
        self._ready_since = ""
        self.allocatable: Mapping[str, Quantity] = machine.resources

    async def run(self, wait_changed: Callable[[], Any]) -> NoReturn:
        """Errors are told and tried again: a server that is away does not end the node."""
        while True:
            try:
                await self._renew_lease()
                await self.report()
            except Error as error:
                _log.warning("the node cannot be reported", error=str(error))
            await self._clock.sleep(_REST)
            await wait_first(wait_changed(), self._clock.sleep(_RENEW))

    async def report(self) -> None:
        """Write the status if it changed, or if the last one is old."""
        if self._written is None:
            await self._ensure()
        found = node_resources(self._machine.resources, self._devices(), self._capacity_before)
        self._reset = False
        self.allocatable, self._capacity_before = found.allocatable, found.capacity
        status = self._status(found)
        now = self._clock.monotonic()
        if status == self._written and now - self._written_at < _REPORT:
            return
        beat = format_time(self._clock.now())
        conditions = [{**one, "lastHeartbeatTime": beat} for one in status["conditions"]]
        change = {"status": {**status, "conditions": conditions}}
        try:
            await self._client.patch(
                NODES, self._options.name, change, PatchType.STRATEGIC, subresource="status"
            )
        except NotFoundError:  # somebody deleted it: it is made again at the next turn
            self._written = None
            raise
        self._written, self._written_at = status, now

    def _devices(self) -> DeviceCapacity:
        counted = self._capacity()
        if not self._reset:
            return counted
        stale = {name for name in self._capacity_before if is_extended(name)} - counted.capacity.keys()
        return DeviceCapacity(
            counted.capacity, counted.allocatable, tuple(sorted(stale | set(counted.deleted)))
        )

    async def _ensure(self) -> None:
        """The object is there; what it has of extended resources is known."""
        self._ready_since = self._ready_since or format_time(self._clock.now())
        labels = {
            "kubernetes.io/hostname": self._options.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": self._machine.architecture,
            **self._options.labels,
        }
        told = {"labels": labels, "annotations": dict(self._options.door.annotations)}
        try:
            node = await self._client.get(NODES, self._options.name)
        except NotFoundError:
            document = {"metadata": {"name": self._options.name, **told}}
            try:
                node = await self._client.create(NODES, document)
                _log.info("node created", node=self._options.name)
            except ConflictError:
                node = await self._client.get(NODES, self._options.name)
        if not (
            labels.items() <= node.metadata.labels.items()
            and told["annotations"].items() <= node.metadata.annotations.items()
        ):
            await self._client.patch(NODES, self._options.name, {"metadata": told})
        self._capacity_before = node.status.capacity

    def _status(self, found: NodeResources) -> dict[str, Any]:
        machine = self._machine
        return {
            "capacity": {name: str(value) for name, value in found.capacity.items()},
            "allocatable": {name: str(value) for name, value in found.allocatable.items()},
            "conditions": [self._ready()],
            "addresses": [
                {"type": "InternalIP", "address": machine.address},
                {"type": "Hostname", "address": self._options.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._options.door.port}},
            "nodeInfo": {
                "machineID": machine.machine_id,
                "systemUUID": machine.machine_id,
                "bootID": machine.boot_id,
                "kernelVersion": machine.kernel,
                "osImage": machine.os_image,
                "containerRuntimeVersion": f"{self._options.runtime}://dray",
                "kubeletVersion": self._options.version,
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": machine.architecture,
            },
        }

    def _ready(self) -> dict[str, Any]:
        return {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "dray kubelet is posting ready status",
            "lastTransitionTime": self._ready_since,
        }

    async def _renew_lease(self) -> None:
        spec = {
            "holderIdentity": self._options.name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": format_micro_time(self._clock.now()),
        }
        try:
            await self._client.patch(LEASES, self._options.name, {"spec": spec}, namespace=LEASE_NAMESPACE)
        except NotFoundError:
            document = {
                "metadata": {"name": self._options.name, "namespace": LEASE_NAMESPACE},
                "spec": spec,
            }
            await self._client.create(LEASES, document)
