"""What happened: the cluster's Events by where and what they are about, and which claims gave devices back. Pure."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from dray.api.core import Event
from dray.api.resource import ResourceClaim
from dray.client.store import Key
from dray.dashboard.fleet.model import DeviceId
from dray.dashboard.fleet.workloads import text_of

_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
MOST_DEVICES: Final = 10_000
MOST_EACH: Final = 20


class Events:
    """All Events that the server still has."""

    def __init__(self) -> None:
        self._events: dict[Key, Event] = {}
        self._hosts: dict[str, set[Key]] = {}
        self._pod_warnings: dict[Key, Event] = {}

    def take(self, key: Key, event: Event | None) -> None:
        """One is there or was told again; None: the server has forgotten it."""
        before = self._events.pop(key, None)
        self._pod_warnings.pop(key, None)
        if event is not None and event.type == "Warning" and event.involved_object.kind == "Pod":
            self._pod_warnings[key] = event
        if before is not None and before.source.host in self._hosts:
            self._hosts[before.source.host].discard(key)
            if not self._hosts[before.source.host]:
                del self._hosts[before.source.host]
        if event is not None:
            self._events[key] = event
            self._hosts.setdefault(event.source.host, set()).add(key)

    def get(self, key: Key) -> Event | None:
        """One of them."""
        return self._events.get(key)

    def pod_warnings(self) -> tuple[Event, ...]:
        """What was told against pods."""
        return tuple(self._pod_warnings.values())

    def told_on(self, host: str) -> list[Event]:
        """Those that parts on one node told, oldest first."""
        found = [self._events[key] for key in sorted(self._hosts.get(host, ()))]
        return sorted(found, key=_time)

    def newest(self, limit: int) -> list[Event]:
        """The last ones, newest first."""
        return heapq.nlargest(limit, self._events.values(), key=_time)


def _time(event: Event) -> datetime:
    return event.last_seen or _LONG_AGO


@dataclass(frozen=True, slots=True)
class Ended:
    """A claim had a device and has it no more. `seen` is when that was noticed here, `allocated` when it began."""

    claim: str
    allocated: datetime | None
    seen: datetime


class Past:
    """What ended while somebody looked: a deleted claim leaves no trace in the cluster. Bounded; lost at a restart."""

    def __init__(self, most: int = MOST_DEVICES, most_each: int = MOST_EACH) -> None:
        self._most, self._most_each = most, most_each
        self._ended: OrderedDict[DeviceId, list[Ended]] = OrderedDict()

    def take(self, key: Key, old: ResourceClaim | None, new: ResourceClaim | None, now: datetime) -> None:
        """A claim changed from this to that; None where there was, or is, none."""
        for device in sorted(_devices(old) - _devices(new)):
            since = old.status.allocation.allocation_timestamp if old and old.status.allocation else None
            known = self._ended.pop(device, [])
            self._ended[device] = [*known, Ended(text_of(key), since, now)][-self._most_each :]
            if len(self._ended) > self._most:
                self._ended.popitem(last=False)

    def of(self, device: DeviceId) -> Iterable[Ended]:
        """Oldest first."""
        return tuple(self._ended.get(device, ()))


def _devices(claim: ResourceClaim | None) -> set[DeviceId]:
    if claim is None or claim.status.allocation is None:
        return set()
    return {DeviceId(one.driver, one.pool, one.device) for one in claim.status.allocation.devices.results}
