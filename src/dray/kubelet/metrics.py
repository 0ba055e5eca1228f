"""What a kubelet tells Prometheus of devices, under the kubelet's own names, and one gauge of ours."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

from dray.runtime.metrics import Metrics, Sample

DEFAULT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Those of Prometheus' Go library; its Python one has others."""
TOPOLOGY_BUCKETS = tuple(0.05 * 2**step for step in range(15))
DEVICES = "dray_device_plugin_devices"
MOST_NAMES = 1000
OTHER_NAMES = "other"
_POD_RESOURCES = "kubelet_pod_resources_endpoint"


class PlainCounter:
    """A counter that is shown under just its name; Prometheus' library would add `_total`."""

    def __init__(self, metrics: Metrics, name: str, text: str, labels: Collection[str]) -> None:
        self._names = tuple(labels)
        self._counts: dict[tuple[str, ...], int] = {}
        metrics.series(name, text, self._samples, kind="counter")

    def inc(self, *labels: str, by: int = 1) -> None:
        """Count one more; `by` 0 makes the series appear."""
        self._counts[labels] = self._counts.get(labels, 0) + by

    def _samples(self) -> Iterator[Sample]:
        for labels, count in sorted(self._counts.items()):
            yield dict(zip(self._names, labels, strict=True)), float(count)


class KubeletMetrics:
    """All but those of claims (`claims/meters.py`); made once for each `Metrics`, and passed to whoever counts."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._registrations = metrics.counter(
            "kubelet_device_plugin_registration",
            "Registrations that device plugins asked for, refused ones too.",
            ["resource_name"],
        )
        self._registered: set[str] = set()
        self._allocations = metrics.histogram(
            "kubelet_device_plugin_alloc_duration_seconds",
            "Seconds a device plugin took for Allocate.",
            ["resource_name"],
            buckets=DEFAULT_BUCKETS,
        )
        self.pod_resources = PodResourcesMetrics(metrics)
        self.topology = TopologyMetrics(metrics)
        self.rejections = metrics.counter(
            "kubelet_admission_rejections", "Pods that this node did not take.", ["reason"]
        )

    def registration(self, resource: str) -> None:
        """A plugin asked. Names come from outside: beyond the first thousand they share one series."""
        if resource not in self._registered:
            if len(self._registered) >= MOST_NAMES:
                resource = OTHER_NAMES
            self._registered.add(resource)
        self._registrations.labels(resource).inc()

    @contextmanager
    def allocating(self, resource: str) -> Iterator[None]:
        """Around one Allocate call, failed ones too."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._allocations.labels(resource).observe(time.perf_counter() - began)

    def follow_devices(self, counts: Callable[[], Mapping[str, tuple[int, int]]]) -> None:
        """Show the devices of each resource, (healthy, unhealthy), as `counts` gives them at each scrape."""

        def samples() -> Iterator[Sample]:
            for resource, (healthy, unhealthy) in sorted(counts().items()):
                yield {"resource_name": resource, "health": "Healthy"}, float(healthy)
                yield {"resource_name": resource, "health": "Unhealthy"}, float(unhealthy)

        self._metrics.series(DEVICES, "Devices that device plugins list, by health.", samples)

    def follow_plugins(self, states: Callable[[], tuple[Iterable[str], Iterable[str]]]) -> None:
        """Show the watched sockets: (desired, actual) as `states` gives them at each scrape."""

        def samples() -> Iterator[Sample]:
            desired, actual = states()
            for state, sockets in (("actual", actual), ("desired", desired)):
                for socket in sorted(sockets):
                    yield {"socket_path": socket, "state": f"{state}_state_of_world"}, 1.0

        self._metrics.series(
            "plugin_manager_total_plugins", "Sockets that the plugin watcher found and registered.", samples
        )


class PodResourcesMetrics:
    """Who asked for pod resources; the label is the version of the API."""

    def __init__(self, metrics: Metrics) -> None:
        label = ["server_api_version"]
        self.requests = metrics.counter(f"{_POD_RESOURCES}_requests", "Calls to pod resources.", label)
        self.calls = {
            name: PlainCounter(metrics, f"{_POD_RESOURCES}_requests_{name}", f"Calls of {method}.", label)
            for name, method in _METHODS.items()
        }
        self.errors = {
            name: PlainCounter(metrics, f"{_POD_RESOURCES}_errors_{name}", f"Errors of {method}.", label)
            for name, method in _METHODS.items()
        }


_METHODS = {"list": "List", "get_allocatable": "GetAllocatableResources", "get": "Get"}


class TopologyMetrics:
    """What the topology manager decided."""

    def __init__(self, metrics: Metrics) -> None:
        prefix = "kubelet_topology_manager_admission"
        self.requests = metrics.counter(f"{prefix}_requests", "Pods whose topology was asked for.")
        self.errors = metrics.counter(f"{prefix}_errors", "Pods that the topology policy refused.")
        self.milliseconds = metrics.histogram(
            f"{prefix}_duration_ms", "Milliseconds the topology manager took.", buckets=TOPOLOGY_BUCKETS
        )
        aligned, labels = "kubelet_container_aligned_compute_resources", ["scope", "boundary"]
        self.aligned = PlainCounter(metrics, f"{aligned}_count", "Aligned allocations.", labels)
        self.misaligned = PlainCounter(metrics, f"{aligned}_failure_count", "Failed alignments.", labels)
        for scope in ("container", "pod"):
            self.aligned.inc(scope, "numa_node", by=0)
            self.misaligned.inc(scope, "numa_node", by=0)
