"""The machine's devices as one immutable value, and the feed that tells of the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dray.api.resource.slice import CounterSet
from dray.drivers.contract import Device


@dataclass(frozen=True, slots=True)
class Inventory:
    """All devices at one moment, sorted. `generation` grows by one with every difference.

    `counters` are those of each kind that has any.
    """

    generation: int = 0
    devices: tuple[Device, ...] = ()
    counters: Mapping[str, tuple[CounterSet, ...]] = field(default_factory=dict)

    def of(self, resource: str) -> tuple[Device, ...]:
        """The devices offered under one resource name."""
        return tuple(device for device in self.devices if device.resource == resource)


class InventoryFeed:
    """Holds the newest inventory. One task publishes; any number wait. Level-triggered: a slow reader skips states."""

    def __init__(self) -> None:
        self._current = Inventory()
        self._changed = asyncio.Event()

    @property
    def current(self) -> Inventory:
        """The newest state."""
        return self._current

    def publish(
        self, devices: Iterable[Device], counters: Mapping[str, tuple[CounterSet, ...]] | None = None
    ) -> Inventory:
        """Replace the whole list, and the counters where they are given. An equal list is no change, and nobody is woken."""
        found = tuple(sorted(devices, key=lambda device: (device.kind, device.resource, device.id)))
        sets = self._current.counters if counters is None else counters
        if (found, sets) != (self._current.devices, self._current.counters):
            self._current = Inventory(self._current.generation + 1, found, sets)
            self._changed.set()
            self._changed = asyncio.Event()
        return self._current

    async def wait_newer(self, generation: int) -> Inventory:
        """The newest state as soon as it is newer than `generation`."""
        while self._current.generation <= generation:
            await self._changed.wait()
        return self._current
