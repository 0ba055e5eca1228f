"""Events about any object, for any part: the same one again is counted, floods are combined, and nobody waits for it.

Names are unique and never read back, so that the rights to create and to patch Events are enough.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from dray.api.codec import to_raw
from dray.api.core import Event, EventSource, ObjectReference, Pod
from dray.api.kinds import EVENTS
from dray.api.meta import ObjectMeta, format_time
from dray.api.resource import DeviceTaintRule, ResourceClaim
from dray.api.scheduling import PodGroup
from dray.client.client import Client
from dray.client.event_series import Correlator, EventType, Names, Series
from dray.client.rate_limit import RateLimit, RateLimiter
from dray.errors import ConflictError, Error, NotFoundError, UnavailableError
from dray.runtime.backoff import Backoff, BackoffPolicy
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.runtime.tasks import running, wait_first

_log = get_log("client.events")

FIRST_REST: Final = 1.0
LONGEST_REST: Final = 300.0
"""Seconds. How long the count of one event may lag behind at the server: twice as long after each time it was written."""
LAST_WORDS: Final = 1.0
"""Seconds that a process which ends has for them."""
_RETRY: Final = BackoffPolicy(first=0.5, limit=30.0)


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast events are written, by how many at once, and how many may wait; of more the oldest are left out."""

    rate: RateLimit
    writers: int = 1
    waiting: int = 1000


FOR_ONE_NODE: Final = Pace(RateLimit(5.0, 25))
FOR_A_CLUSTER: Final = Pace(RateLimit(50.0, 25), writers=4, waiting=10_000)


