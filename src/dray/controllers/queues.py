"""The controllers' work queue: that of `runtime`, with the metrics by which Kubernetes' controllers are watched."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Final, TypeVar

from dray.errors import InvariantError
from dray.runtime.clock import Clock
from dray.runtime.metrics import Metrics, Sample
from dray.runtime.workqueue import Watch, WorkQueue

K = TypeVar("K", bound=Hashable)
_BUCKETS: Final = tuple(10.0**power for power in range(-8, 2))


class QueueMetrics:
    """Of all queues of a process. Counters and distributions are kept, the rest is read at each scrape."""

    def __init__(self, metrics: Metrics) -> None:
        name = ["name"]
        self.adds = metrics.counter("workqueue_adds", "Keys that were added.", name)
        self.retries = metrics.counter(
            "workqueue_retries", "Keys that came back because a look at them failed.", name
        )
        self.waited = metrics.histogram(
            "workqueue_queue_duration_seconds", "How long keys waited.", name, buckets=_BUCKETS
        )
        self.worked = metrics.histogram(
            "workqueue_work_duration_seconds", "How long looks at keys took.", name, buckets=_BUCKETS
        )
        self._queues: list[MeteredQueue[object]] = []
        for series, text, read in (
            ("workqueue_depth", "Keys that wait.", len),
            ("workqueue_unfinished_work_seconds", "The age of all looks that go on, together.", _unfinished),
            ("workqueue_longest_running_processor_seconds", "The age of the oldest look.", _longest),
        ):
            metrics.series(series, text, self._reading(read))

    def follow(self, queue: MeteredQueue[K]) -> None:
        """Show this queue from now on; one of each name."""
        if any(one.name == queue.name for one in self._queues):
            raise InvariantError(f"there are two queues with the name {queue.name}")
        self._queues.append(queue)  # type: ignore[arg-type]  # keys are not looked at

    def _reading(self, read: Callable[[MeteredQueue[object]], float]) -> Callable[[], Iterable[Sample]]:
        return lambda: [({"name": one.name}, float(read(one))) for one in self._queues]


class MeteredQueue(WorkQueue[K]):
    """A work queue that is watched."""

    def __init__(self, name: str, clock: Clock, metrics: QueueMetrics, watch: Watch[K] | None = None) -> None:
        super().__init__(name, clock, watch=watch)
        self._metrics = metrics
        self._added: dict[K, float] = {}
        self._started: dict[K, float] = {}
        metrics.follow(self)

    def add(self, key: K) -> None:
        """See `WorkQueue`."""
        if key not in self._dirty:
            self._added.setdefault(key, self._clock.monotonic())
            self._metrics.adds.labels(self.name).inc()
        super().add(key)

    async def run(self, handler: Callable[[K], Awaitable[None]], *, workers: int = 1) -> None:
        """See `WorkQueue`."""

        async def measured(key: K) -> None:
            now = self._clock.monotonic()
            self._metrics.waited.labels(self.name).observe(now - self._added.pop(key, now))
            self._started[key] = now
            try:
                await handler(key)
            except Exception:
                self._metrics.retries.labels(self.name).inc()
                raise
            finally:
                del self._started[key]
                self._metrics.worked.labels(self.name).observe(self._clock.monotonic() - now)

        await super().run(measured, workers=workers)

    def ages(self) -> list[float]:
        """How long each look that goes on has taken so far."""
        now = self._clock.monotonic()
        return [now - started for started in self._started.values()]


def _unfinished(queue: MeteredQueue[object]) -> float:
    return sum(queue.ages())


def _longest(queue: MeteredQueue[object]) -> float:
    return max(queue.ages(), default=0.0)
