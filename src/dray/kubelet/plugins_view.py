"""Who is registered with this kubelet, as its page `/plugins` tells it: device plugins by resource, DRA drivers by name.

It listens where the parts already meet: beside `Devices` for what plugins list, and around the handlers of the plugin
watcher for who registered how. It changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from dray.api.meta import format_time
from dray.errors import Error
from dray.kubelet.claims.drivers import Drivers, choose, choose_health
from dray.kubelet.devices.known import GRACE, Device
from dray.kubelet.plugins.connections import Devices
from dray.kubelet.plugins.endpoint import PluginEndpoint
from dray.kubelet.plugins.handler import PluginHandler
from dray.runtime.clock import Clock
from dray.runtime.pages import Page
from dray.wire.deviceplugin import VERSION

PATH: Final = "/plugins"
_MOST: Final = 512
DEVICE_PLUGIN, DRA_DRIVER = "device plugin", "DRA driver"


@dataclass(slots=True)
class _Connection:
    """One device plugin on one socket; it stays after its end until the resource is given up."""

    endpoint: PluginEndpoint
    since: datetime
    healthy: int = 0
    unhealthy: int = 0
    heard: datetime | None = None
    gone_at: float | None = None


@dataclass(frozen=True, slots=True)
class _Registered:
    """A plugin that came through `plugins_registry`; `refusal` says why it was not taken."""

    name: str
    versions: tuple[str, ...]
    since: datetime
    refusal: str = ""


class PluginsSeen:
    """What plugins do, kept for whoever asks. `resources` are those the node still offers, also without a plugin."""

    def __init__(self, devices: Devices, clock: Clock, resources: Callable[[], Mapping[str, int]]) -> None:
        self._devices = devices
        self._clock = clock
        self._resources = resources
        self._started = clock.monotonic()
        self._connections: dict[tuple[str, Path], _Connection] = {}
        self._drivers: Drivers | None = None
        self._registered: dict[str, dict[tuple[str, str], _Registered]] = {}

    def connected(self, resource: str, endpoint: PluginEndpoint) -> None:
        """See `Devices`."""
        self._devices.connected(resource, endpoint)
        gone = [
            key for key, one in self._connections.items() if key[0] == resource and one.gone_at is not None
        ]
        for key in gone:
            del self._connections[key]
        self._connections[resource, endpoint.path] = _Connection(endpoint, self._clock.now())

    def listed(self, resource: str, devices: Sequence[Device], endpoint: PluginEndpoint) -> None:
        """See `Devices`."""
        self._devices.listed(resource, devices, endpoint)
        found = self._connections.get((resource, endpoint.path))
        if found is not None and found.endpoint is endpoint:
            found.healthy = sum(one.is_healthy for one in devices)
            found.unhealthy = len(devices) - found.healthy
            found.heard = self._clock.now()

    def disconnected(self, resource: str, endpoint: PluginEndpoint) -> None:
        """See `Devices`."""
        self._devices.disconnected(resource, endpoint)
        found = self._connections.get((resource, endpoint.path))
        if found is not None and found.endpoint is endpoint:
            found.gone_at = self._clock.monotonic()
            found.unhealthy, found.healthy = found.unhealthy + found.healthy, 0

    def around(self, kind: str, handler: PluginHandler) -> PluginHandler:
        """The same handler, listened to."""
        return _Listened(handler, self._registered.setdefault(kind, {}), self._clock)

    def follow(self, drivers: Drivers) -> None:
        """Whose connections are told."""
        self._drivers = drivers

    def document(self) -> dict[str, Any]:
        """Keys stay; others may join. What is not known is null."""
        self._forget_refusals()
        found = [*self._device_plugins(), *self._dra_drivers()]
        return {"plugins": sorted(found, key=lambda one: (one["type"], one["name"], one["socket"] or ""))}

    def page(self) -> Page:
        """For HTTP."""
        return Page(200, "application/json", msgspec.json.encode(self.document()) + b"\n")

    def _forget_refusals(self) -> None:
        """A plugin that is still there is tried, and refused, again before this time has passed."""
        for notes in self._registered.values():
            old = [key for key, one in notes.items() if one.refusal and self._since(one) > GRACE]
            for key in old:
                del notes[key]

    def _since(self, one: _Registered) -> float:
        return (self._clock.now() - one.since).total_seconds()

    def _device_plugins(self) -> list[dict[str, Any]]:
        resources, now = self._resources(), self._clock.monotonic()
        given_up = [
            key
            for key, one in self._connections.items()
            if one.gone_at is not None and key[0] not in resources
        ]
        for key in given_up:
            del self._connections[key]
        connected = {name for (name, _), one in self._connections.items() if one.gone_at is None}
        found = []
        for (name, path), one in self._connections.items():
            if one.gone_at is not None and name in connected:
                continue  # another instance of the plugin has its place
            left = None if one.gone_at is None else max(0.0, GRACE - (now - one.gone_at))
            told = _entry(DEVICE_PLUGIN, name, str(path), [VERSION], "connected" if left is None else "gone")
            told |= {"healthy": one.healthy, "unhealthy": one.unhealthy, "since": format_time(one.since)}
            told |= {"lastMessage": one.heard and format_time(one.heard), "graceLeft": left}
            found.append(told)
        known = {name for name, _ in self._connections}
        for name in sorted(resources.keys() - known):
            left = max(0.0, GRACE - (now - self._started))
            found.append(
                _entry(DEVICE_PLUGIN, name, None, [], "gone")
                | {"graceLeft": left, "unhealthy": resources[name]}
            )
        refused = self._registered.get("DevicePlugin", {})
        return found + [
            _refused(DEVICE_PLUGIN, path, one) for (_, path), one in refused.items() if one.refusal
        ]

    def _dra_drivers(self) -> list[dict[str, Any]]:
        found = []
        for (name, path), one in self._registered.get("DRAPlugin", {}).items():
            if one.refusal:
                found.append(_refused(DRA_DRIVER, path, one))
                continue
            usable = self._drivers is not None and self._drivers.is_usable(name)
            versions = list(filter(None, [choose(one.versions), choose_health(one.versions)]))
            told = _entry(DRA_DRIVER, name, path, versions, "connected" if usable else "lost")
            found.append(told | {"since": format_time(one.since)})
        return found


def _entry(kind: str, name: str, socket: str | None, versions: list[str], state: str) -> dict[str, Any]:
    return {
        "type": kind,
        "name": name,
        "socket": socket,
        "versions": versions,
        "state": state,
        "healthy": None,
        "unhealthy": None,
        "since": None,
        "lastMessage": None,
        "graceLeft": None,
        "note": "",
    }


def _refused(kind: str, path: str, one: _Registered) -> dict[str, Any]:
    return _entry(kind, one.name, path, list(one.versions), "refused") | {"note": one.refusal}


class _Listened:
    """A handler of the plugin watcher that notes who came, went and was refused."""

    def __init__(
        self, handler: PluginHandler, notes: dict[tuple[str, str], _Registered], clock: Clock
    ) -> None:
        self._handler = handler
        self._notes = notes
        self._clock = clock

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """See `PluginHandler`."""
        try:
            self._handler.validate(name, endpoint, versions)
        except Error as error:
            self._note(name, endpoint, versions, str(error))
            raise

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """See `PluginHandler`."""
        try:
            await self._handler.register(name, endpoint, versions)
        except Error as error:
            self._note(name, endpoint, versions, str(error))
            raise
        self._note(name, endpoint, versions)

    async def deregister(self, name: str, endpoint: str) -> None:
        """See `PluginHandler`."""
        self._notes.pop((name, endpoint), None)
        await self._handler.deregister(name, endpoint)

    def _note(self, name: str, endpoint: str, versions: Sequence[str], refusal: str = "") -> None:
        # A plugin that is refused again and again under new names must not fill the memory.
        while len(self._notes) >= _MOST:
            del self._notes[next(iter(self._notes))]
        self._notes[name, endpoint] = _Registered(name, tuple(versions), self._clock.now(), refusal)
