"""Events of pods, written to the log and, for pods that have an object there, to the API server."""

from __future__ import annotations

from typing import Final

from dray.client.client import Client
from dray.client.event_recorder import EventRecorder, Pace
from dray.client.event_series import Correlator
from dray.client.rate_limit import RateLimit
from dray.kubelet.pods.events import PodEvent
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log

_log = get_log("kubelet.events")
COMPONENT: Final = "kubelet"
PACE: Final = Pace(RateLimit(50.0, 100))
"""As fast as a kubelet is by default."""


class EventLog:
    """Without an API server. An event that comes again is not told again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._correlator = Correlator()

    def record(self, event: PodEvent) -> None:
        """See `Events`."""
        about = event.about
        seen = self._correlator.observe(about, event.kind, event.reason, event.message, self._clock.now())
        if seen.count == 1:
            pod = f"{about.namespace}/{about.name}"
            tell = _log.info if event.kind == "Normal" else _log.warning
            tell(seen.message, pod=pod, reason=event.reason, at=about.field_path or "pod")


class ApiEvents:
    """`run` writes, until cancelled; `record` never waits."""

    def __init__(self, client: Client, node: str, clock: Clock) -> None:
        self._log = EventLog(clock)
        self._recorder = EventRecorder(client, COMPONENT, clock, host=node, pace=PACE)
        self.run = self._recorder.run

    def record(self, event: PodEvent) -> None:
        """See `Events`."""
        self._log.record(event)
        if event.about.resource_version:
            self._recorder.tell(event.about, event.kind, event.reason, event.message)
