"""The scheduler's numbers, under kube-scheduler's names where they mean the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dray.runtime.metrics import Metrics, Sample
from dray.runtime.quarantine import Quarantine, show_set_aside
from dray.scheduler.apart import Apart
from dray.scheduler.binding import Bindings
from dray.scheduler.events import Teller
from dray.scheduler.queue.queue import SchedulingQueue
from dray.scheduler.queue.waiting import Place

SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"
_RESULTS: Final = (SCHEDULED, UNSCHEDULABLE, ERROR)
_ATTEMPT: Final = tuple(0.0001 * 2**n for n in range(18))
_WHOLE: Final = tuple(0.01 * 2**n for n in range(20))
_TRIES: Final = (1, 2, 4, 8, 16)


class SchedulerMetrics:
    """`profile` is the scheduler's name, as in kube-scheduler, where each profile has its own."""

    def __init__(self, metrics: Metrics, profile: str) -> None:
        self._metrics = metrics
        attempts = metrics.counter(
            "scheduler_schedule_attempts", "Tries of pods, by how they ended.", ("result", "profile")
        )
        durations = metrics.histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "From the start of a try to its end, with its writes.",
            ("result", "profile"),
            buckets=_ATTEMPT,
        )
        self._attempts = {one: attempts.labels(one, profile) for one in _RESULTS}
        self._durations = {one: durations.labels(one, profile) for one in _RESULTS}
        self.deciding = metrics.histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Of one decision, without its writes.",
            buckets=_ATTEMPT,
        )
        self._whole = metrics.histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From the time a pod came to its binding, by the tries it took.",
            ("attempts",),
            buckets=_WHOLE,
        )
        self._tries = metrics.histogram(
            "scheduler_pod_scheduling_attempts", "Tries that bound pods took.", buckets=_TRIES
        )
        self.preemptions = metrics.counter("scheduler_preemption_attempts", "Tries to make room for a pod.")
        self.victims = metrics.counter("scheduler_preemption_victims_ended", "Pods deleted to make room.")

    def ended(self, result: str, seconds: float) -> None:
        """A try is over."""
        self._attempts[result].inc()
        self._durations[result].observe(seconds)

    def bound(self, tries: int, seconds: float) -> None:
        """A pod is bound, so many seconds after it came."""
        self._whole.labels(str(min(tries, 16))).observe(seconds)
        self._tries.observe(tries)

    def watch(
        self, queue: SchedulingQueue, bindings: Bindings, teller: Teller, apart: Apart, quarantine: Quarantine
    ) -> None:
        """Read at each scrape."""
        self._metrics.series("scheduler_pending_pods", "Pods that wait, by where.", lambda: _pending(queue))
        self._metrics.series(
            "dray_scheduler_binding_pods",
            "Pods whose decision is being written, or that wait for their devices to be ready.",
            lambda: [({"state": "writing"}, bindings.writing), ({"state": "waiting"}, bindings.waiting)],
        )
        self._metrics.series(
            "dray_scheduler_slow_pods",
            "Pods whose decision takes too long for the loop and is made in a process of its own.",
            lambda: [({}, apart.waiting)],
        )
        self._metrics.series(
            "dray_scheduler_decisions_stopped_total",
            "Decisions that were not over in the time they may take.",
            lambda: [({}, apart.stopped)],
            kind="counter",
        )
        show_set_aside(self._metrics, lambda: {"scheduler": quarantine})
        self._metrics.series(
            "dray_scheduler_events_waiting", "Events in the line.", lambda: [({}, teller.waiting)]
        )
        self._metrics.series(
            "dray_scheduler_events_dropped_total",
            "Events that did not fit into the line.",
            lambda: [({}, teller.dropped)],
            kind="counter",
        )


def _pending(queue: SchedulingQueue) -> Iterator[Sample]:
    counts, gated = queue.counts(), queue.gated()
    yield {"queue": "active"}, counts[Place.ACTIVE]
    yield {"queue": "backoff"}, counts[Place.BACKOFF]
    yield {"queue": "unschedulable"}, counts[Place.UNSCHEDULABLE] - gated
    yield {"queue": "gated"}, gated
