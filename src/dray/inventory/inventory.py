"""The machine's devices as one immutable value, and the feed that tells of the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from dray.drivers.contract import Device


@dataclass(frozen=True, slots=True)
class Inventory:
    """All devices at one moment, sorted. `generation` grows by one with every difference."""

    generation: int = 0
    devices: tuple[Device, ...] = ()

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

    def publish(self, devices: Iterable[Device]) -> Inventory:
        """Replace the whole list. An equal list is no change, and nobody is woken."""
        found = tuple(sorted(devices, key=lambda device: (device.kind, device.resource, device.id)))
        if found != self._current.devices:
            self._current = Inventory(self._current.generation + 1, found)
            self._changed.set()
            self._changed = asyncio.Event()
        return self._current

    async def wait_newer(self, generation: int) -> Inventory:
        """The newest state as soon as it is newer than `generation`."""
        while self._current.generation <= generation:
            await self._changed.wait()
        return self._current
