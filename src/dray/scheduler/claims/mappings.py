"""Which devices take CPU, memory and the like from their node when they are allocated, as their slices say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dray.api.resource.slice import NodeAllocatableResourceMapping, ResourceSlice

Mappings = Mapping[str, NodeAllocatableResourceMapping]
"""By the name of the node's resource."""
_Pool = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Part:
    generation: int
    devices: Mapping[str, Mappings]


class DeviceMappings:
    """Belongs to a `Catalogue`, which feeds it with every slice. An answer costs what the pool has of slices."""

    def __init__(self) -> None:
        self._pools: dict[_Pool, dict[str, _Part]] = {}
        self._where: dict[str, _Pool] = {}
        self._mapped = 0

    @property
    def is_empty(self) -> bool:
        """Whether no device takes anything: then nobody need ask."""
        return not self._mapped

    def set_slice(self, one: ResourceSlice) -> None:
        """New or changed."""
        self.remove_slice(one)
        name, pool = one.metadata.name, (one.spec.driver, one.spec.pool.name)
        devices = {
            device.name: device.node_allocatable_resource_mappings for device in one.spec.devices or ()
        }
        self._pools.setdefault(pool, {})[name] = _Part(one.spec.pool.generation, devices)
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

    def of(self, driver: str, pool: str, device: str) -> Mappings | None:
        """What the device takes, by the newest slice that has it; None where no slice has it any more."""
        parts = [one for one in self._pools.get((driver, pool), {}).values() if device in one.devices]
        return max(parts, key=lambda one: one.generation).devices[device] if parts else None
