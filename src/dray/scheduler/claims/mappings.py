"""Which devices take CPU, memory and the like from their node when they are allocated, as their slices say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dray.api.resource.slice import NodeAllocatableResourceMapping, ResourceSlice, ResourceSliceSpec
from dray.semantics.pools import PoolID, may_be_for, newest, pool_of

Mappings = Mapping[str, NodeAllocatableResourceMapping]
"""By the name of the node's resource."""


@dataclass(frozen=True, slots=True)
class _Part:
    spec: ResourceSliceSpec
    devices: Mapping[str, Mappings]


class DeviceMappings:
    """Belongs to a `Catalogue`, which feeds it with every slice. An answer costs what the pool has of slices."""

    def __init__(self) -> None:
        self._pools: dict[PoolID, dict[str, _Part]] = {}
        self._where: dict[str, PoolID] = {}
        self._mapped = 0

    @property
    def is_empty(self) -> bool:
        """Whether no device takes anything: then nobody need ask."""
        return not self._mapped

    def set_slice(self, one: ResourceSlice) -> None:
        """New or changed."""
        self.remove_slice(one)
        name, pool = one.metadata.name, pool_of(one)
        devices = {
            device.name: device.node_allocatable_resource_mappings for device in one.spec.devices or ()
        }
        self._pools.setdefault(pool, {})[name] = _Part(one.spec, devices)
        self._where[name] = pool
        self._mapped += any(devices.values())

    def remove_slice(self, one: ResourceSlice) -> None:
        """Gone; a no-op for one that is not known."""
        pool = self._where.pop(one.metadata.name, None)
        if pool is None:
            return
        gone = self._pools[pool].pop(one.metadata.name)
        self._mapped -= any(gone.devices.values())
        if not self._pools[pool]:
            del self._pools[pool]

    def of(self, node: str, driver: str, pool: str, device: str) -> Mappings | None:
        """What the device takes from the node, by the newest slice that has it; None where no slice for it has it any more.

        An older slice is better than none: the claim has its device while the driver replaces the pool's slices.
        """
        parts = self._pools.get(PoolID(driver, pool), {}).values()
        having = newest(one for one in parts if device in one.devices and may_be_for(node, one))
        return having[0].devices[device] if having else None
