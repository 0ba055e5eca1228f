"""What an operator wants to know of the device plugins, as Prometheus metrics."""

from __future__ import annotations

import time
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext

from prometheus_client import Counter, Histogram

from dray.runtime.metrics import Metrics
from dray.wire.registration_state import RegistrationPhase, RegistrationState

PREFIX = "dray_deviceplugin"
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_RESULTS = ("success", "error", "cancelled")


class PluginMetrics:
    """The metrics of all plugins of a process; made once for each `Metrics`."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self.allocations = metrics.counter(
            f"{PREFIX}_allocations", "Allocate calls by their result.", ["resource", "result"]
        )
        self.allocate_seconds = metrics.histogram(
            f"{PREFIX}_allocate_seconds", "Seconds an Allocate call took.", ["resource"], buckets=BUCKETS
        )
        self.pre_starts = metrics.counter(
            f"{PREFIX}_pre_starts", "PreStartContainer calls by their result.", ["resource", "result"]
        )
        self.pre_start_seconds = metrics.histogram(
            f"{PREFIX}_pre_start_seconds",
            "Seconds a PreStartContainer call took.",
            ["resource"],
            buckets=BUCKETS,
        )
        self.registrations = metrics.counter(
            f"{PREFIX}_registrations", "Registrations that the kubelet accepted.", ["resource"]
        )
        self.list_updates = metrics.counter(
            f"{PREFIX}_list_updates", "Device lists sent to the kubelet.", ["resource"]
        )

    def of(self, resource: str) -> ResourceMetrics:
        """Those of one resource; all of its series begin at zero."""
        return ResourceMetrics(self, resource)

    def follow(self, states: Callable[[], Mapping[str, RegistrationState]]) -> None:
        """Show `states` at each scrape: 1 for a resource that the kubelet has, 0 for one that it should have."""
        self._metrics.series(
            f"{PREFIX}_registered",
            "Whether the kubelet has the resource.",
            lambda: [
                ({"resource": resource}, float(state.phase is RegistrationPhase.REGISTERED))
                for resource, state in sorted(states().items())
            ],
        )


class ResourceMetrics:
    """The series of one resource, looked up once so that a call only adds."""

    def __init__(self, metrics: PluginMetrics, resource: str) -> None:
        self._allocations = {name: metrics.allocations.labels(resource, name) for name in _RESULTS}
        self._allocate_seconds = metrics.allocate_seconds.labels(resource)
        self._pre_starts = {name: metrics.pre_starts.labels(resource, name) for name in _RESULTS}
        self._pre_start_seconds = metrics.pre_start_seconds.labels(resource)
        self._registrations = metrics.registrations.labels(resource)
        self._list_updates = metrics.list_updates.labels(resource)

    def allocating(self) -> AbstractContextManager[None]:
        """Around one Allocate call."""
        return _measured(self._allocations, self._allocate_seconds)

    def pre_starting(self) -> AbstractContextManager[None]:
        """Around one PreStartContainer call."""
        return _measured(self._pre_starts, self._pre_start_seconds)

    def registered(self) -> None:
        """The kubelet accepted a registration."""
        self._registrations.inc()

    def listed(self) -> None:
        """A list goes to the kubelet."""
        self._list_updates.inc()


class NoMetrics(ResourceMetrics):
    """Counts nothing."""

    def __init__(self) -> None:
        pass

    def allocating(self) -> AbstractContextManager[None]:
        """Nothing to measure."""
        return nullcontext()

    def pre_starting(self) -> AbstractContextManager[None]:
        """Nothing to measure."""
        return nullcontext()

    def registered(self) -> None:
        """Not counted."""

    def listed(self) -> None:
        """Not counted."""


@contextmanager
def _measured(counters: Mapping[str, Counter], seconds: Histogram) -> Iterator[None]:
    began = time.perf_counter()
    result = "error"
    try:
        yield
        result = "success"
    except CancelledError:
        result = "cancelled"
        raise
    finally:
        counters[result].inc()
        seconds.observe(time.perf_counter() - began)
