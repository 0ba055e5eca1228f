"""What happened in the cluster, told so that a waiting pod can judge whether it is better off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Flag, auto
from typing import Final, Literal

from dray.allocation.cluster.workloads import has_ended
from dray.api.core import Node, Pod
from dray.api.core.node import NodeCondition
from dray.scheduler.requests import resizing, taken_quantities

POD: Final = "Pod"
NODE: Final = "Node"
ANY: Final = "*"


class Action(Flag):
    """What changed about an object. One happening may have several."""

    NOTHING = 0
    ADD = auto()
    DELETE = auto()
    NODE_ALLOCATABLE = auto()
    NODE_LABEL = auto()
    NODE_TAINT = auto()
    """Taints, or the node was opened again."""
    NODE_CONDITION = auto()
    NODE_ANNOTATION = auto()
    NODE_FEATURE = auto()
    POD_LABEL = auto()
    POD_SCALE_DOWN = auto()
    POD_TOLERATION = auto()
    POD_GATES_GONE = auto()
    POD_CLAIMS = auto()
    """Names of generated claims appeared in the status."""
    OTHER = auto()
    """Something else, or of another kind of object: only those who want every update hear of it."""
    UPDATE = (
        NODE_ALLOCATABLE
        | NODE_LABEL
        | NODE_TAINT
        | NODE_CONDITION
        | NODE_ANNOTATION
        | NODE_FEATURE
        | POD_LABEL
        | POD_SCALE_DOWN
        | POD_TOLERATION
        | POD_GATES_GONE
        | POD_CLAIMS
        | OTHER
    )


@dataclass(frozen=True, slots=True)
class Happening:
    """A change of one object. `kind` is its kind (claims and slices come here, too), `old` and `new` its states.

    Kind `*` is no object's change: every pod shall be tried again.
    """

    kind: str
    action: Action
    old: object = None
    new: object = None


TIME_TO_TRY: Final = Happening(ANY, Action.UPDATE)
"""A pod has waited so long that it is tried again, whatever happened or did not."""


def node_happening(old: Node | None, new: Node | None) -> Happening | None:
    """What a node's change may mean to pods; None where it means nothing to any of them."""
    if old is None or new is None:
        return Happening(NODE, Action.ADD if old is None else Action.DELETE, old, new)
    action = Action.NOTHING
    for one in _node_actions(old, new):
        action |= one
    return Happening(NODE, action, old, new) if action else None


def _node_actions(old: Node, new: Node) -> Iterator[Action]:
    if (old.spec.unschedulable and not new.spec.unschedulable) or old.spec.taints != new.spec.taints:
        yield Action.NODE_TAINT
    if old.status.allocatable != new.status.allocatable:
        yield Action.NODE_ALLOCATABLE
    if old.metadata.labels != new.metadata.labels:
        yield Action.NODE_LABEL
    if _statuses(old.status.conditions) != _statuses(new.status.conditions):
        yield Action.NODE_CONDITION
    if old.metadata.annotations != new.metadata.annotations:
        yield Action.NODE_ANNOTATION
    if old.status.declared_features != new.status.declared_features:
        yield Action.NODE_FEATURE


def _statuses(conditions: tuple[NodeCondition, ...]) -> dict[str, str]:
    return {one.type: one.status for one in conditions}


def pod_happening(old: Pod | None, new: Pod | None) -> Happening | None:
    """What a pod's change may mean to others, and to itself while it waits.

    A pod that ends frees its node as if it were deleted, and one that gets a node is new there.
    """
    was, now = _place(old), _place(new)
    if was == now == "gone":
        return None
    if now == "gone" or old is None or (was, now) == ("waiting", "placed"):
        return Happening(
            POD, Action.DELETE if now == "gone" else Action.ADD, old, None if now == "gone" else new
        )
    if new is None:
        return None
    action = Action.NOTHING
    for one in _pod_actions(old, new):
        action |= one
    return Happening(POD, action or Action.OTHER, old, new)


def _place(pod: Pod | None) -> Literal["gone", "waiting", "placed"]:
    if pod is None or has_ended(pod):
        return "gone"
    return "placed" if pod.spec.node_name else "waiting"


def _pod_actions(old: Pod, new: Pod) -> Iterator[Action]:
    if old.metadata.labels != new.metadata.labels:
        yield Action.POD_LABEL
    if _has_shrunk(old, new):
        yield Action.POD_SCALE_DOWN
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        yield Action.POD_GATES_GONE
    if len(old.spec.tolerations) != len(new.spec.tolerations):
        yield Action.POD_TOLERATION
    before, after = old.status, new.status
    if (before.resource_claim_statuses, before.extended_resource_claim_status) != (
        after.resource_claim_statuses,
        after.extended_resource_claim_status,
    ):
        yield Action.POD_CLAIMS


def _has_shrunk(old: Pod, new: Pod) -> bool:
    if old.spec == new.spec and resizing(old) == resizing(new):
        return False
    after = taken_quantities(new)
    return any(
        name not in after or amount.milli_value() > after[name].milli_value()
        for name, amount in taken_quantities(old).items()
    )
