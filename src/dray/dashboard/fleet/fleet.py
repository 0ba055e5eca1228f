"""All that the dashboard knows about a cluster: its objects, the picture made of them, what happened, and what could not be read.

Filled by `watching`, read by everybody else, all in one event loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from dray.allocation.cluster.cluster_dump import Cluster
from dray.api.kinds import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    EVENTS,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from dray.client.client import ServerVersion
from dray.client.store import Change, Deleted, Key, Modified
from dray.dashboard.fleet.changes import ChangeLog
from dray.dashboard.fleet.happenings import Events, Past
from dray.dashboard.fleet.picture import Picture
from dray.dashboard.fleet.workloads import text_of

KINDS: Final[tuple[Resource[Any], ...]] = (
    NODES,
    RESOURCE_SLICES,
    RESOURCE_CLAIMS,
    DEVICE_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    PODS,
    DEVICE_TAINT_RULES,
    EVENTS,
)


@dataclass(frozen=True, slots=True)
class Lag:
    """The cluster does not answer: what is shown is as of `since`."""

    since: datetime
    reason: str


class Fleet:
    """What is shown stays when the cluster goes away: `lag` says since when it is old."""

    def __init__(self, server: str, life: str) -> None:
        self.server = server
        self.version = ServerVersion()
        self.picture = Picture(ChangeLog(life))
        self.events = Events()
        self.past = Past()
        self.lag: Lag | None = None
        self._objects: dict[Resource[Any], dict[Key, Any]] = {kind: {} for kind in KINDS}
        self._unread: dict[Resource[Any], str] = {}

    @property
    def log(self) -> ChangeLog:
        """What changed when."""
        return self.picture.log

    @property
    def notes(self) -> tuple[str, ...]:
        """What cannot be read and what that means, for people."""
        return tuple(self._unread[kind] for kind in KINDS if kind in self._unread)

    def take(self, resource: Resource[Any], change: Change[Any], now: datetime) -> None:
        """One change of one object."""
        old = change.old.value if isinstance(change, Modified | Deleted) else None
        new = None if isinstance(change, Deleted) else change.new.value
        objects = self._objects[resource]
        if new is None:
            objects.pop(change.key, None)
        else:
            objects[change.key] = new
        if resource is EVENTS:
            self.events.take(change.key, new)
            if new is not None:
                self.log.note("event", text_of(change.key))
            return
        if resource is RESOURCE_CLAIMS:
            self.past.take(change.key, old, new, now)
        self.picture.take(resource, change.key, new)

    def can_read(self, resource: Resource[Any], why_not: str = "") -> None:
        """Whether a kind can be read. A change shows with the next picture."""
        if why_not:
            self._unread[resource] = why_not
        else:
            self._unread.pop(resource, None)

    def cluster(self) -> Cluster:
        """The objects as the allocator asks for them. A copy: others may go on while somebody thinks about it."""
        found = self._objects
        rules = tuple(found[DEVICE_TAINT_RULES].values())
        return Cluster(
            nodes=tuple(one for _, one in sorted(found[NODES].items())),
            slices=tuple(found[RESOURCE_SLICES].values()),
            claims=tuple(found[RESOURCE_CLAIMS].values()),
            classes=tuple(found[DEVICE_CLASSES].values()),
            templates=tuple(found[RESOURCE_CLAIM_TEMPLATES].values()),
            pods=tuple(found[PODS].values()),
            taint_rules=rules,
            source="the cluster",
            has_served_rules=bool(rules),
            warnings=self.events.pod_warnings(),
        )
