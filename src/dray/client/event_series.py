"""Which Events are one and the same: one that comes again counts up, a flood of messages shares one. Pure.

Memory is bounded: what was not told for longest is forgotten first.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Generic, Literal, TypeVar

from dray.api.core import ObjectReference

V = TypeVar("V")
EventType = Literal["Normal", "Warning"]
Key = tuple[str, ...]

SIMILAR: Final = 10
SIMILAR_FOR: Final = timedelta(minutes=10)
"""So many different messages of one reason about one object within this time, and all further ones share one event."""
MESSAGE_MAX: Final = 1024
REMEMBERED: Final = 4096
_NAME_MAX: Final = 253


@dataclass(slots=True, eq=False)
class Series:
    """One Event object as it shall stand at the server.

    The last four are its writer's: its name and count at the server, how long it rests after it was written, and whether it
    is on its way or rests.
    """

    about: ObjectReference
    type: EventType
    reason: str
    message: str
    first: datetime
    last: datetime
    count: int = 1
    name: str = ""
    written: int = 0
    rest: float = 0.0
    is_held: bool = False


class Correlator:
    """`observe` is called with every event, in order."""

    def __init__(self, limit: int = REMEMBERED) -> None:
        self._series = _Recent[Series](limit)
        self._similar = _Recent[_Similar](limit)

    def observe(
        self, about: ObjectReference, kind: EventType, reason: str, message: str, now: datetime
    ) -> Series:
        """The series that it belongs to, with this one counted; the first of it has count 1."""
        key, message = self._combined(about, kind, reason, message[:MESSAGE_MAX], now)
        series = self._series.get(key)
        if series is None:
            series = Series(about, kind, reason, message, now, now)
            self._series.add(key, series)
        else:
            series.count, series.last, series.message = series.count + 1, now, message
        return series

    def _combined(
        self, about: ObjectReference, kind: EventType, reason: str, message: str, now: datetime
    ) -> tuple[Key, str]:
        group = (about.kind, about.uid, about.namespace, about.name, kind, reason)
        similar = self._similar.get(group)
        if similar is None:
            self._similar.add(group, _Similar(now, {message}))
        else:
            if now - similar.last > SIMILAR_FOR:
                similar.messages.clear()
            similar.last = now
            if message not in similar.messages and len(similar.messages) >= SIMILAR:
                return group, f"(combined from similar events): {message}"[:MESSAGE_MAX]
            similar.messages.add(message)
        return (*group, about.field_path, message), message


class Names:
    """Of Events: unique, for two never share a moment."""

    def __init__(self) -> None:
        self._stamp = 0

    def make(self, about: ObjectReference, now: datetime) -> str:
        """A new one."""
        self._stamp = max(self._stamp + 1, int(now.timestamp() * 1_000_000) * 1000)
        suffix = f".{self._stamp:x}"
        return about.name[: _NAME_MAX - len(suffix)].rstrip("-.") + suffix


@dataclass(slots=True)
class _Similar:
    last: datetime
    messages: set[str]


class _Recent(Generic[V]):
    """A mapping that keeps what was used last."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: OrderedDict[Key, V] = OrderedDict()

    def get(self, key: Key) -> V | None:
        value = self._kept.get(key)
        if value is not None:
            self._kept.move_to_end(key)
        return value

    def add(self, key: Key, value: V) -> None:
        self._kept[key] = value
        if len(self._kept) > self._limit:
            self._kept.popitem(last=False)
