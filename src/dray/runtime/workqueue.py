"""A queue of keys for level-triggered loops: a key waits once, is worked on once at a time, and comes back after a failure."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from dray.errors import InvariantError
from dray.runtime.backoff import Backoff, BackoffPolicy
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.runtime.quarantine import Quarantine
from dray.runtime.tasks import single, wait_first

_log = get_log("runtime.workqueue")

K = TypeVar("K", bound=Hashable)
_STILL_ASIDE: Final = 300.0
"""Seconds after which a key whose object is set aside is looked at again."""


@dataclass(frozen=True, slots=True)
class Watch(Generic[K]):
    """Leaves alone what ends the process. `name_of` gives the object of a key as a quarantine names it, "" where there is none
    (any more); `tell` is told why one is left alone, each time it comes."""

    quarantine: Quarantine
    name_of: Callable[[K], str]
    tell: Callable[[K, str], None]


class WorkQueue(Generic[K]):
    """Keys that need a look. Memory is bounded by the number of distinct keys, not by the number of events.

    `add` may be called at any time from the loop's thread. A key added while it is being worked on is worked on
    again afterwards, never at the same time. `run` serves the queue until it is cancelled.
    """

    def __init__(
        self, name: str, clock: Clock, policy: BackoffPolicy | None = None, watch: Watch[K] | None = None
    ) -> None:
        self.name = name
        self._watch = watch
        self._clock = clock
        self._policy = policy or BackoffPolicy(first=0.005, limit=1000.0, jitter=0.0)
        self._ready: deque[K] = deque()
        self._dirty: set[K] = set()
        self._busy: set[K] = set()
        self._due: dict[K, float] = {}
        self._timers: list[tuple[float, int, K]] = []
        self._failures: dict[K, Backoff] = {}
        self._wake = asyncio.Event()
        self._timer_changed = asyncio.Event()
        self._sequence = 0

    def __len__(self) -> int:
        """How many keys wait to be worked on now; delayed ones do not count."""
        return len(self._ready)

    @property
    def is_idle(self) -> bool:
        """Nothing waits, nothing is being worked on; delayed keys may still come."""
        return not self._dirty and not self._busy

    def add(self, key: K) -> None:
        """Ask for a look at `key`. A no-op while it already waits."""
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._busy:
            self._ready.append(key)
            self._wake.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Ask for a look in `seconds`. Of several delays for one key the earliest counts."""
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + seconds
        if self._due.get(key, due + 1) <= due:
            return
        self._due[key] = due
        self._sequence += 1
        heapq.heappush(self._timers, (due, self._sequence, key))
        self._timer_changed.set()

    async def run(self, handler: Callable[[K], Awaitable[None]], *, workers: int = 1) -> None:
        """Call `handler` for each key, `workers` at once, until cancelled.

        A handler that raises gets the key again after a growing delay; one that returns resets it. Only our own
        bugs (InvariantError) end the queue.
        """
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._run_timers(), name=f"{self.name} timers")
                while True:
                    while not self._ready or len(self._busy) >= workers:
                        self._wake.clear()
                        await self._wake.wait()
                    key = self._ready.popleft()
                    self._dirty.discard(key)
                    self._busy.add(key)
                    group.create_task(self._work(handler, key), name=f"{self.name} {key}")
        except BaseExceptionGroup as failures:
            raise single(failures) from None
        finally:
            self._busy.clear()  # a task that was cancelled before its first step did not do it

    async def _work(self, handler: Callable[[K], Awaitable[None]], key: K) -> None:
        try:
            await self._attempt(handler, key)
        finally:
            self._busy.discard(key)
            if key in self._dirty:
                self._ready.append(key)
            self._wake.set()

    async def _attempt(self, handler: Callable[[K], Awaitable[None]], key: K) -> None:
        try:
            await self._handle(handler, key)
        except InvariantError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever one key does must not stop the others
            backoff = self._failures.setdefault(key, Backoff(self._policy))
            delay = backoff.next()
            _log.warning(
                "will try again", queue=self.name, key=key, delay_s=round(delay, 3), error=repr(error)
            )
            self.add_after(key, delay)
        else:
            self._failures.pop(key, None)

    async def _handle(self, handler: Callable[[K], Awaitable[None]], key: K) -> None:
        watch = self._watch
        name = watch.name_of(key) if watch is not None else ""
        if watch is None or not name:
            await handler(key)
        elif why := watch.quarantine.why(name):
            self.add_after(key, _STILL_ASIDE)
            watch.tell(key, why)
        else:
            await watch.quarantine.steps(name, handler(key))

    async def _run_timers(self) -> None:
        while True:
            now = self._clock.monotonic()
            while self._timers and self._timers[0][0] <= now:
                due, _, key = heapq.heappop(self._timers)
                if self._due.get(key) == due:
                    del self._due[key]
                    self.add(key)
            self._timer_changed.clear()
            if self._timers:
                await wait_first(self._timer_changed.wait(), self._clock.sleep(self._timers[0][0] - now))
            else:
                await self._timer_changed.wait()
