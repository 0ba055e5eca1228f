"""Who takes a plugin that the watcher found, by its type. The device plugins' one is here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from dray.api.names import is_extended_resource_name
from dray.api.quoting import quote
from dray.errors import InvalidError
from dray.kubelet.plugins.connections import Connections
from dray.wire.deviceplugin import VERSION
from dray.wire.status import cut


class PluginHandler(Protocol):
    """All plugins of one type. For one socket one call comes at a time; Errors are told to the plugin, and tried again."""

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """Raise what is wrong with it."""
        ...

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """Take it. After an error it does not count as taken."""
        ...

    async def deregister(self, name: str, endpoint: str) -> None:
        """Drop it; one that is not there is fine."""
        ...


class DevicePluginHandler:
    """Plugins of type DevicePlugin. `lost`, the watcher's, is told the endpoint of one that ended its stream by itself."""

    def __init__(self, connections: Connections, lost: Callable[[str], None]) -> None:
        self._connections = connections
        self._lost = lost

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """The version, then the name."""
        if VERSION not in versions:
            raise InvalidError(
                f"manager version, {VERSION}, is not among plugin supported versions [{' '.join(versions)}]"
            )
        if not is_extended_resource_name(name):
            raise InvalidError(f"invalid name of device plugin socket: {invalid_name(name)}")

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """As for one that registers at kubelet.sock."""
        await self._connections.connect(name, Path(endpoint), partial(self._lost, endpoint))

    async def deregister(self, name: str, endpoint: str) -> None:
        """Close the connection."""
        await self._connections.disconnect(name, Path(endpoint))


def invalid_name(name: str) -> str:
    """The kubelet's words."""
    return f"the ResourceName {quote(cut(name))} is invalid"
