from __future__ import annotations

from dray.client.access import ClusterAccess
from dray.client.client import Client
from dray.runtime.clock import FakeClock
from dray.runtime.metrics import Metrics
from dray.runtime.quarantine import Quarantine
from dray.scheduler.apart import Apart, ApartOptions
from dray.scheduler.binding import Bindings
from dray.scheduler.events import Teller
from dray.scheduler.fit.rejection import NODE_AFFINITY
from dray.scheduler.metrics import ERROR, SCHEDULED, SchedulerMetrics
from dray.scheduler.queue.hints import fit_hints
from dray.scheduler.queue.queue import SchedulingQueue
from tests.scheduler.objects import make_pod


def test_what_a_scrape_says() -> None:
    metrics, queue, bindings = Metrics(), SchedulingQueue(fit_hints()), Bindings(4)
    teller = Teller(Client(ClusterAccess("http://x")), "dray", FakeClock(), lambda one: None)
    found = SchedulerMetrics(metrics, "me")
    clock = FakeClock()
    found.watch(queue, bindings, teller, Apart(ApartOptions(), clock), Quarantine(None, clock))
    queue.put(make_pod("active"), 0.0)
    queue.put(make_pod("gated", schedulingGates=[{"name": "g"}]), 0.0)
    queue.put(make_pod("refused", priority=9), 0.0)
    assert queue.pop(0.0) is not None
    queue.failed("refused", 0.0, [NODE_AFFINITY])
    bindings.writing = 2
    found.ended(SCHEDULED, 0.01)
    found.ended(ERROR, 0.01)
    found.bound(40, 3.0)
    text = metrics.render().decode()
    for line in (
        'scheduler_schedule_attempts_total{profile="me",result="scheduled"} 1.0',
        'scheduler_schedule_attempts_total{profile="me",result="error"} 1.0',
        'scheduler_scheduling_attempt_duration_seconds_count{profile="me",result="error"} 1.0',
        'scheduler_pod_scheduling_sli_duration_seconds_count{attempts="16"} 1.0',
        'scheduler_pending_pods{queue="active"} 1',
        'scheduler_pending_pods{queue="backoff"} 0',
        'scheduler_pending_pods{queue="unschedulable"} 1',
        'scheduler_pending_pods{queue="gated"} 1',
        'dray_scheduler_binding_pods{state="writing"} 2',
        "dray_scheduler_events_dropped_total 0",
    ):
        assert line in text
