"""All connected device plugins, by resource and socket: several instances of one resource live side by side."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Protocol

from dray.errors import Error, UnavailableError
from dray.kubelet.devices.known import Device
from dray.kubelet.plugins.endpoint import (
    DEFAULT_TIMEOUTS,
    LIMITS,
    PluginEndpoint,
    Timeouts,
    asked_options,
    dial,
)
from dray.kubelet.plugins.quota import Quota, most_devices
from dray.kubelet.turns import Pace, Turns
from dray.runtime.logs import get_log
from dray.runtime.tasks import running
from dray.wire.connect import Channel

_log = get_log("kubelet.plugins")


class Devices(Protocol):
    """Who wants to know. For each endpoint: `connected` once, `listed` any number of times, `disconnected` once."""

    def connected(self, resource: str, endpoint: PluginEndpoint) -> None:
        """A plugin came; others of the resource may be there."""
        ...

    def listed(self, resource: str, devices: Sequence[Device], endpoint: PluginEndpoint) -> None:
        """Its whole list, each id once."""
        ...

    def disconnected(self, resource: str, endpoint: PluginEndpoint) -> None:
        """It is gone. Where it connected anew over the same socket, that was told before."""
        ...


def _nobody() -> None:
    """Nobody wants to know."""


class Connections:
    """Connects plugins and keeps their streams. Used within `running`: left, all are disconnected."""

    def __init__(self, devices: Devices, timeouts: Timeouts = DEFAULT_TIMEOUTS) -> None:
        self._devices = devices
        self._timeouts = timeouts
        self._endpoints: dict[tuple[str, Path], PluginEndpoint] = {}
        self._closing: set[PluginEndpoint] = set()
        self._listed_by: dict[PluginEndpoint, int] = {}
        self._group: asyncio.TaskGroup | None = None
        self._hosting = asyncio.Event()
        self._quota = Quota()
        self._turns = Turns()
        self._pace = Pace()

    @property
    def endpoints(self) -> tuple[PluginEndpoint, ...]:
        """All that are connected now, by resource and path."""
        return tuple(self._endpoints[key] for key in sorted(self._endpoints))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Plugins may connect while entered."""
        try:
            async with running(self._host(), name="device plugins"):
                await self._hosting.wait()
                yield
        finally:
            for endpoint in self.endpoints:
                self._drop(endpoint)
            for endpoint in tuple(self._closing):
                await self._close(endpoint)

    async def connect(self, resource: str, path: Path, lost: Callable[[], None] = _nobody) -> None:
        """Dial, ask for the options, then follow the lists in the background. An error changes nothing.

        A connection over the same socket before is replaced: calls that it has open go on. `lost` is called when the
        plugin ends the stream, not when it was replaced or disconnected. Of one socket one registration is worked on
        at a time.
        """
        async with self._turns.turn(path):
            await self._connect(resource, path, lost)

    async def _connect(self, resource: str, path: Path, lost: Callable[[], None]) -> None:
        channel = Channel(path, self._timeouts.dial, LIMITS)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(channel.close)
            await dial(channel, self._timeouts.dial)
            options = await asked_options(channel, self._timeouts.options)
            self._quota.take(path, resource, asyncio.get_running_loop().time())
            endpoint = PluginEndpoint(resource, channel, options, self._timeouts, self._pace)
            group = self._group
            if group is None:
                raise UnavailableError("no device plugin is taken any more: the kubelet is stopping")
            stack.pop_all()
        old = self._endpoints.get((resource, path))
        self._endpoints[resource, path] = endpoint
        self._devices.connected(resource, endpoint)
        if old is not None:
            self._end(old)
            group.create_task(self._retire(old), name=f"old connection of {old}")
        group.create_task(self._keep(endpoint, lost), name=f"device plugin {endpoint}")
        _log.info("device plugin connected", resource=resource, path=path, again=old is not None)

    async def disconnect(self, resource: str, path: Path) -> None:
        """Close that connection; calls in flight fail. One that is not there is fine."""
        endpoint = self._endpoints.get((resource, path))
        if endpoint is not None:
            self._drop(endpoint)
            await self._close(endpoint)

    async def _host(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            self._hosting.set()
            try:
                await asyncio.Event().wait()
            finally:
                self._group = None

    async def _keep(self, endpoint: PluginEndpoint, lost: Callable[[], None]) -> None:
        """Follow one plugin to its end. A fault of the plugin ends this connection and nothing else."""
        reason = "it ended the stream"
        try:
            await endpoint.follow(lambda devices: self._listed(endpoint, devices))
        except Error as error:
            reason = str(error)
        if self._endpoints.get((endpoint.resource, endpoint.path)) is not endpoint:
            return
        _log.warning("device plugin lost", resource=endpoint.resource, path=endpoint.path, reason=reason)
        self._drop(endpoint)
        lost()
        await self._close(endpoint)

    def _listed(self, endpoint: PluginEndpoint, devices: Sequence[Device]) -> None:
        if self._endpoints.get((endpoint.resource, endpoint.path)) is not endpoint:
            return
        others = [(one.path, count) for one, count in self._listed_by.items() if one is not endpoint]
        of_socket = sum(count for path, count in others if path == endpoint.path)
        most = most_devices(of_socket, sum(count for _, count in others))
        if len(devices) > most:
            beyond = len(devices) - most
            _log.warning(
                "device plugins list too many devices, the rest is left out",
                resource=endpoint.resource,
                beyond=beyond,
            )
        self._listed_by[endpoint] = min(len(devices), most)
        self._devices.listed(endpoint.resource, devices[:most], endpoint)

    def _drop(self, endpoint: PluginEndpoint) -> None:
        del self._endpoints[endpoint.resource, endpoint.path]
        self._end(endpoint)

    def _end(self, endpoint: PluginEndpoint) -> None:
        endpoint.is_stopped = True
        self._listed_by.pop(endpoint, None)
        self._closing.add(endpoint)
        self._devices.disconnected(endpoint.resource, endpoint)

    async def _retire(self, endpoint: PluginEndpoint) -> None:
        await endpoint.retire()
        self._closing.discard(endpoint)

    async def _close(self, endpoint: PluginEndpoint) -> None:
        await endpoint.close()
        self._closing.discard(endpoint)
