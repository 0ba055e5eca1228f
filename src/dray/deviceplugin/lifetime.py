"""The life of a plugin, the same for every kind: serve, call oneself, register, notice that the kubelet is new, stop.

One run ends when our socket is gone: a kubelet that starts wipes the directory. The old run is over, its server joined,
before the next begins. How long to wait in between follows KubeVirt's table, cut short by a kubelet that appears.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from dray.deviceplugin.directory import PluginDirectory
from dray.deviceplugin.plugin import ResourcePlugin
from dray.errors import Error, InvariantError, UnavailableError
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


class PluginLifetime:
    """Keeps one resource registered for as long as `run` runs. `is_registered` tells whether the kubelet has it now."""

    def __init__(
        self,
        make_plugin: Callable[[], ResourcePlugin],
        directory: PluginDirectory,
        clock: Clock,
        timing: Timing | None = None,
    ) -> None:
        self._make_plugin = make_plugin
        self._directory = directory
        self._clock = clock
        self._timing = timing or Timing()
        self._tried: int | None = None
        self.is_registered = False

    async def run(self) -> NoReturn:
        """Until cancelled; then the kubelet is told an empty list, and the socket is gone."""
        failures = 0
        while True:
            self._tried = None
            started = self._clock.monotonic()
            seen = self._generation(KUBELET_SOCKET)
            plugin = self._make_plugin()
            try:
                await self._run_once(plugin)
                failures = 0
                delay = self._timing.after_clean_end
            except InvariantError:
                raise
            except Error as error:
                seen = self._generation(KUBELET_SOCKET)
                failures = 0 if self._clock.monotonic() - started > STEADY_SECONDS else failures
                delay = self._timing.after_failures[min(failures, len(self._timing.after_failures) - 1)]
                failures += 1
                _log.warning(
                    "will try again", resource=plugin.offer.resource, delay_s=delay, error=str(error)
                )
            await self._pause(delay, self._last_kubelet(seen))

    async def _run_once(self, plugin: ResourcePlugin) -> None:
        """Serve until our socket is gone, registered with every kubelet that appears meanwhile."""
        await self._directory.wait_until(self._directory.path.is_dir)
        path = self._directory.path / plugin.offer.socket
        async with serve(path, [DevicePluginService(plugin)]):
            try:
                ours = _inode(path)
                await self._wait_seen(path, ours)
                if _is_at(path, ours):
                    await self._call_oneself(path)
                while _is_at(path, ours):
                    await self._directory.wait_until(
                        lambda: not _is_at(path, ours) or self._directory.get(KUBELET_SOCKET) is not None
                    )
                    if _is_at(path, ours):
                        await self._stay_registered(plugin, path, ours)
            finally:
                self.is_registered = False
                await plugin.retire(self._timing.goodbye)
        _log.info("socket is gone, will serve again", resource=plugin.offer.resource, path=path)

    async def _stay_registered(self, plugin: ResourcePlugin, path: Path, ours: int | None) -> None:
        kubelet = self._tried = self._generation(KUBELET_SOCKET)
        await self._register(plugin)
        self.is_registered = True
        await self._directory.wait_until(
            lambda: not _is_at(path, ours) or self._generation(KUBELET_SOCKET) != kubelet
        )
        self.is_registered = False

    async def _register(self, plugin: ResourcePlugin) -> None:
        request = RegisterRequest(
            version=VERSION,
            endpoint=plugin.offer.socket,
            resource_name=plugin.offer.resource,
            options=await plugin.get_device_plugin_options(Empty()),
        )
        async with connect(self._directory.path / KUBELET_SOCKET, timeout=self._timing.calls) as channel:
            await DevicePluginRegistrationClient(channel).register(request)
        _log.info("registered", resource=plugin.offer.resource, socket=plugin.offer.socket)

    async def _call_oneself(self, path: Path) -> None:
        async with connect(path, timeout=self._timing.calls) as channel:
            await DevicePluginClient(channel).get_device_plugin_options(Empty())

    async def _wait_seen(self, path: Path, ours: int | None) -> None:
        """Until the watch shows the socket we just made, or it is gone already: from then on its end is noticed.

        The watch may show an older file that had the same number; that one's end wakes us just as well.
        """

        def is_seen() -> bool:
            entry = self._directory.get(path.name)
            return (entry is not None and entry.inode == ours) or not _is_at(path, ours)

        try:
            async with asyncio.timeout(self._timing.calls):
                await self._directory.wait_until(is_seen)
        except TimeoutError as error:
            raise UnavailableError(f"the watch of {path.parent} does not show {path.name}") from error

    async def _pause(self, delay: float, seen: int | None) -> None:
        """Wait, but not once there is another kubelet than the one seen last, so each shortens one pause at most."""
        appeared = self._directory.wait_until(
            lambda: (
                self._directory.get(KUBELET_SOCKET) is not None and self._generation(KUBELET_SOCKET) != seen
            )
        )
        await wait_first(self._clock.sleep(delay), appeared)

    def _last_kubelet(self, seen: int | None) -> int | None:
        return seen if self._tried is None else self._tried

    def _generation(self, name: str) -> int | None:
        entry = self._directory.get(name)
        return None if entry is None else entry.generation


def _inode(path: Path) -> int | None:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return None


def _is_at(path: Path, ours: int | None) -> bool:
    """Whether our socket still has its name. Exact: the kernel gives its number to nobody while we hold it open."""
    return ours is not None and _inode(path) == ours
