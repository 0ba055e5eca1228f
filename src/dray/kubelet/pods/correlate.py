"""Which Events are one and the same: an event that comes again counts up, floods are combined or left out. Pure.

The rules are those of Kubernetes' clients. Memory is bounded: what was not seen for longest is forgotten first.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from dray.kubelet.pods.events import PodEvent

REMEMBERED = 4096
SIMILAR, SIMILAR_FOR = 10, timedelta(minutes=10)
"""So many messages of one reason within this time, and all further ones share one event."""
BURST, REFILL = 25, timedelta(minutes=5)
"""So many events of one kind about one pod; then one each time this has passed."""
_COMBINED = "(combined from similar events): "
_NAME_LIMIT = 253

Key = tuple[str, ...]
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Sighting:
    """An event as it shall stand at the server: `name` is its object's, the same for all its sightings."""

    name: str
    event: PodEvent
    count: int
    first: datetime
    last: datetime

    @property
    def is_new(self) -> bool:
        """Whether this is the first of it."""
        return self.count == 1


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


class Correlator:
    """`observe` is called with every event, in order."""

    def __init__(self, limit: int = REMEMBERED) -> None:
        self._seen = _Recent[Sighting](limit)
        self._messages = _Recent[tuple[frozenset[str], datetime]](limit)
        self._tokens = _Recent[tuple[float, datetime]](limit)
        self._stamp = 0

    def observe(self, event: PodEvent, now: datetime) -> Sighting | None:
        """How it shall stand now; None: there were too many about this pod."""
        event, key = self._combined(event, now)
        before = self._seen.get(key)
        if before is None:
            sighting = Sighting(self._name(event, now), event, 1, now, now)
        else:
            sighting = replace(before, event=event, count=before.count + 1, last=now)
        self._seen.put(key, sighting)
        return sighting if self._is_allowed(event, now) else None

    def _combined(self, event: PodEvent, now: datetime) -> tuple[PodEvent, Key]:
        about = event.about
        group = (about.uid, about.namespace, about.name, event.kind, event.reason)
        messages, last = self._messages.get(group) or (frozenset[str](), now)
        if now - last > SIMILAR_FOR:
            messages = frozenset()
        messages |= {event.message}
        is_flood = len(messages) >= SIMILAR
        kept = frozenset(sorted(messages)[: SIMILAR - 1]) if is_flood else messages
        self._messages.put(group, (kept, now))
        if is_flood:
            return replace(event, message=_COMBINED + event.message), group
        return event, (*group, about.field_path, event.message)

    def _is_allowed(self, event: PodEvent, now: datetime) -> bool:
        key = (event.about.uid, event.about.namespace, event.about.name, event.kind)
        left, last = self._tokens.get(key) or (float(BURST), now)
        left = min(float(BURST), left + max(0.0, (now - last) / REFILL))
        allowed = left >= 1.0
        self._tokens.put(key, (left - 1.0 if allowed else left, now))
        return allowed

    def _name(self, event: PodEvent, now: datetime) -> str:
        """Unique: two events never share a moment."""
        self._stamp = max(self._stamp + 1, int(now.timestamp() * 1_000_000) * 1000)
        suffix = f".{self._stamp:x}"
        return event.about.name[: _NAME_LIMIT - len(suffix)].rstrip("-.") + suffix
