"""Events about any object, for any part: the same one again is counted, floods are combined, and nobody waits for it.

Names are unique and never read back, so that the rights to create and to patch Events are enough.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Generic, Literal, NoReturn, TypeVar

from dray.api.codec import to_raw
from dray.api.core import Event, EventSource, ObjectReference
from dray.api.kinds import EVENTS
from dray.api.meta import ObjectMeta, format_time
from dray.client.client import Client
from dray.client.rate_limit import RateLimit, RateLimiter
from dray.errors import ConflictError, Error, InvariantError, NotFoundError, UnavailableError
from dray.runtime.backoff import Backoff, BackoffPolicy
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.runtime.tasks import wait_first

V = TypeVar("V")
EventType = Literal["Normal", "Warning"]
Key = tuple[str, ...]

_log = get_log("client.events")

WAITING: Final = 1000
"""Events that may wait for a server that is away; of more the oldest are left out."""
SIMILAR: Final = 10
SIMILAR_SECONDS: Final = 600.0
"""So many different messages of one reason about one object within this time, and all further ones share one event."""
AGAIN_SECONDS: Final = 10.0
"""How long a count may lag behind at the server."""
_REMEMBERED: Final = 4096
_NAME_MAX: Final = 253
_MESSAGE_MAX: Final = 1024
_RETRY: Final = BackoffPolicy(first=0.5, limit=30.0)
_RATE: Final = RateLimit(5.0, 25)


@dataclass
class _Series:
    """One Event object: how it shall stand, and how it does (`written` times, at `written_at`)."""

    about: ObjectReference
    type: EventType
    reason: str
    message: str
    name: str
    first: datetime
    last: datetime
    count: int = 0
    written: int = 0
    written_at: float = 0.0


class EventRecorder:
    """`tell` at any time, `run` beside it writes until cancelled. What is left out is counted in `dropped`."""

    def __init__(
        self, client: Client, component: str, clock: Clock, *, host: str = "", rate: RateLimit = _RATE
    ) -> None:
        self.dropped = 0
        self._client = client
        self._component = component
        self._host = host
        self._clock = clock
        self._limiter = RateLimiter(rate, clock)
        self._series = _Recent[_Series](_REMEMBERED)
        self._messages = _Recent[_Similar](_REMEMBERED)
        self._pending: OrderedDict[Key, _Series] = OrderedDict()
        self._wake = asyncio.Event()
        self._stamp = 0
        self._is_losing = False

    @property
    def waiting(self) -> int:
        """How many events are not written yet, or not with their newest count."""
        return len(self._pending)

    def tell(self, about: ObjectReference, kind: EventType, reason: str, message: str) -> None:
        """Note it; never waits and never fails."""
        now = self._clock.now()
        key, message = self._combined(about, kind, reason, message[:_MESSAGE_MAX])
        series = self._series.get(key)
        if series is None:
            series = _Series(about, kind, reason, message, self._name(about, now), now, now)
        series.count, series.last, series.message = series.count + 1, now, message
        self._series.put(key, series)
        self._pending[key] = series
        if len(self._pending) > WAITING:
            self._pending.popitem(last=False)
            self._lose(f"more than {WAITING} wait")
        self._wake.set()

    async def run(self) -> NoReturn:
        """Until cancelled."""
        backoff = Backoff(_RETRY)
        while True:
            key = self._due()
            if key is None:
                await self._wait_due()
                continue
            await self._limiter.wait()
            if (series := self._pending.get(key)) is None:
                continue
            try:
                await self._write(series)
            except UnavailableError:
                await self._clock.sleep(backoff.next())
            except InvariantError:
                raise
            except Error as error:  # such as a namespace that is being deleted: it would be refused again
                self._pending.pop(key, None)
                self._lose(str(error))
            else:
                backoff.reset()
                self._is_losing = False
                if series.written == series.count:
                    self._pending.pop(key, None)

    async def flush(self, seconds: float) -> None:
        """Write what waits, for so long at most. For the end of a process, after `run` was stopped."""
        try:
            async with asyncio.timeout(seconds):
                while self._pending:
                    await self._write(self._pending.popitem(last=False)[1])
        except InvariantError:
            raise
        except (TimeoutError, Error) as error:
            _log.info("some events were not written", left=len(self._pending), why=str(error) or "time is up")

    def _combined(
        self, about: ObjectReference, kind: EventType, reason: str, message: str
    ) -> tuple[Key, str]:
        """Which series it belongs to, and with which message."""
        group = (about.kind, about.uid, about.namespace, about.name, kind, reason)
        now = self._clock.monotonic()
        similar = self._messages.get(group)
        if similar is None or now - similar.at > SIMILAR_SECONDS:
            similar = _Similar(now)
        similar.at = now
        self._messages.put(group, similar)
        if message not in similar.messages and len(similar.messages) >= SIMILAR:
            return group, f"(combined from similar events): {message}"[:_MESSAGE_MAX]
        similar.messages.add(message)
        return (*group, about.field_path, message), message

    def _due(self) -> Key | None:
        latest = self._clock.monotonic() - AGAIN_SECONDS
        return next(
            (key for key, one in self._pending.items() if not one.written or one.written_at <= latest), None
        )

    async def _wait_due(self) -> None:
        self._wake.clear()
        if not self._pending:
            await self._wake.wait()
            return
        due = min(one.written_at for one in self._pending.values()) + AGAIN_SECONDS
        await wait_first(self._wake.wait(), self._clock.sleep(due - self._clock.monotonic()))

    async def _write(self, series: _Series) -> None:
        count = series.count
        if not (series.written and await self._is_counted(series)):
            try:
                await self._client.create(EVENTS, self._document(series))
            except ConflictError:  # it was made by a try whose answer was lost
                await self._is_counted(series)
        series.written, series.written_at = count, self._clock.monotonic()

    async def _is_counted(self, series: _Series) -> bool:
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

    def _document(self, series: _Series) -> dict[str, Any]:
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

    def _name(self, about: ObjectReference, now: datetime) -> str:
        """Unique: two events never share a moment."""
        self._stamp = max(self._stamp + 1, int(now.timestamp() * 1_000_000) * 1000)
        suffix = f".{self._stamp:x}"
        return about.name[: _NAME_MAX - len(suffix)].rstrip("-.") + suffix

    def _lose(self, why: str) -> None:
        self.dropped += 1
        if not self._is_losing:
            _log.warning("events do not reach the API server, some are left out", why=why)
        self._is_losing = True


@dataclass
class _Similar:
    at: float
    messages: set[str] = field(default_factory=set)


class _Recent(Generic[V]):
    """A mapping that keeps what was used last."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: OrderedDict[Key, V] = OrderedDict()

    def get(self, key: Key) -> V | None:
        return self._kept.get(key)

    def put(self, key: Key, value: V) -> None:
        self._kept[key] = value
        self._kept.move_to_end(key)
        if len(self._kept) > self._limit:
            self._kept.popitem(last=False)


def _namespace(about: ObjectReference) -> str:
    """Events about objects without a namespace are in `default`."""
    return about.namespace or "default"
