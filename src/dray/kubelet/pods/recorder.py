"""Events of pods, written to the log and, for pods that have an object there, to the API server."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any

from dray.api.codec import to_raw
from dray.api.core import Event, EventSource
from dray.api.kinds import EVENTS
from dray.api.meta import ObjectMeta, format_time
from dray.client.client import Client
from dray.errors import Error, InvariantError, NotFoundError, UnavailableError
from dray.kubelet.pods.correlate import Correlator, Sighting
from dray.kubelet.pods.events import Kind, PodEvent
from dray.runtime.backoff import Backoff, BackoffPolicy
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log

_log = get_log("kubelet.events")
_RETRY = BackoffPolicy(first=0.5, limit=30.0)
COMPONENT = "kubelet"
WAITING = 1000
"""Events that may wait for a server that is away; of more the oldest are left out."""


class EventLog:
    """Without an API server. An event that comes again is not told again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._correlator = Correlator()

    def record(self, event: PodEvent) -> None:
        """See `Events`."""
        self.observe(event)

    def observe(self, event: PodEvent) -> Sighting | None:
        """As it stands now; None where there were too many."""
        sighting = self._correlator.observe(event, self._clock.now())
        if sighting is not None and sighting.is_new:
            pod = f"{event.about.namespace}/{event.about.name}"
            tell = _log.info if event.kind is Kind.NORMAL else _log.warning
            tell(event.message, pod=pod, reason=event.reason, at=event.about.field_path or "pod")
        return sighting


class ApiEvents:
    """`run` writes, until cancelled; `record` never waits. What is left out is told once until writing works again."""

    def __init__(self, client: Client, node: str, clock: Clock) -> None:
        self._client = client
        self._node = node
        self._clock = clock
        self._seen = EventLog(clock)
        self._pending: OrderedDict[str, Sighting] = OrderedDict()
        self._wake = asyncio.Event()
        self._is_losing = False

    def record(self, event: PodEvent) -> None:
        """See `Events`."""
        sighting = self._seen.observe(event)
        if sighting is None or not event.about.resource_version:
            return
        self._pending[sighting.name] = sighting
        if len(self._pending) > WAITING:
            self._pending.popitem(last=False)
            self._lose(f"more than {WAITING} wait")
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled."""
        backoff = Backoff(_RETRY)
        while True:
            while not self._pending:
                self._wake.clear()
                await self._wake.wait()
            name, sighting = self._pending.popitem(last=False)
            try:
                await self._write(sighting)
            except UnavailableError:
                if self._pending.setdefault(name, sighting) is sighting:
                    self._pending.move_to_end(name, last=False)
                await self._clock.sleep(backoff.next())
            except InvariantError:
                raise
            except Error as error:  # such as a namespace that is being deleted: it would be refused again
                self._lose(str(error))
            else:
                backoff.reset()
                self._is_losing = False

    async def _write(self, sighting: Sighting) -> None:
        namespace = sighting.event.about.namespace
        if not sighting.is_new:
            change = {
                "count": sighting.count,
                "lastTimestamp": format_time(sighting.last),
                "message": sighting.event.message,
            }
            try:
                await self._client.patch(EVENTS, sighting.name, change, namespace=namespace)
                return
            except NotFoundError:  # the server forgets events after an hour
                pass
        await self._client.create(EVENTS, document(sighting, self._node))

    def _lose(self, why: str) -> None:
        if not self._is_losing:
            _log.warning("events do not reach the API server, some are left out", why=why)
        self._is_losing = True


def document(sighting: Sighting, node: str) -> dict[str, Any]:
    """The object to make at the server."""
    event = sighting.event
    made = Event(
        metadata=ObjectMeta(name=sighting.name, namespace=event.about.namespace),
        involved_object=event.about,
        reason=event.reason,
        message=event.message,
        source=EventSource(component=COMPONENT, host=node),
        first_timestamp=sighting.first.replace(microsecond=0),
        last_timestamp=sighting.last.replace(microsecond=0),
        count=sighting.count,
        type=event.kind.value,
        reporting_component=COMPONENT,
        reporting_instance=node,
    )
    raw: dict[str, Any] = to_raw(made)
    return raw
