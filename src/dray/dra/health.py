"""Device health for the kubelet: all devices now, after each change, and often enough not to become stale."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable

from dray.dra.names import device_name
from dray.drivers.contract import Device, Health
from dray.inventory.inventory import Inventory, InventoryFeed
from dray.runtime.clock import Clock
from dray.runtime.tasks import wait_first
from dray.wire.gen.dra_health_v1_pb2 import (
    DeviceHealth,
    DeviceIdentifier,
    HealthStatus,
    NodeWatchResourcesRequest,
    NodeWatchResourcesResponse,
)
from dray.wire.health import STALE_AFTER
from dray.wire.limits import MIB

REPEAT_SECONDS = 10.0
"""How often the list is told though nothing changed; `STALE_AFTER` lets two of them be lost."""
MESSAGE_BYTES = 1024
"""Of the words about one device: a kubelet cuts what is longer."""
LIST_BYTES = 3 * MIB
"""A longer list goes without words: a kubelet takes 4 MiB."""

Select = Callable[[Inventory], Iterable[Device]]
"""The devices of one driver, as its slices have them."""


class HealthStreams:
    """Answers NodeWatchResources for one driver. Any number may watch; a slow one skips states, and holds up nobody."""

    def __init__(
        self, feed: InventoryFeed, select: Select, pool: str, clock: Clock, repeat: float = REPEAT_SECONDS
    ) -> None:
        self._feed = feed
        self._select = select
        self._pool = pool
        self._clock = clock
        self._repeat = repeat

    async def node_watch_resources(
        self, request: NodeWatchResourcesRequest
    ) -> AsyncIterator[NodeWatchResourcesResponse]:
        """Ends only with the call. A change that does not touch this driver's health is not told before its time."""
        while True:
            told = self._feed.current
            yield health_list(self._select(told), self._pool, int(self._clock.now().timestamp()))
            await wait_first(self._clock.sleep(self._repeat), self._wait_other(told))

    async def _wait_other(self, told: Inventory) -> None:
        before = _states(self._select(told))
        newest = told
        while _states(self._select(newest)) == before:
            newest = await self._feed.wait_newer(newest.generation)


def _states(devices: Iterable[Device]) -> list[tuple[str, Health, str]]:
    return [(device_name(device), device.health, device.reason) for device in devices]


def health_list(devices: Iterable[Device], pool: str, now: int) -> NodeWatchResourcesResponse:
    """Each device once, sorted by name. `now` is in seconds since 1970."""
    found = {device_name(device): device for device in devices}
    entries = [_entry(name, device, pool, now) for name, device in sorted(found.items())]
    message = NodeWatchResourcesResponse(devices=entries)
    if message.ByteSize() > LIST_BYTES:
        for entry in message.devices:
            entry.message = ""
    return message


def _entry(name: str, device: Device, pool: str, now: int) -> DeviceHealth:
    healthy = device.health is Health.HEALTHY
    return DeviceHealth(
        device=DeviceIdentifier(pool_name=pool, device_name=name),
        health=HealthStatus.HEALTHY if healthy else HealthStatus.UNHEALTHY,
        last_updated_time=now,
        health_check_timeout_seconds=int(STALE_AFTER),
        message=device.reason.encode("utf-8", "replace")[:MESSAGE_BYTES].decode("utf-8", "ignore"),
    )
