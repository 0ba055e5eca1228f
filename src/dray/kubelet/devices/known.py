"""What the plugins of this node list: per resource its devices, their health, and who answers for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from dray.kubelet.devices.contract import Endpoint, Options
from dray.kubelet.node.resources import DeviceCapacity
from dray.wire.deviceplugin import HEALTHY
from dray.wire.gen import deviceplugin_v1beta1_pb2 as pb

GRACE = 300.0
"""Seconds a resource stays, with no device to give, after its last plugin went away."""


@dataclass(frozen=True, slots=True)
class Device:
    """One device as listed. `has_topology` is also true where the plugin sent a topology without any node."""

    id: str
    is_healthy: bool = True
    nodes: tuple[int, ...] = ()
    has_topology: bool = False


def from_wire(message: pb.Device) -> Device:
    """Every word but "Healthy" is unhealthy. A node named twice counts once."""
    has_topology = message.HasField("topology")
    nodes = tuple(sorted({node.ID for node in message.topology.nodes})) if has_topology else ()
    return Device(message.ID, message.health == HEALTHY, nodes, has_topology)


@dataclass(slots=True)
class _Instance:
    """One connection. `devices` is None until its first list."""

    endpoint: Endpoint
    devices: Mapping[str, Device] | None = None


@dataclass(slots=True)
class Resource:
    """One resource: what the newest instance that has listed says. Read it; `KnownDevices` changes it.

    `stopped_at` is set while no instance is connected; all devices are unhealthy then, whatever they said before.
    `is_stale`: nobody has listed since; what is shown is from before.
    """

    devices: Mapping[str, Device] = field(default_factory=dict)
    healthy: frozenset[str] = frozenset()
    unhealthy: frozenset[str] = frozenset()
    stopped_at: float | None = None
    is_stale: bool = True
    has_nodes: bool = False
    _instances: list[_Instance] = field(default_factory=list)
    _options: Options | None = None

    @property
    def endpoint(self) -> Endpoint | None:
        """Who is asked for its devices: the one whose list counts; None while stopped."""
        return self._current.endpoint if self._instances else None

    @property
    def options(self) -> Options | None:
        """Of the one who is asked, or of the last one while stopped; None if none came since this process started."""
        endpoint = self.endpoint
        return self._options if endpoint is None else endpoint.options

    @property
    def _current(self) -> _Instance:
        listed = [one for one in self._instances if one.devices is not None]
        return (listed or self._instances)[-1]

    def _connect(self, endpoint: Endpoint) -> None:
        self._instances.append(_Instance(endpoint))
        self.stopped_at = None

    def _list(self, endpoint: Endpoint, devices: Mapping[str, Device]) -> None:
        for one in self._instances:
            if one.endpoint is endpoint:
                one.devices = devices
                self._show()

    def _disconnect(self, endpoint: Endpoint, now: float) -> None:
        left = [one for one in self._instances if one.endpoint is not endpoint]
        if len(left) == len(self._instances):
            return
        self._instances = left
        if left:
            self._show()
            return
        self.stopped_at, self.is_stale, self._options = now, True, endpoint.options
        self.unhealthy, self.healthy = self.unhealthy | self.healthy, frozenset()

    def _show(self) -> None:
        """Take over the list that counts now. Where a newer instance has none yet, what is shown stays."""
        devices = self._current.devices
        if devices is None or devices is self.devices:
            return
        self.devices, self.is_stale = devices, False
        self.healthy = frozenset(one.id for one in devices.values() if one.is_healthy)
        self.unhealthy = frozenset(devices.keys() - self.healthy)
        self.has_nodes = any(one.nodes for one in devices.values())


class KnownDevices:
    """All resources. Several instances of one plugin are kept side by side: one that ends takes only itself away."""

    def __init__(self) -> None:
        self._resources: dict[str, Resource] = {}

    def __contains__(self, resource: str) -> bool:
        return resource in self._resources

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._resources))

    def get(self, resource: str) -> Resource | None:
        """None: no plugin of that name, or it is gone for good."""
        return self._resources.get(resource)

    def restored(self, resource: str, now: float) -> None:
        """It was here before this process started: nothing to give until its plugin comes back, within the grace."""
        self._resources.setdefault(resource, Resource(stopped_at=now))

    def connected(self, resource: str, endpoint: Endpoint) -> None:
        """One more instance. The ones before go on answering until it has listed."""
        self._resources.setdefault(resource, Resource())._connect(endpoint)  # noqa: SLF001  (one module, one owner)

    def listed(self, resource: str, devices: Iterable[Device], endpoint: Endpoint) -> None:
        """The whole list of one instance; it counts while no newer instance has listed. An id listed twice: the last."""
        if (one := self._resources.get(resource)) is not None:
            one._list(endpoint, {device.id: device for device in devices})  # noqa: SLF001

    def stopped(self, resource: str, endpoint: Endpoint, now: float) -> None:
        """An instance is gone; twice is harmless. With the last one all devices become unhealthy."""
        if (one := self._resources.get(resource)) is not None:
            one._disconnect(endpoint, now)  # noqa: SLF001

    def capacity(self, now: float) -> DeviceCapacity:
        """Forgets what has been without a plugin for longer than the grace, and tells of it this one time."""
        deleted = tuple(
            name
            for name, one in sorted(self._resources.items())
            if one.stopped_at is not None and now - one.stopped_at > GRACE
        )
        for name in deleted:
            del self._resources[name]
        left = sorted(self._resources.items())
        return DeviceCapacity(
            {name: len(one.healthy) + len(one.unhealthy) for name, one in left},
            {name: len(one.healthy) for name, one in left},
            deleted,
        )
