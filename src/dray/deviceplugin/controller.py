"""Which plugins run: exactly those that are wanted. A changed one is joined before its successor takes the socket."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NoReturn

from dray.deviceplugin.directory import PluginDirectory
from dray.deviceplugin.lifetime import PluginLifetime, Timing
from dray.deviceplugin.metrics import PluginMetrics
from dray.deviceplugin.plugin import CarryOut, Giving, Offer, ResourcePlugin
from dray.deviceplugin.rivals import KubeletView, Rivals
from dray.errors import InvariantError
from dray.inventory.inventory import InventoryFeed
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.runtime.tasks import STOP_TIMEOUT, single
from dray.wire.registration_state import STARTING, RegistrationPhase, RegistrationState

_log = get_log("deviceplugin")


class PluginController:
    """Starts and stops plugins as `want` says. Devices that come and go need no restart: they come through the feed.

    `want` may be called at any time, before `run` too; only the newest wish counts. With `kubelet_dir`, the kubelet's
    root directory, a resource that somebody else serves is left alone (`rivals`). With `metrics` the plugins are counted.
    With `giving` each device is noted as held before a container gets it.
    """

    def __init__(
        self,
        directory: PluginDirectory,
        feed: InventoryFeed,
        carry_out: CarryOut,
        clock: Clock,
        timing: Timing | None = None,
        *,
        kubelet_dir: Path | None = None,
        metrics: PluginMetrics | None = None,
        giving: Giving | None = None,
    ) -> None:
        self._directory = directory
        self._feed = feed
        self._carry_out = carry_out
        self._clock = clock
        self._timing = timing
        self._metrics = metrics
        self._giving = giving
        self._rivals = (
            None
            if kubelet_dir is None
            else Rivals(KubeletView(kubelet_dir), directory, self._own_sockets, clock)
        )
        self._wanted: dict[str, Offer] = {}
        self._running: dict[str, _Running] = {}
        self._changed = asyncio.Event()
        if metrics is not None:
            metrics.follow(self.states)

    @property
    def is_initialized(self) -> bool:
        """Whether the kubelet has every wanted resource, each as it is wanted now; true where none is."""
        return all(
            (plugin := self._running.get(resource)) is not None
            and plugin.offer.terms == offer.terms
            and plugin.lifetime.is_registered
            for resource, offer in self._wanted.items()
        )

    @property
    def is_in_line(self) -> bool:
        """Whether each wanted resource that the kubelet has not from us is served by somebody else, whose end we wait for."""
        return all(
            state.phase in (RegistrationPhase.REGISTERED, RegistrationPhase.REFUSED)
            for state in self.states().values()
        )

    def states(self) -> Mapping[str, RegistrationState]:
        """How each wanted resource stands with the kubelet, by name."""
        return {
            resource: self._running[resource].lifetime.state if resource in self._running else STARTING
            for resource in sorted(self._wanted)
        }

    def want(self, offers: Iterable[Offer]) -> None:
        """Replace the wish. Each resource and each socket has one owner.

        A plugin that runs is restarted only if what the kubelet knows of it differs (`Offer.terms`); else it goes on,
        and the next call it gets is answered with the new driver.
        """
        wanted = list(offers)
        if len({offer.resource for offer in wanted}) < len(wanted) or len(
            {offer.socket for offer in wanted}
        ) < len(wanted):
            raise InvariantError("a resource or a socket of a device plugin has two owners")
        self._wanted = {offer.resource: offer for offer in wanted}
        for plugin in self._running.values():
            offer = self._wanted.get(plugin.offer.resource)
            if offer is not None and offer.terms == plugin.offer.terms:
                plugin.take_over(offer)
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
        metrics = None if self._metrics is None else self._metrics.of(offer.resource)

        def make_plugin() -> ResourcePlugin:
            return ResourcePlugin(plugin.offer, self._feed, self._carry_out, metrics, self._giving)

        lifetime = PluginLifetime(make_plugin, self._directory, self._clock, self._timing, self._rivals)
        task = group.create_task(lifetime.run(), name=f"plugin {offer.resource}")
        task.add_done_callback(lambda _: self._changed.set())
        plugin = self._running[offer.resource] = _Running(offer, lifetime, task)
        _log.info("plugin starts", resource=offer.resource, kind=offer.driver.kind)

    async def _stop_unwanted(self) -> None:
        """Cancel and join what is not wanted as it runs. What does not end in time is joined at the next occasion."""
        ending = {
            resource: plugin.task
            for resource, plugin in self._running.items()
            if plugin.task.done()
            or (offer := self._wanted.get(resource)) is None
            or offer.terms != plugin.offer.terms
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

    def _own_sockets(self) -> frozenset[str]:
        return frozenset(
            offer.socket
            for offer in (*self._wanted.values(), *(plugin.offer for plugin in self._running.values()))
        )


class _Running:
    """A plugin that was started, with the newest offer it stands for."""

    def __init__(self, offer: Offer, lifetime: PluginLifetime, task: asyncio.Task[None]) -> None:
        self.offer = offer
        self.lifetime = lifetime
        self.task = task

    def take_over(self, offer: Offer) -> None:
        """From the next call on `offer` is answered for; its terms are equal."""
        self.offer = offer
        if self.lifetime.plugin is not None:
            self.lifetime.plugin.offer = offer
