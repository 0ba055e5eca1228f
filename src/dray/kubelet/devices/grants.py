"""Who holds which device. A device may stand in several grants of one pod: init containers hand theirs on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from dray.kubelet.devices.known import Device

NO_NODE = -1
"""The key of devices without a NUMA node."""
_NOBODY: Mapping[str, Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True)
class Grant:
    """What one container holds of one resource. `response` is the plugin's ContainerAllocateResponse, serialized.

    A device of several NUMA nodes stands under each of them. A None inside is Go's nil, as a file may have it.
    """

    pod_uid: str
    container: str
    resource: str
    ids_by_node: Mapping[int, tuple[str, ...] | None] | None
    response: bytes | None = b""

    @cached_property
    def ids(self) -> frozenset[str]:
        """Its devices."""
        return frozenset(one for ids in (self.ids_by_node or {}).values() for one in ids or ())

    @property
    def key(self) -> tuple[str, str, str]:
        """Pod, container, resource: each has one grant at most."""
        return self.pod_uid, self.container, self.resource

    def located(self) -> tuple[Device, ...]:
        """Its devices with the NUMA nodes they had when they were granted, sorted."""
        nodes: dict[str, list[int]] = {one: [] for one in sorted(self.ids)}
        for node, ids in sorted((self.ids_by_node or {}).items()):
            for one in ids or ():
                if node != NO_NODE:
                    nodes[one].append(node)
        return tuple(Device(one, True, tuple(on), bool(on)) for one, on in nodes.items())


def by_node(ids: Iterable[str], devices: Mapping[str, Device]) -> dict[int, tuple[str, ...]]:
    """The ids under their NUMA nodes, nodes and ids sorted."""
    found: dict[int, list[str]] = {}
    for one in sorted(ids):
        device = devices.get(one)
        for node in (device.nodes if device else ()) or (NO_NODE,):
            found.setdefault(node, []).append(one)
    return {node: tuple(found[node]) for node in sorted(found)}


@dataclass(slots=True)
class Grants:
    """All grants in the order in which they were made, and who holds each device."""

    _grants: dict[tuple[str, str, str], Grant] = field(default_factory=dict)
    _pods: dict[str, dict[tuple[str, str, str], Grant]] = field(default_factory=dict)
    _holders: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    _moved: dict[str, set[str]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Grant]:
        return iter(self._grants.values())

    def __len__(self) -> int:
        return len(self._grants)

    def get(self, pod_uid: str, container: str, resource: str) -> Grant | None:
        """None: nothing was granted."""
        return self._grants.get((pod_uid, container, resource))

    def add(self, grant: Grant) -> None:
        """Keep it, in the place of an older one of the same key."""
        if grant.key in self._grants:
            self.remove(grant)
        self._grants[grant.key] = grant
        self._pods.setdefault(grant.pod_uid, {})[grant.key] = grant
        self._moved.setdefault(grant.resource, set()).update(grant.ids)
        holders = self._holders.setdefault(grant.resource, {})
        for one in grant.ids:
            pods = holders.setdefault(one, {})
            pods[grant.pod_uid] = pods.get(grant.pod_uid, 0) + 1

    def remove(self, grant: Grant) -> None:
        """Take back what `add` kept under its key."""
        grant = self._grants.pop(grant.key)
        of_pod = self._pods[grant.pod_uid]
        del of_pod[grant.key]
        if not of_pod:
            del self._pods[grant.pod_uid]
        self._moved.setdefault(grant.resource, set()).update(grant.ids)
        holders = self._holders[grant.resource]
        for one in grant.ids:
            pods = holders[one]
            pods[grant.pod_uid] -= 1
            if not pods[grant.pod_uid]:
                del pods[grant.pod_uid]
            if not pods:
                del holders[one]
        if not holders:
            del self._holders[grant.resource]

    def keep_only(self, pods: Collection[str]) -> tuple[str, ...]:
        """Forget all other pods; those that were forgotten."""
        gone = tuple(sorted(self._pods.keys() - set(pods)))
        for uid in gone:
            for grant in tuple(self._pods[uid].values()):
                self.remove(grant)
        return gone

    def has_pod(self, pod_uid: str) -> bool:
        """Whether it holds anything."""
        return pod_uid in self._pods

    def of_pod(self, pod_uid: str) -> tuple[Grant, ...]:
        """Sorted by resource, then container."""
        return tuple(
            sorted(self._pods.get(pod_uid, {}).values(), key=lambda one: (one.resource, one.container))
        )

    def of_container(self, pod_uid: str, container: str) -> tuple[Grant, ...]:
        """Sorted by resource."""
        return tuple(one for one in self.of_pod(pod_uid) if one.container == container)

    def held(self, resource: str) -> Mapping[str, Mapping[str, int]]:
        """The devices of a resource that are held: per id the pods, with how many of their containers."""
        return self._holders.get(resource, _NOBODY)

    def take_moved(self, resource: str) -> set[str]:
        """The devices that were granted or taken back since this was asked last; for the one who keeps the free ones."""
        return self._moved.pop(resource, set())

    def counts(self) -> dict[str, int]:
        """How many devices of each resource are held."""
        return {resource: len(ids) for resource, ids in sorted(self._holders.items())}
