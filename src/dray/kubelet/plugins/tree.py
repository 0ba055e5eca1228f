"""All sockets below a directory, sub-directories included, as they come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from dray.runtime.clock import Clock
from dray.runtime.files.filewatch import Entry, FileWatch, Kind, Snapshot

POLL_SECONDS = 1.0
"""Also looked at without an event: somebody may mount over it."""
# Real time: whoever makes directories without end must not keep the event loop.
_REOPEN_PAUSE = 0.01

Sockets = Mapping[str, int]
"""Path to the generation of the file: another number is another file."""


class SocketTree:
    """Names that begin with a dot, links and all that is no socket are not seen."""

    def __init__(self, root: Path, clock: Clock) -> None:
        self._root = root
        self._clock = clock
        self._seen: dict[str, tuple[Entry, int, int]] = {}
        self._watches = 0
        self._generation = 0

    async def follow(self, tell: Callable[[Sockets], None]) -> None:
        """Call `tell` with all sockets now and after each change, until cancelled."""
        directories = {self._root}
        while True:
            self._watches += 1
            async with FileWatch(
                directories=directories, poll_interval=POLL_SECONDS, clock=self._clock
            ) as watch:
                snapshot = watch.snapshot
                # A directory more or less needs another watch; it looks at everything first, so nothing is missed.
                while (now := self._directories(snapshot)) == directories:
                    tell(self._take(snapshot))
                    snapshot = await watch.wait_changed()
                tell(self._take(snapshot))
            directories = now
            await asyncio.sleep(_REOPEN_PAUSE)

    def _directories(self, snapshot: Snapshot) -> set[Path]:
        return {self._root, *(path for path, entry in _entries(snapshot) if entry.kind is Kind.DIRECTORY)}

    def _take(self, snapshot: Snapshot) -> Sockets:
        seen: dict[str, tuple[Entry, int, int]] = {}
        for path, entry in _entries(snapshot):
            if entry.kind is Kind.SOCKET:
                seen[str(path)] = (entry, self._watches, self._generation_of(str(path), entry))
        self._seen = seen
        return {path: generation for path, (_, _, generation) in sorted(seen.items())}

    def _generation_of(self, path: str, entry: Entry) -> int:
        if path in self._seen:
            before, watch, generation = self._seen[path]
            # Two watches number their entries apart; what the file itself says holds for both.
            is_same = entry == before if watch == self._watches else _identity(entry) == _identity(before)
            if is_same:
                return generation
        self._generation += 1
        return self._generation


def _entries(snapshot: Snapshot) -> Iterator[tuple[Path, Entry]]:
    for directory, entries in snapshot.directories.items():
        for name, entry in (entries or {}).items():
            if not name.startswith("."):
                yield directory / name, entry


def _identity(entry: Entry) -> tuple[int, int, int]:
    return entry.device, entry.inode, entry.birth_ns
