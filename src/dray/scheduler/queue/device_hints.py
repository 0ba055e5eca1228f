"""What pods that wait for devices listen to. A change of a claim is told only to those it may help (see `feeding`)."""

from __future__ import annotations

from typing import Final

from dray.api.core import Pod
from dray.api.resource.claim import ResourceClaim
from dray.scheduler.claims.hints import Hint, after_claim_change, after_group_change, after_pod_change
from dray.scheduler.claims.pre_enqueue import pre_enqueue
from dray.scheduler.claims.resolve import Lookup
from dray.scheduler.fit.rejection import Rejection
from dray.scheduler.queue.happenings import NODE, POD, Action, Happening
from dray.scheduler.queue.hints import Hints, Interest
from dray.scheduler.queue.queue import PreEnqueue

DYNAMIC_RESOURCES: Final = "DynamicResources"
PREEMPTION: Final = "DefaultPreemption"
"""Against pods that would get to a node before the one it was cleared for; over when that one is bound or gone."""
CLAIM: Final = "ResourceClaim"
SLICE: Final = "ResourceSlice"
DEVICE_CLASS: Final = "DeviceClass"
TAINT_RULE: Final = "DeviceTaintRule"
POD_GROUP: Final = "PodGroup"
_CHANGED: Final = Action.ADD | Action.DELETE | Action.OTHER


def device_hints(lookup: Lookup, *, pod_groups: bool = False) -> Hints:
    """As kube-scheduler's DynamicResources plugin has them; slices that go may make a pool whole, so they count, too.

    `pod_groups` is the gate DRAWorkloadResourceClaims.
    """

    def of_claim(pod: Pod, happening: Happening) -> bool:
        old, new = happening.old, happening.new
        return after_claim_change(pod, old, new, lookup, pod_groups=pod_groups) is Hint.QUEUE

    def of_pod(pod: Pod, happening: Happening) -> bool:
        return after_pod_change(pod, happening.new, lookup, pod_groups=pod_groups) is Hint.QUEUE

    def of_group(pod: Pod, happening: Happening) -> bool:
        return after_group_change(pod, happening.new) is Hint.QUEUE

    return {
        DYNAMIC_RESOURCES: (
            Interest(NODE, Action.ADD | Action.NODE_LABEL | Action.NODE_ALLOCATABLE | Action.NODE_FEATURE),
            Interest(CLAIM, _CHANGED, of_claim),
            Interest(POD, Action.POD_CLAIMS, of_pod),
            Interest(DEVICE_CLASS, _CHANGED),
            Interest(SLICE, _CHANGED),
            Interest(TAINT_RULE, _CHANGED),
            Interest(POD_GROUP, Action.ADD | Action.OTHER, of_group),
        ),
        PREEMPTION: (Interest(POD, Action.ADD | Action.DELETE),),
    }


def claims_gate(lookup: Lookup, *, pod_groups: bool = False) -> PreEnqueue:
    """Keeps a pod out of the queue while its claims are not all there."""

    def check(pod: Pod) -> Rejection | None:
        if not pod.spec.resource_claims:
            return None
        status = pre_enqueue(pod, lookup, pod_groups=pod_groups)
        return None if status.is_success else Rejection(check=DYNAMIC_RESOURCES, reasons=(status.reason,))

    return check


def object_happening(kind: str, old: object, new: object) -> Happening:
    """A change of an object that is no pod and no node."""
    if old is None:
        return Happening(kind, Action.ADD, old, new)
    return Happening(kind, Action.DELETE if new is None else Action.OTHER, old, new)


def frees(old: ResourceClaim | None, new: ResourceClaim | None) -> bool:
    """Whether devices became free, which may help any pod."""
    return (
        old is not None
        and old.status.allocation is not None
        and (new is None or new.status.allocation is None)
    )
