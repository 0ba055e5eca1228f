"""What an operator wants to know of the DRA drivers, as Prometheus metrics."""

from __future__ import annotations

import time
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal

from dray.errors import Error
from dray.runtime.metrics import Metrics
from dray.runtime.quarantine import Quarantine, show_set_aside

PREFIX = "dray_dra"
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 45.0)
Method = Literal["prepare", "unprepare"]


class DraMetrics:
    """The metrics of all DRA drivers of a process; made once for each `Metrics`."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        by_call = ["driver", "method"]
        self.requests = metrics.counter(
            f"{PREFIX}_requests", "Calls of the kubelet by their result.", [*by_call, "result"]
        )
        self.seconds = metrics.histogram(
            f"{PREFIX}_request_seconds", "Seconds a call of the kubelet took.", by_call, buckets=BUCKETS
        )
        self.inflight = metrics.gauge(
            f"{PREFIX}_requests_inflight", "Calls of the kubelet that run now.", by_call
        )
        self.claims = metrics.counter(
            f"{PREFIX}_claims", "Claims answered in calls, by result.", [*by_call, "result"]
        )
        self.errors = metrics.counter(
            f"{PREFIX}_errors", "Failed tries on a claim, by the kind of error.", [*by_call, "error"]
        )
        self.registrations = metrics.counter(
            f"{PREFIX}_registrations", "Registrations that the kubelet accepted.", ["driver"]
        )

        self.slices = metrics.gauge(f"{PREFIX}_slices", "ResourceSlices as published last.", ["driver"])
        self.offered = metrics.gauge(f"{PREFIX}_devices", "Devices in them.", ["driver"])
        self.writes = metrics.counter(
            f"{PREFIX}_slice_writes", "Writes of ResourceSlices that were answered.", ["driver", "verb"]
        )
        self.publish_errors = metrics.counter(
            f"{PREFIX}_publish_errors", "Tries to publish that failed.", ["driver"]
        )

    def of(self, driver: str) -> DriverMetrics:
        """Those of one driver; those that count calls begin at zero."""
        return DriverMetrics(self, driver)

    def follow(
        self,
        registered: Callable[[], Mapping[str, bool]],
        prepared: Callable[[], Mapping[str, int]],
        quarantines: Callable[[], Mapping[str, Quarantine]],
    ) -> None:
        """Show at each scrape, by driver, whether the kubelet has it, how many devices are prepared and how many claims are
        left alone."""
        show_set_aside(self._metrics, quarantines)
        self._metrics.series(
            f"{PREFIX}_registered",
            "Whether the kubelet has the driver.",
            lambda: [({"driver": name}, float(is_in)) for name, is_in in sorted(registered().items())],
        )
        self._metrics.series(
            f"{PREFIX}_prepared_devices",
            "Devices that are prepared for claims.",
            lambda: [({"driver": name}, float(count)) for name, count in sorted(prepared().items())],
        )


class DriverMetrics:
    """The series of one driver."""

    def __init__(self, metrics: DraMetrics, driver: str) -> None:
        self._metrics = metrics
        self._driver = driver
        metrics.registrations.labels(driver)
        for method in ("prepare", "unprepare"):
            metrics.seconds.labels(driver, method)
            metrics.inflight.labels(driver, method)
            for result in ("success", "error"):
                metrics.requests.labels(driver, method, result)
                metrics.claims.labels(driver, method, result)

    def calling(self, method: Method) -> AbstractContextManager[None]:
        """Around one call. It is a success where every claim was answered, be it with an error."""
        return self._measured(method)

    @contextmanager
    def _measured(self, method: Method) -> Iterator[None]:
        labels = (self._driver, method)
        began, result = time.perf_counter(), "error"
        with self._metrics.inflight.labels(*labels).track_inprogress():
            try:
                yield
                result = "success"
            except CancelledError:
                result = "cancelled"
                raise
            finally:
                self._metrics.requests.labels(*labels, result).inc()
                self._metrics.seconds.labels(*labels).observe(time.perf_counter() - began)

    def answered(self, method: Method, *, good: int, bad: int) -> None:
        """The claims of one call."""
        self._metrics.claims.labels(self._driver, method, "success").inc(good)
        self._metrics.claims.labels(self._driver, method, "error").inc(bad)

    def failed(self, method: Method, error: Error) -> None:
        """One try on one claim; it may be tried again in the same call."""
        kind = type(error).__name__.removesuffix("Error").lower() or "other"
        self._metrics.errors.labels(self._driver, method, kind).inc()

    def registered(self) -> None:
        """The kubelet accepted a registration."""
        self._metrics.registrations.labels(self._driver).inc()

    def published(self, slices: int, devices: int, generation: int) -> None:
        """The API server has these; a `PublishObserver`'s."""
        self._metrics.slices.labels(self._driver).set(slices)
        self._metrics.offered.labels(self._driver).set(devices)

    def wrote(self, verb: str) -> None:
        """One slice."""
        self._metrics.writes.labels(self._driver, verb).inc()

    def not_published(self) -> None:
        """One try."""
        self._metrics.publish_errors.labels(self._driver).inc()


class NoMetrics(DriverMetrics):
    """Counts nothing."""

    def __init__(self) -> None:
        pass

    def calling(self, method: Method) -> AbstractContextManager[None]:
        """Nothing to measure."""
        return nullcontext()

    def answered(self, method: Method, *, good: int, bad: int) -> None:
        """Not counted."""

    def failed(self, method: Method, error: Error) -> None:
        """Not counted."""

    def registered(self) -> None:
        """Not counted."""
