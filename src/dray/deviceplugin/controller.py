"""Which plugins run: exactly those that are wanted. A changed one is joined before its successor takes the socket."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

from dray.deviceplugin.directory import PluginDirectory
from dray.deviceplugin.lifetime import PluginLifetime, Timing
from dray.deviceplugin.plugin import CarryOut, Offer, ResourcePlugin
from dray.errors import InvariantError
from dray.inventory.inventory import InventoryFeed
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.runtime.tasks import STOP_TIMEOUT, single

_log = get_log("deviceplugin")


@dataclass(frozen=True, slots=True)
class _Running:
    offer: Offer
    lifetime: PluginLifetime
    task: asyncio.Task[None]


class PluginController:
    """Starts and stops plugins as `want` says. Devices that come and go need no restart: they come through the feed.

    `want` may be called at any time, before `run` too; only the newest wish counts. An equal offer is left alone.
    """

    def __init__(
        self,
        directory: PluginDirectory,
        feed: InventoryFeed,
        carry_out: CarryOut,
        clock: Clock,
        timing: Timing | None = None,
    ) -> None:
        self._directory = directory
        self._feed = feed
        self._carry_out = carry_out
        self._clock = clock
        self._timing = timing
        self._wanted: dict[str, Offer] = {}
        self._running: dict[str, _Running] = {}
        self._changed = asyncio.Event()

    @property
    def is_initialized(self) -> bool:
        """Whether the kubelet has every wanted resource, each as it is wanted now; true where none is."""
        return all(
            (plugin := self._running.get(resource)) is not None
            and plugin.offer == offer
            and plugin.lifetime.is_registered
            for resource, offer in self._wanted.items()
        )

    def want(self, offers: Iterable[Offer]) -> None:
        """Replace the wish. Each resource and each socket has one owner."""
        wanted = list(offers)
        self._wanted = {offer.resource: offer for offer in wanted}
        if len(self._wanted) < len(wanted) or len({offer.socket for offer in wanted}) < len(wanted):
            raise InvariantError("a resource or a socket of a device plugin has two owners")
        self._changed.set()

    async def run(self) -> NoReturn:
        """Until cancelled; then every plugin says goodbye to the kubelet, all at once."""
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    self._changed.clear()
                    await self._stop_unwanted()
                    for resource, offer in sorted(self._wanted.items()):
                        if resource not in self._running:
                            self._start(group, offer)
                    await self._changed.wait()
        except BaseExceptionGroup as failures:
            raise single(failures) from None
        finally:
            self._running.clear()

    def _start(self, group: asyncio.TaskGroup, offer: Offer) -> None:
        def make_plugin() -> ResourcePlugin:
            return ResourcePlugin(offer, self._feed, self._carry_out)

        lifetime = PluginLifetime(make_plugin, self._directory, self._clock, self._timing)
        task = group.create_task(lifetime.run(), name=f"plugin {offer.resource}")
        self._running[offer.resource] = _Running(offer, lifetime, task)
        _log.info("plugin starts", resource=offer.resource, kind=offer.driver.kind)

    async def _stop_unwanted(self) -> None:
        """Cancel and join what is not wanted as it runs. What does not end in time is joined at the next occasion."""
        ending = {
            resource: plugin.task
            for resource, plugin in self._running.items()
            if self._wanted.get(resource) != plugin.offer
        }
        for task in ending.values():
            task.cancel()
        if ending:
            await asyncio.wait(ending.values(), timeout=STOP_TIMEOUT)
        for resource, task in ending.items():
            if task.done():
                del self._running[resource]
                _log.info("plugin stopped", resource=resource)
            else:
                _log.error("plugin does not stop", resource=resource)