class EventRecorder:
    """`tell` at any time; what is told is written while `recording`. What is left out is counted in `dropped`."""

    def __init__(
        self, client: Client, component: str, clock: Clock, *, host: str = "", pace: Pace = FOR_ONE_NODE
    ) -> None:
        self.dropped = 0
        self._client = client
        self._component = component
        self._host = host
        self._clock = clock
        self._pace = pace
        self._limiter = RateLimiter(pace.rate, clock)
        self._correlator = Correlator()
        self._names = Names()
        self._line: OrderedDict[Series, None] = OrderedDict()
        self._resting: list[tuple[float, str, Series]] = []
        """A heap: when, by name, a series may be written, or written again."""
        self._under_way = 0
        self._wake = asyncio.Event()
        self._is_losing = False

    @property
    def waiting(self) -> int:
        """How many events are not written yet, or not with their newest count."""
        behind = sum(one.count > one.written for _, _, one in self._resting)
        return len(self._line) + self._under_way + behind

    def tell(
        self, about: ObjectReference, kind: EventType, reason: str, message: str, *, after: float = 0.0
    ) -> None:
        """Note it; never waits and never fails. It is written `after` seconds at the earliest: others may need the server more."""
        series = self._correlator.observe(about, kind, reason, message, self._clock.now())
        if series.is_held:
            return
        if after:
            self._rest(series, after)
            self._wake.set()
        else:
            self._queue(series)

    @asynccontextmanager
    async def recording(self, last_words: float) -> AsyncIterator[None]:
        """Writes while entered. Left: what still waits was written, or so many seconds have passed."""
        try:
            async with running(self.run(), name="events"):
                yield
        finally:
            await self.flush(last_words)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._pace.writers):
                group.create_task(self._write_all(), name=f"events {number}")

    async def flush(self, seconds: float) -> None:
        """Write what waits, for so long at most. For the end of a process, after `run` was stopped."""
        self._wake_up(float("inf"))
        try:
            async with asyncio.timeout(seconds):
                while self._line:
                    await self._take()
        except (TimeoutError, UnavailableError) as error:
            _log.info("some events were not written", left=len(self._line), why=str(error) or "time is up")

    def _queue(self, series: Series) -> None:
        series.is_held = True
        self._line[series] = None
        if len(self._line) > self._pace.waiting:
            self._line.popitem(last=False)[0].is_held = False
            self._lose(f"more than {self._pace.waiting} wait")
        self._wake.set()

    def _rest(self, series: Series, seconds: float) -> None:
        series.is_held = True
        series.name = series.name or self._names.make(series.about, series.first)
        heapq.heappush(self._resting, (self._clock.monotonic() + seconds, series.name, series))

    async def _write_all(self) -> None:
        backoff = Backoff(_RETRY)
        while True:
            self._wake_up(self._clock.monotonic())
            if not self._line:
                await self._wait()
                continue
            await self._limiter.wait()
            try:
                if self._line:
                    await self._take()
            except UnavailableError:
                await self._clock.sleep(backoff.next())
            else:
                backoff.reset()

    def _wake_up(self, now: float) -> None:
        """Those that have rested go on: to be written again, if they were told meanwhile."""
        while self._resting and self._resting[0][0] <= now:
            _, _, series = heapq.heappop(self._resting)
            series.is_held = False
            if series.count > series.written:
                self._queue(series)

    async def _wait(self) -> None:
        """Until something was told, or has rested."""
        self._wake.clear()
        if not self._resting:
            await self._wake.wait()
            return
        rest = self._resting[0][0] - self._clock.monotonic()
        await wait_first(self._wake.wait(), self._clock.sleep(rest))

    async def _take(self) -> None:
        """Write the first. UnavailableError: it is the first again."""
        series, _ = self._line.popitem(last=False)
        self._under_way += 1
        try:
            await self._write(series)
        except (UnavailableError, asyncio.CancelledError):
            self._line[series] = None
            self._line.move_to_end(series, last=False)
            raise
        except Error as error:  # such as a namespace that is being deleted: it would be refused again
            series.is_held = False
            self._lose(str(error))
        else:
            self._is_losing = False
            series.rest = min(LONGEST_REST, 2 * series.rest or FIRST_REST)
            self._rest(series, series.rest)
        finally:
            self._under_way -= 1

    async def _write(self, series: Series) -> None:
        count = series.count
        series.name = series.name or self._names.make(series.about, series.first)
        if not (series.written and await self._is_counted(series)):
            try:
                await self._client.create(EVENTS, self._document(series))
            except ConflictError:  # it was made by a try whose answer was lost
                await self._is_counted(series)
        series.written = count

    async def _is_counted(self, series: Series) -> bool:
        """False where the server has forgotten the event, as it does after an hour."""
        change = {
            "count": series.count,
            "lastTimestamp": format_time(series.last),
            "message": series.message,
        }
        try:
            await self._client.patch(EVENTS, series.name, change, namespace=_namespace(series.about))
        except NotFoundError:
            return False
        return True

    def _document(self, series: Series) -> dict[str, Any]:
        made = Event(
            metadata=ObjectMeta(name=series.name, namespace=_namespace(series.about)),
            involved_object=series.about,
            reason=series.reason,
            message=series.message,
            source=EventSource(component=self._component, host=self._host),
            first_timestamp=series.first.replace(microsecond=0),
            last_timestamp=series.last.replace(microsecond=0),
            count=series.count,
            type=series.type,
            reporting_component=self._component,
            reporting_instance=self._host,
        )
        raw: dict[str, Any] = to_raw(made)
        return raw

    def _lose(self, why: str) -> None:
        self.dropped += 1
        if not self._is_losing:
            _log.warning("events do not reach the API server, some are left out", why=why)
        self._is_losing = True


def refer_to(one: Pod | PodGroup | ResourceClaim | DeviceTaintRule) -> ObjectReference:
    """An object as an Event names it."""
    meta = one.metadata
    return ObjectReference(
        api_version=one.api_version, kind=one.kind, namespace=meta.namespace, name=meta.name, uid=meta.uid
    )


def _namespace(about: ObjectReference) -> str:
    """Events about objects without a namespace are in `default`."""
    return about.namespace or "default"
