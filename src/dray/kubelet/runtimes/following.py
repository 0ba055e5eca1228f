"""Wake the kubelet when a container ends: one pidfd for each process that is awaited, no polling."""

from __future__ import annotations

import asyncio
import os

from dray.kubelet.runtimes.liveness import Identity, open_process


class Following:
    """The processes whose end changes something. Used from one event loop."""

    def __init__(self) -> None:
        self._descriptors: dict[str, int] = {}
        self._changed: set[str] = set()
        self._news = asyncio.Event()

    def __contains__(self, item: str) -> bool:
        return item in self._descriptors

    def follow(self, item: str, process: Identity) -> bool:
        """Be told when this one ends; False when it did already. The process followed for `item` before is left."""
        self.leave(item)
        descriptor = open_process(process)
        if descriptor is None:
            return False
        self._descriptors[item] = descriptor
        asyncio.get_running_loop().add_reader(descriptor, self._on_end, item)
        return True

    def leave(self, item: str) -> None:
        """Do not wait for it any more."""
        descriptor = self._descriptors.pop(item, None)
        if descriptor is not None:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)

    def note(self, item: str) -> None:
        """It changed, by our own doing."""
        self._changed.add(item)
        self._news.set()

    def take_changed(self) -> set[str]:
        """All that changed since the last time."""
        changed, self._changed = self._changed, set()
        return changed

    async def wait_changed(self) -> None:
        """Returns when one ended or changed since the last call."""
        await self._news.wait()
        self._news.clear()

    def close(self) -> None:
        """Leave all."""
        for item in list(self._descriptors):
            self.leave(item)

    def _on_end(self, item: str) -> None:
        self.leave(item)
        self.note(item)
