"""A clock for tests of whole processes."""

from __future__ import annotations

from dray.runtime.clock import SystemClock


class FastClock(SystemClock):
    """Time runs `factor` times as fast: a test does not wait a second for each edit to be seen."""

    def __init__(self, factor: float) -> None:
        self._factor = factor

    def monotonic(self) -> float:
        return super().monotonic() * self._factor

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / self._factor)


class PausesKept(FastClock):
    """`asked` are the pauses that have begun, in order; `over` those that have come to their end."""

    def __init__(self, factor: float) -> None:
        super().__init__(factor)
        self.asked: list[float] = []
        self.over: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.asked.append(seconds)
        await super().sleep(seconds)
        self.over.append(seconds)
