"""The metrics of claims, named as a kubelet names them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dray.errors import Error
from dray.kubelet.claims.cache import ClaimCache
from dray.kubelet.failure import rpc_code
from dray.runtime.clock import Clock
from dray.runtime.metrics import Metrics, Sample

_COUNT, _FIRST, _LAST = 15, 0.1, 40.0
BUCKETS = tuple(_FIRST * (_LAST / _FIRST) ** (step / (_COUNT - 1)) for step in range(_COUNT))


class Meters:
    """Made once for a manager."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._operations = metrics.histogram(
            "dra_operations_duration_seconds",
            "Seconds to prepare or unprepare all claims of a pod.",
            ("operation_name", "is_error"),
            buckets=BUCKETS,
        )
        self._calls = metrics.histogram(
            "dra_grpc_operations_duration_seconds",
            "Seconds of the calls to DRA drivers.",
            ("driver_name", "method_name", "grpc_status_code"),
            buckets=BUCKETS,
        )

    def count(self, cache: ClaimCache) -> None:
        """Show how many claims are in use, at every scrape."""

        def samples() -> list[Sample]:
            return [({"driver_name": name}, float(count)) for name, count in cache.in_use().items()]

        self._metrics.series(
            "dra_resource_claims_in_use", "Prepared claims by driver; <any> counts each once.", samples
        )

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        """Around all that one pod needs."""
        started, failed = self._clock.monotonic(), "true"
        try:
            yield
            failed = "false"
        finally:
            self._operations.labels(name, failed).observe(self._clock.monotonic() - started)

    @contextmanager
    def call(self, driver: str, method: str) -> Iterator[None]:
        """Around one call to a driver."""
        started, code = self._clock.monotonic(), "Canceled"
        try:
            yield
            code = "OK"
        except Error as error:
            code = rpc_code(error)
            raise
        finally:
            self._calls.labels(driver, method, code).observe(self._clock.monotonic() - started)
