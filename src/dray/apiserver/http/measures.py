"""What `/metrics` tells: requests as Kubernetes' own server counts them, and the size of the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from dray.apiserver.store.contract import Store
from dray.runtime.clock import Clock
from dray.runtime.metrics import Metrics, Sample
from dray.runtime.quarantine import Quarantine, show_set_aside

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_WORDS = {"create": "POST", "update": "PUT"}
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")


class Seen:
    """One request, filled in as it becomes known. A code of 0: the client went away first."""

    def __init__(self, method: str) -> None:
        self.verb = method if method in _METHODS else "other"
        self.resource = ""
        self.code = 0


class Measures:
    """Counts for one server; values of labels come from what is served, so there is an end to them."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._requests = metrics.counter(
            "apiserver_request", "Requests answered.", ("verb", "resource", "code")
        )
        self._seconds = metrics.histogram(
            "apiserver_request_duration_seconds",
            "Time from a request to its answer; watches are left out.",
            ("verb", "resource"),
            buckets=_BUCKETS,
        )

    def of_store(self, store: Store, resources: Callable[[], Iterable[str]]) -> None:
        """Tell of a store too. `resources` is asked at each scrape."""

        def objects() -> Iterator[Sample]:
            for resource in sorted(set(resources())):
                page = store.list(resource, limit=1)
                if page.items:
                    yield {"resource": resource}, float(len(page.items) + page.remaining)

        self._metrics.series("apiserver_storage_objects", "Objects stored.", objects)
        self._metrics.series(
            "dray_apiserver_revision", "The newest durable revision.", lambda: [({}, float(store.revision))]
        )

    def of_upkeep(self, quarantine: Quarantine) -> None:
        """Tell how many objects the server leaves alone."""
        show_set_aside(self._metrics, lambda: {"apiserver": quarantine})

    @contextmanager
    def request(self, method: str) -> Iterator[Seen]:
        """Around one request."""
        seen, began = Seen(method), self._clock.monotonic()
        try:
            yield seen
        finally:
            verb = _WORDS.get(seen.verb, seen.verb).upper()
            self._requests.labels(verb, seen.resource, str(seen.code)).inc()
            if verb != "WATCH":
                self._seconds.labels(verb, seen.resource).observe(self._clock.monotonic() - began)

    def render(self) -> bytes:
        """The page."""
        return self._metrics.render()
