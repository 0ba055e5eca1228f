"""When a loop has its next turn: at the earliest moment that anybody asked for."""

from __future__ import annotations

import asyncio

from dray.runtime.clock import Clock
from dray.runtime.tasks import wait_first


class Due:
    """One task waits, anybody asks. A turn answers all who asked before it began."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at: float | None = None
        self._moved = asyncio.Event()

    def now(self) -> None:
        """As soon as the loop is done with what it does."""
        self.within(0.0)

    def within(self, seconds: float) -> None:
        """After so long at the latest."""
        at = self._clock.monotonic() + seconds
        if self._at is None or at < self._at:
            self._at = at
            self._moved.set()

    async def wait(self) -> None:
        """Return when it is time; what was asked for is forgotten then."""
        while True:
            self._moved.clear()
            if self._at is None:
                await self._moved.wait()
                continue
            left = self._at - self._clock.monotonic()
            if left <= 0:
                self._at = None
                return
            await wait_first(self._moved.wait(), self._clock.sleep(left))
