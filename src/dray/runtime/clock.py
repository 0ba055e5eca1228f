"""Time as a value that is passed in, so that tests can hold it still."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What every part asks for the time. Wall time can jump; measure spans with `monotonic`."""

    def now(self) -> datetime:
        """Wall-clock time, always in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed point; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds` of this clock; zero or less only yields."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Wall-clock time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """The kernel's monotonic clock."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep in the running event loop."""
        await asyncio.sleep(max(seconds, 0.0))


class FakeClock:
    """A clock that moves only when told: `await clock.advance(5)` wakes all who slept up to then, in order."""

    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        self._start = start
        self._elapsed = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0

    def now(self) -> datetime:
        """The start plus what was advanced."""
        return datetime.fromtimestamp(self._start.timestamp() + self._elapsed, UTC)

    def monotonic(self) -> float:
        """What was advanced so far."""
        return self._elapsed

    @property
    def sleepers(self) -> int:
        """How many tasks wait for this clock; tests use it to know that a loop came to rest."""
        return sum(not future.done() for _, _, future in self._sleepers)

    async def sleep(self, seconds: float) -> None:
        """Wait until `advance` has passed this point."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._sleepers, (self._elapsed + seconds, self._count, future))
        await future

    async def advance(self, seconds: float) -> None:
        """Move time on, waking sleepers one by one at their own instant and letting each run."""
        target = self._elapsed + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= target:
            due, _, future = heapq.heappop(self._sleepers)
            self._elapsed = max(self._elapsed, due)
            if not future.done():
                future.set_result(None)
            await settle()
        self._elapsed = target
        await settle()

    async def advance_until(
        self, condition: Callable[[], bool], *, step: float = 1.0, limit: float = 3600.0
    ) -> None:
        """Advance in steps until `condition()` holds; TimeoutError when `limit` seconds did not suffice."""
        end = self._elapsed + limit
        while not condition():
            if self._elapsed >= end:
                raise TimeoutError(f"condition did not hold within {limit:g} s of fake time")
            await self.advance(step)


async def settle(rounds: int = 20) -> None:
    """Let every task that is ready run on, a few turns of the loop deep."""
    for _ in range(rounds):
        await asyncio.sleep(0)
