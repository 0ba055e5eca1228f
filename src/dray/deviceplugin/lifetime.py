"""The life of a plugin, the same for every kind: serve, call oneself, register, notice that the kubelet is new, stop.

One run ends when our socket is gone (a kubelet that starts wipes the directory), or when the kubelet ends our list: it
does not ask for it again. The old run is over, its server joined, before the next begins. How long to wait in between
follows KubeVirt's table, cut short by a kubelet that appears.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from dray.deviceplugin.directory import PluginDirectory
from dray.deviceplugin.plugin import ResourcePlugin
from dray.deviceplugin.rivals import LookOut, Rivals, Standing
from dray.errors import ConflictError, Error, UnavailableError
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.runtime.tasks import wait_first
from dray.wire.connect import connect
from dray.wire.deviceplugin import (
    KUBELET_SOCKET,
    VERSION,
    DevicePluginClient,
    DevicePluginRegistrationClient,
    DevicePluginService,
)
from dray.wire.gen.deviceplugin_v1beta1_pb2 import Empty, RegisterRequest
from dray.wire.neighbour import who_listens
from dray.wire.registration_state import (
    REGISTERED,
    STARTING,
    WAITING,
    OwnSocket,
    RegistrationPhase,
    RegistrationState,
)
from dray.wire.serve import serve

_log = get_log("deviceplugin")

STEADY_SECONDS = 60.0
"""After a run of this length the count of failures begins anew."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. `after_failures` counts failures in a row; the last value stays."""

    after_failures: tuple[float, ...] = (2.0, 5.0, 10.0)
    after_clean_end: float = 1.0
    calls: float = 5.0
    goodbye: float = 1.0
    work: float = 8.0
    """How long running calls may take when we are told to stop."""
    patience: float = 1.0
    """How long a kubelet may take to give up what a plugin that ended had told it."""
    settle: float = 1.0
    """How long it may take to show what it was told."""
    looks: tuple[float, ...] = (2.0, 4.0, 10.0, 30.0, 60.0, 300.0)
    """When to look whether we still have the resource, from registering or a stranger's coming on; the last stays."""

    def after(self, failures: int) -> float:
        """The pause after one more failure than `failures`."""
        return self.after_failures[min(failures, len(self.after_failures) - 1)]


