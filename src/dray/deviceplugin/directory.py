"""The kubelet's plugin directory, followed by one watch for all plugins of the process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

from dray.runtime.files.filewatch import Entry, FileWatch, Kind
from dray.runtime.tasks import running
from dray.wire.deviceplugin import KUBELET_SOCKET


class PluginDirectory:
    """What the directory holds now. It, and its parents, may come, go and be replaced at any time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries: Mapping[str, Entry] = MappingProxyType({})
        self._changed = asyncio.Event()

    def get(self, name: str) -> Entry | None:
        """What is under `name`; None while it, or the directory, is not there."""
        return self._entries.get(name)

    def plugin_sockets(self) -> frozenset[tuple[str, int]]:
        """Name and generation of every socket but the kubelet's and hidden ones."""
        return frozenset(
            (name, entry.generation)
            for name, entry in self._entries.items()
            if entry.kind is Kind.SOCKET and name != KUBELET_SOCKET and not name.startswith(".")
        )

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Return once `condition()` holds; it is asked now and after every change of the directory."""
        while not condition():
            await self._changed.wait()

    async def follow(self, watch: FileWatch) -> None:
        """Keep up with `watch` until cancelled."""
        async for snapshot in watch:
            self._entries = snapshot.directories[self.path] or MappingProxyType({})
            self._changed.set()
            self._changed = asyncio.Event()


@asynccontextmanager
async def following(path: Path) -> AsyncIterator[PluginDirectory]:
    """The directory at `path`, kept up to date while entered."""
    directory = PluginDirectory(path)
    async with (
        FileWatch(directories=[path]) as watch,
        running(directory.follow(watch), name=f"watch {path}"),
    ):
        yield directory
