"""Queueing hints: whether a change may make a waiting pod schedulable. In doubt it is tried again."""

from __future__ import annotations

from enum import StrEnum

from dray.api.core.pod import Pod
from dray.api.resource.claim import ResourceClaim
from dray.api.scheduling import PodGroup
from dray.errors import InvalidError
from dray.scheduler.claims.resolve import Lookup, resolve
from dray.semantics.claims import group_name


class Hint(StrEnum):
    """What the queue does with the pod."""

    QUEUE = "Queue"
    SKIP = "QueueSkip"


def after_claim_change(
    pod: Pod, old: object, new: object, lookup: Lookup, *, pod_groups: bool = False
) -> Hint:
    """A claim was added (`old` is None), changed or deleted (`new` is None); `lookup` knows it already."""
    before, after = _claim(old), _claim(new)
    resolved = resolve(pod, lookup, pod_groups=pod_groups)
    if resolved.problem:
        return Hint.SKIP
    held = before is not None and before.status.allocation is not None
    if held and (after is None or after.status.allocation is None):
        return Hint.QUEUE
    if after is None or all(one.metadata.uid != after.metadata.uid for one in resolved.claims):
        return Hint.SKIP
    return Hint.SKIP if before is not None and before.status == after.status else Hint.QUEUE


def after_pod_change(pod: Pod, new: object, lookup: Lookup, *, pod_groups: bool = False) -> Hint:
    """A pod's status says of more claims that were made from templates."""
    if not isinstance(new, Pod):
        raise InvalidError(f"a change of a pod came with a {type(new).__name__}")
    if new.metadata.uid != pod.metadata.uid or resolve(new, lookup, pod_groups=pod_groups).problem:
        return Hint.SKIP
    return Hint.QUEUE


def after_group_change(pod: Pod, new: object) -> Hint:
    """A PodGroup was added or changed: with the gate on, a pod of it waits until it is there."""
    if not isinstance(new, PodGroup):
        raise InvalidError(f"a change of a PodGroup came with a {type(new).__name__}")
    mine = (pod.metadata.namespace, group_name(pod))
    return Hint.QUEUE if mine == (new.metadata.namespace, new.metadata.name) else Hint.SKIP


def _claim(value: object) -> ResourceClaim | None:
    if value is None or isinstance(value, ResourceClaim):
        return value
    raise InvalidError(f"a change of a claim came with a {type(value).__name__}")
