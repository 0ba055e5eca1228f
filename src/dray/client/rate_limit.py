"""How fast a client may ask: so many requests a second on average, a burst at once. Off unless somebody asks for it.

API servers guard themselves (priority and fairness), so a limit here is for people who must share a server that does
not. Requests go out in the order they came; nobody who waits can be overtaken.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from dray.errors import InvalidError
from dray.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class RateLimit:
    """`qps` requests a second on average, `burst` of them at once after a pause."""

    qps: float
    burst: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.qps < float("inf"):
            raise InvalidError(f"qps: is {self.qps:g}; give a rate above zero", field="qps")
        if self.burst < 1:
            raise InvalidError(f"burst: is {self.burst}; give at least 1", field="burst")


class RateLimiter:
    """One for each client. Measured by the monotonic clock, so that jumps of the wall clock change nothing."""

    def __init__(self, limit: RateLimit, clock: Clock) -> None:
        self._interval = 1.0 / limit.qps
        self._slack = (limit.burst - 1) * self._interval
        self._clock = clock
        self._next = 0.0  # when the next request would be due if all came evenly

    async def wait(self) -> None:
        """Return when one more request may go out. A caller that is cancelled gives its turn back."""
        now = self._clock.monotonic()
        due = max(self._next, now)
        self._next = due + self._interval
        pause = due - self._slack - now
        if pause <= 0:
            return
        try:
            await self._clock.sleep(pause)
        except asyncio.CancelledError:
            self._next -= self._interval
            raise
