"""What an operator wants to know of the controllers, under the names that Kubernetes' own controllers use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from dray.api.limits import EXTENDED_RESOURCE_CLAIM_ANNOTATION, POD_CLAIM_NAME_ANNOTATION
from dray.api.resource import ResourceClaim
from dray.api.resource.claim import ResourceClaimSpec
from dray.client.informer import Informer
from dray.controllers.queues import QueueMetrics
from dray.runtime.metrics import Metrics, Sample
from dray.runtime.quarantine import Quarantine, show_set_aside

_SECONDS: Final = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240)


class ControllerMetrics:
    """Made once for a process, or by a controller for itself where nobody asks."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        metrics = self._metrics = metrics or Metrics()
        self.queues = QueueMetrics(metrics)
        self.claim_creates = metrics.counter(
            "resourceclaim_controller_creates", "Claims asked to be made.", ["status", "admin_access"]
        )
        self.device_evictions = metrics.counter(
            "device_taint_eviction_controller_pod_deletions", "Pods evicted from tainted devices."
        )
        self.device_eviction_lag = metrics.histogram(
            "device_taint_eviction_controller_pod_deletion_duration_seconds",
            "From the moment a pod had to leave its device until it was deleted.",
            buckets=_SECONDS,
        )
        self.node_evictions = metrics.counter(
            "taint_eviction_controller_pod_deletions", "Pods evicted from tainted nodes."
        )
        self.node_eviction_lag = metrics.histogram(
            "taint_eviction_controller_pod_deletion_duration_seconds",
            "From the moment a pod had to leave its node until it was deleted.",
            buckets=_SECONDS,
        )
        removed = ["namespace", "reason"]
        self.pods_collected = metrics.counter(
            "pod_gc_collector_force_delete_pods", "Pods that nobody would have ended.", removed
        )
        self.pods_not_collected = metrics.counter(
            "pod_gc_collector_force_delete_pod_errors", "Such pods that could not be removed.", removed
        )

    def follow_quarantine(self, quarantine: Quarantine) -> None:
        """Count at each scrape what all controllers leave alone."""
        show_set_aside(self._metrics, lambda: {"controllers": quarantine})

    def follow_claims(self, claims: Informer[ResourceClaim]) -> None:
        """Count these claims at each scrape."""
        self._metrics.series(
            "resourceclaim_controller_resource_claims",
            "Claims by allocation, admin access and where they come from.",
            lambda: _claims(claims.values()),
        )


def asks_admin_access(spec: ResourceClaimSpec) -> str:
    """Whether one of its requests asks for it, as a label."""
    return _said(
        any(one.exactly is not None and bool(one.exactly.admin_access) for one in spec.devices.requests)
    )


def _claims(claims: Iterable[ResourceClaim]) -> Iterable[Sample]:
    counts = Counter(
        (_said(one.status.allocation is not None), asks_admin_access(one.spec), _source(one))
        for one in claims
    )
    for (allocated, admin, source), count in sorted(counts.items()):
        yield {"allocated": allocated, "admin_access": admin, "source": source}, count


def _source(claim: ResourceClaim) -> str:
    notes = claim.metadata.annotations
    if POD_CLAIM_NAME_ANNOTATION in notes:
        return "resource_claim_template"
    return "extended_resource" if notes.get(EXTENDED_RESOURCE_CLAIM_ANNOTATION) == "true" else ""


def _said(value: bool) -> str:
    return "true" if value else "false"
