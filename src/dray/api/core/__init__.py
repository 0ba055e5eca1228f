"""The core kinds Dray uses: Pod and Node (from their own files), Namespace, Event, ConfigMap, and Lease."""

from __future__ import annotations

from datetime import datetime

from msgspec import field

from dray.api.core.node import Node
from dray.api.core.pod import Pod
from dray.api.meta import Int32, MicroTime, Model, ObjectMeta, Time, always, parse_micro_time
from dray.errors import InvalidError

__all__ = [
    "ConfigMap",
    "Event",
    "EventSeries",
    "EventSource",
    "Lease",
    "LeaseSpec",
    "Namespace",
    "NamespaceCondition",
    "NamespaceSpec",
    "NamespaceStatus",
    "Node",
    "ObjectReference",
    "Pod",
]


class NamespaceSpec(Model, frozen=True, kw_only=True):
    """Who must let go before a namespace is gone."""

    finalizers: tuple[str, ...] = ()


class NamespaceCondition(Model, frozen=True, kw_only=True):
    """One observed aspect of a namespace, mostly what holds up its deletion."""

    type: str = ""
    status: str = ""
    last_transition_time: Time | None = None
    reason: str = ""
    message: str = ""


class NamespaceStatus(Model, frozen=True, kw_only=True):
    """Active, or Terminating and why."""

    phase: str = ""
    conditions: tuple[NamespaceCondition, ...] = ()


class Namespace(Model, frozen=True, kw_only=True):
    """A scope for names."""

    api_version: str = field(default_factory=always("v1"))
    kind: str = field(default_factory=always("Namespace"))
    metadata: ObjectMeta = ObjectMeta()
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class ObjectReference(Model, frozen=True, kw_only=True):
    """Points at an object, or at a part of it."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


class EventSource(Model, frozen=True, kw_only=True):
    """Who saw it, where (the older form; `reporting_component` is the newer)."""

    component: str = ""
    host: str = ""


class EventSeries(Model, frozen=True, kw_only=True):
    """How often an event was seen."""

    count: Int32 = 0
    last_observed_time: MicroTime | None = None


class Event(Model, frozen=True, kw_only=True):
    """Something that happened to an object (core/v1; events.k8s.io objects read through it look the same)."""

    api_version: str = field(default_factory=always("v1"))
    kind: str = field(default_factory=always("Event"))
    metadata: ObjectMeta = ObjectMeta()
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    source: EventSource = EventSource()
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None
    count: Int32 = 0
    type: str = ""
    event_time: MicroTime | None = None
    series: EventSeries | None = None
    action: str = ""
    related: ObjectReference | None = None
    reporting_component: str = ""
    reporting_instance: str = ""

    @property
    def last_seen(self) -> datetime | None:
        """When it last happened: the newer form says it in the series or as `event_time`, the older in `last_timestamp`."""
        series = self.series.last_observed_time if self.series is not None else None
        older = self.last_timestamp or self.first_timestamp or self.metadata.creation_timestamp
        return _moment(series) or self.last_timestamp or _moment(self.event_time) or older


def _moment(text: MicroTime | None) -> datetime | None:
    try:
        return parse_micro_time(text) if text else None
    except InvalidError:
        return None


class ConfigMap(Model, frozen=True, kw_only=True):
    """Configuration as texts; `binary_data` comes decoded from base64."""

    api_version: str = field(default_factory=always("v1"))
    kind: str = field(default_factory=always("ConfigMap"))
    metadata: ObjectMeta = ObjectMeta()
    immutable: bool | None = None
    data: dict[str, str] = field(default_factory=dict)
    binary_data: dict[str, bytes] = field(default_factory=dict)


class LeaseSpec(Model, frozen=True, kw_only=True):
    """Who leads, since when and for how long."""

    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    acquire_time: MicroTime | None = None
    renew_time: MicroTime | None = None
    lease_transitions: Int32 | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(Model, frozen=True, kw_only=True):
    """A lock with a heartbeat (coordination.k8s.io/v1)."""

    api_version: str = field(default_factory=always("coordination.k8s.io/v1"))
    kind: str = field(default_factory=always("Lease"))
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()
