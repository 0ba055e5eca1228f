"""What the plugins of this node list: per resource its devices, their health, and who answers for them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from dray.kubelet.devices.contract import Endpoint, Options
from dray.kubelet.node.resources import DeviceCapacity
from dray.wire.deviceplugin import HEALTHY
from dray.wire.gen import deviceplugin_v1beta1_pb2 as pb

GRACE = 300.0
"""Seconds a resource stays, with no device to give, after its last plugin went away."""
_FEW = 8
"""Of so many listed devices less than one: then they are sorted, not looked up in the sorted list."""


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


class Place(NamedTuple):
    """Where a device says that it sits; the fields are those of `Device`."""

    nodes: tuple[int, ...]
    has_topology: bool


class DeviceList(Mapping[str, Device]):
    """One whole list by id, and what every pod would have to work out of it again. It never changes."""

    def __init__(self, devices: Iterable[Device] = ()) -> None:
        """An id listed twice: the last counts."""
        self._by_id = {device.id: device for device in devices}

    def __getitem__(self, one: str) -> Device:
        return self._by_id[one]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)

    @cached_property
    def healthy(self) -> frozenset[str]:
        """The ids that can be given."""
        return frozenset(one.id for one in self._by_id.values() if one.is_healthy)

    @cached_property
    def unhealthy(self) -> frozenset[str]:
        """All others."""
        return frozenset(self._by_id.keys() - self.healthy)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """All ids, sorted."""
        return tuple(sorted(self._by_id))

    @cached_property
    def places(self) -> Mapping[Place, frozenset[str]]:
        """All ids by where they sit: there are thousands of devices, but few places."""
        found: dict[Place, list[str]] = {}
        for one in self._by_id.values():
            found.setdefault(Place(one.nodes, one.has_topology), []).append(one.id)
        return {place: frozenset(ids) for place, ids in found.items()}

    @property
    def has_nodes(self) -> bool:
        """Whether any device names a node, free or not; without that hints mean nothing."""
        return any(place.nodes for place in self.places)

    def first(self, count: int, among: frozenset[str]) -> list[str]:
        """The first of these ids, sorted; behind them those that are not listed."""
        if len(among) * _FEW < len(self):
            return sorted(among, key=lambda one: (one not in self._by_id, one))[:count]
        found = list(islice(filter(among.__contains__, self.order), count))
        if missing := min(count, len(among)) - len(found):
            found += heapq.nsmallest(missing, among - self._by_id.keys())
        return found


@dataclass(slots=True)
class _Instance:
    """One connection. `devices` is None until its first list."""

    endpoint: Endpoint
    devices: DeviceList | None = None


@dataclass(slots=True)
class Resource:
    """One resource: what the newest instance that has listed says. Read it; `KnownDevices` changes it.

    `stopped_at` is set while no instance is connected; all devices are unhealthy then, whatever they said before.
    `is_stale`: nobody has listed since; what is shown is from before.
    """

    devices: DeviceList = field(default_factory=DeviceList)
    healthy: frozenset[str] = frozenset()
    unhealthy: frozenset[str] = frozenset()
    stopped_at: float | None = None
    is_stale: bool = True
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

    def _list(self, endpoint: Endpoint, devices: DeviceList) -> None:
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
        self.healthy, self.unhealthy = devices.healthy, devices.unhealthy


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
        """The whole list of one instance; it counts while no newer instance has listed."""
        if (one := self._resources.get(resource)) is not None:
            one._list(endpoint, DeviceList(devices))  # noqa: SLF001

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
