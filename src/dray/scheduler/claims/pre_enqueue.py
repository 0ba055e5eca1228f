"""PreEnqueue: a pod whose claims are not all there need not be looked at. And the plugin's word on signatures."""

from __future__ import annotations

from dray.api.core.pod import Pod
from dray.scheduler.claims.outcome import SUCCESS, Status, unresolvable, unschedulable
from dray.scheduler.claims.resolve import Lookup, resolve


def pre_enqueue(pod: Pod, lookup: Lookup, *, pod_groups: bool = False) -> Status:
    """Before a pod gets into the queue, and again at every event that the hints let through."""
    problem = resolve(pod, lookup, pod_groups=pod_groups).problem
    return unresolvable(problem) if problem else SUCCESS


def sign(pod: Pod) -> Status:
    """Whether pods that look the same may share one answer: not where they have claims."""
    if pod.spec.resource_claims:
        return unschedulable("pods with dra resource claims are not signable")
    return SUCCESS
