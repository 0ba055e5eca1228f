"""The file of the ledger: replaced as a whole, and written once for all who wait at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from dray.inventory.ledger import Hold
from dray.runtime.clock import Clock
from dray.runtime.files.checkpoint import Checkpoint, Loaded
from dray.runtime.files.checkpoint_format import Format
from dray.runtime.threads import Threads

_SECONDS: Final = 20.0


class Content(msgspec.Struct, frozen=True):
    """All holds, sorted. Not `complete`: an earlier file was lost, and the kubelet has not told yet who has what."""

    holds: tuple[Hold, ...] = ()
    complete: bool = True


class HoldsFile:
    """One process at a time has it open; one event loop."""

    def __init__(self, path: Path, clock: Clock, threads: Threads) -> None:
        self._checkpoint = Checkpoint(path, Format(Content), clock=clock)
        self._threads = threads
        self._written: Content | None = None
        self._sure: frozenset[Hold] = frozenset()
        self._writing: asyncio.Event | None = None

    def open(self) -> Loaded[Content]:
        """Read it. ConflictError where another process has it; DeniedError."""
        loaded = self._checkpoint.open()
        self._written = loaded.data
        self._sure = frozenset(loaded.data.holds if loaded.data else ())
        return loaded

    def close(self) -> None:
        """Let others have it."""
        self._checkpoint.__exit__()

    def is_written(self, content: Content) -> bool:
        """Whether the file is just this, as far as anybody knows."""
        return content == self._written

    def has(self, hold: Hold) -> bool:
        """Whether the file surely has a hold of the same hardware by the same owner, and calls it confirmed only if it is.

        What the kubelet had listed for another pod before ends sooner than what was just given.
        """
        return any(
            one.key == hold.key and one.parts == hold.parts and one.confirmed <= hold.confirmed
            for one in self._sure
        )

    async def write(self, newest: Callable[[], Content]) -> None:
        """Write what `newest` says at the moment when it begins, or wait for a write that is under way: look again then.

        Errors: those of `Checkpoint.save`, and UnavailableError where the disk does not answer.
        """
        if self._writing is not None:
            await self._writing.wait()
            return
        writing = self._writing = asyncio.Event()
        try:
            await asyncio.sleep(0)  # who comes in the same moment is written too
            content = newest()
            # Until it is over, and for good where it fails, only what both states have is surely there.
            after = {hold.key: hold.parts for hold in content.holds}
            self._sure = frozenset(hold for hold in self._sure if after.get(hold.key) == hold.parts)
            self._written = None
            await self._threads.run(
                lambda: self._checkpoint.save(content),
                doing="save who holds what",
                seconds=_SECONDS,
                alone_on=(str(self._checkpoint.path),),
            )
            self._written, self._sure = content, frozenset(content.holds)
        finally:
            self._writing = None
            writing.set()