class PluginLifetime:
    """Keeps one resource registered for as long as `run` runs. `state` tells how it stands with the kubelet.

    Without `rivals` nobody else is looked for: whoever registers last has the resource.
    """

    def __init__(
        self,
        make_plugin: Callable[[], ResourcePlugin],
        directory: PluginDirectory,
        clock: Clock,
        timing: Timing | None = None,
        rivals: Rivals | None = None,
    ) -> None:
        self._make_plugin = make_plugin
        self._directory = directory
        self._clock = clock
        self._timing = timing or Timing()
        self._rivals = rivals
        self._tried: int | None = None
        self._had_us: int | None = None
        self.state = STARTING
        self.plugin: ResourcePlugin | None = None

    @property
    def is_registered(self) -> bool:
        """Whether the kubelet has the resource from us now."""
        return self.state.phase is RegistrationPhase.REGISTERED

    async def run(self) -> NoReturn:
        """Until cancelled; then the kubelet is told an empty list, and the socket is gone."""
        failures = 0
        while True:
            self._tried = None
            started = self._clock.monotonic()
            seen = self._generation(KUBELET_SOCKET)
            self.plugin = plugin = self._make_plugin()
            try:
                await self._run_once(plugin)
                failures = 0
                delay = self._timing.after_clean_end
            except Error as error:
                seen = self._generation(KUBELET_SOCKET)
                failures = 0 if self._clock.monotonic() - started > STEADY_SECONDS else failures
                delay = self._timing.after(failures)
                failures += 1
                self._tell_failed(plugin, error, delay)
            await self._pause(delay, self._last_kubelet(seen), plugin.offer.socket)

    async def _run_once(self, plugin: ResourcePlugin) -> None:
        """Serve until our socket is gone or the kubelet drops us, registered with every kubelet that appears meanwhile."""
        await self._directory.wait_until(self._directory.path.is_dir)
        path = self._directory.path / plugin.offer.socket
        async with _served(plugin, path):
            try:
                ours = OwnSocket.at(path)
                await self._wait_seen(ours)
                if ours.is_there:
                    await self._call_oneself(path)
                wanted = True
                while wanted and ours.is_there:
                    if self._directory.get(KUBELET_SOCKET) is None:
                        self.state = WAITING
                    await self._directory.wait_until(
                        lambda: not ours.is_there or self._directory.get(KUBELET_SOCKET) is not None
                    )
                    if ours.is_there:
                        wanted = await self._stay_registered(plugin, ours)
                why = "the kubelet ended the list" if ours.is_there else "socket is gone"
            except asyncio.CancelledError:
                plugin.streams.dismiss()
                await plugin.wait_idle(self._timing.work)
                raise
            finally:
                if self.is_registered:
                    self.state = WAITING
                await plugin.streams.retire(self._timing.goodbye)
        _log.info("will serve again", resource=plugin.offer.resource, path=path, why=why)

    async def _stay_registered(self, plugin: ResourcePlugin, ours: OwnSocket) -> bool:
        """False when the kubelet has given us up: it asks nobody twice, so all begins anew, with the old stream closed."""
        kubelet = self._tried = self._generation(KUBELET_SOCKET)
        await self._refuse_rivals(plugin)
        if self._generation(KUBELET_SOCKET) != kubelet:
            return True  # it is another one by now, and registering with one twice does harm
        plugin.streams.begin()
        await self._register(plugin)
        self._had_us = kubelet
        self.state = REGISTERED
        await wait_first(
            self._directory.wait_until(
                lambda: not ours.is_there or self._generation(KUBELET_SOCKET) != kubelet
            ),
            plugin.streams.wait_ended(),
            self._wait_lost(plugin),
        )
        self.state = WAITING
        return self._generation(KUBELET_SOCKET) != kubelet

    async def _refuse_rivals(self, plugin: ResourcePlugin) -> None:
        if self._rivals is not None:
            why = await self._rivals.find(plugin.offer.resource, plugin.ids, self._timing.patience)
            if why:
                raise ConflictError(why)

    async def _wait_lost(self, plugin: ResourcePlugin) -> None:
        """Return when the kubelet has nobody's list any more though our stream is open.

        While the kubelet has a stranger's list we keep still, and look again as often as after failures.
        """
        if (rivals := self._rivals) is None:
            await asyncio.Event().wait()
            return
        looking = LookOut(rivals, self._clock, self._timing.looks)
        confirmed, taken = False, 0
        while True:
            await (self._clock.sleep(self._timing.after(taken - 1)) if taken else looking.wait())
            found, why = await rivals.look(
                plugin.offer.resource, lambda: plugin.streams.told_healthy, plugin.ids, self._timing.settle
            )
            if found is Standing.LOST and (taken or confirmed):
                return
            if found is Standing.TAKEN:
                taken += 1
                plugin.streams.silence(True)
                self._tell_refused(plugin, why, self._timing.after(taken - 1))
            elif found is Standing.OURS:
                confirmed = True
                if taken:
                    taken = 0
                    plugin.streams.silence(False)
                    self.state = REGISTERED
                    _log.info("has the resource again", resource=plugin.offer.resource)

    def _tell_failed(self, plugin: ResourcePlugin, error: Error, delay: float) -> None:
        if isinstance(error, ConflictError):
            self._tell_refused(plugin, str(error), delay)
            return
        self.state = RegistrationState(RegistrationPhase.FAILED, str(error), delay)
        _log.warning("will try again", resource=plugin.offer.resource, delay_s=delay, error=str(error))

    def _tell_refused(self, plugin: ResourcePlugin, why: str, delay: float) -> None:
        """Once for each reason: it may stay for weeks."""
        if self.state.reason != why:
            displaced = self._had_us is not None and self._had_us == self._tried
            text = "displaced by another plugin" if displaced else "refused"
            _log.error(text, resource=plugin.offer.resource, error=why)
        self.state = RegistrationState(RegistrationPhase.REFUSED, why, delay)

    async def _register(self, plugin: ResourcePlugin) -> None:
        request = RegisterRequest(
            version=VERSION,
            endpoint=plugin.offer.socket,
            resource_name=plugin.offer.resource,
            options=await plugin.get_device_plugin_options(Empty()),
        )
        async with connect(self._directory.path / KUBELET_SOCKET, timeout=self._timing.calls) as channel:
            await DevicePluginRegistrationClient(channel).register(request)
        plugin.metrics.registered()
        _log.info("registered", resource=plugin.offer.resource, socket=plugin.offer.socket)

    async def _call_oneself(self, path: Path) -> None:
        async with connect(path, timeout=self._timing.calls) as channel:
            await DevicePluginClient(channel).get_device_plugin_options(Empty())

    async def _wait_seen(self, ours: OwnSocket) -> None:
        """Until the watch shows the socket we just made, or it is gone already: from then on its end is noticed.

        The watch may show an older file that had the same number; that one's end wakes us just as well.
        """

        def is_seen() -> bool:
            entry = self._directory.get(ours.path.name)
            return (entry is not None and entry.inode == ours.inode) or not ours.is_there

        try:
            async with asyncio.timeout(self._timing.calls):
                await self._directory.wait_until(is_seen)
        except TimeoutError as error:
            raise UnavailableError(
                f"the watch of {ours.path.parent} does not show {ours.path.name}"
            ) from error

    async def _pause(self, delay: float, seen: int | None, socket: str) -> None:
        """Wait, but not once there is another kubelet than the one seen last, so each shortens one pause at most; nor once
        the socket is gone that another plugin had, so that the resource is not missed for long.
        """
        had = self._directory.get(socket)
        is_rivals = self.state.phase is RegistrationPhase.REFUSED and had is not None
        news = self._directory.wait_until(
            lambda: (
                (self._directory.get(KUBELET_SOCKET) is not None and self._generation(KUBELET_SOCKET) != seen)
                or (is_rivals and self._directory.get(socket) is None)
            )
        )
        await wait_first(self._clock.sleep(delay), news)

    def _last_kubelet(self, seen: int | None) -> int | None:
        return seen if self._tried is None else self._tried

    def _generation(self, name: str) -> int | None:
        entry = self._directory.get(name)
        return None if entry is None else entry.generation


@asynccontextmanager
async def _served(plugin: ResourcePlugin, path: Path) -> AsyncIterator[None]:
    """Serve the plugin; a ConflictError names who has the socket."""
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(serve(path, [DevicePluginService(plugin)]))
        except ConflictError as error:
            who = await who_listens(path) or "a process that has just ended"
            raise ConflictError(
                f"the socket {path} of {plugin.offer.resource} is in use by {who}: "
                "stop that plugin or take the resource out of the config"
            ) from error
        yield
