"""Taints, and nodes that an administrator has closed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dray.api.core import Node
from dray.api.taints import Effect, Taint, Toleration, is_tolerated, untolerated
from dray.scheduler.fit.rejection import NODE_UNSCHEDULABLE, TAINT_TOLERATION, Rejection

CLOSED: Final = Taint(key="node.kubernetes.io/unschedulable", effect=Effect.NO_SCHEDULE)
"""What a pod must tolerate to go to a node with `spec.unschedulable`, whether or not the node has the taint."""

_REFUSED: Final = Rejection(check=TAINT_TOLERATION, reasons=("node(s) had untolerated taint(s)",))
_CLOSED: Final = Rejection(check=NODE_UNSCHEDULABLE, reasons=("node(s) were unschedulable",))


def refused(
    tolerations: Sequence[Toleration], node: Node, *, compare_numbers: bool = False
) -> Rejection | None:
    """Whether a taint with NoSchedule or NoExecute is not tolerated.

    `compare_numbers` is the gate TaintTolerationComparisonOperators, alpha and off in 1.36.
    """
    taints = node.spec.taints
    if not taints or not untolerated(taints, tolerations, compare_numbers=compare_numbers):
        return None
    return _REFUSED


def closed(
    tolerations: Sequence[Toleration], node: Node, *, compare_numbers: bool = False
) -> Rejection | None:
    """Whether the node is cordoned and the pod minds."""
    if not node.spec.unschedulable or is_tolerated(CLOSED, tolerations, compare_numbers=compare_numbers):
        return None
    return _CLOSED


def avoided(tolerations: Sequence[Toleration], node: Node, *, compare_numbers: bool = False) -> int:
    """How many PreferNoSchedule taints the pod does not tolerate: the fewer, the better the node."""
    if not node.spec.taints:
        return 0
    soft = (Effect.PREFER_NO_SCHEDULE,)
    return len(untolerated(node.spec.taints, tolerations, effects=soft, compare_numbers=compare_numbers))
