"""What a check says when it keeps a pod off a node, or out of the queue."""

from __future__ import annotations

from typing import Final

import msgspec

SCHEDULING_GATES: Final = "SchedulingGates"
NODE_UNSCHEDULABLE: Final = "NodeUnschedulable"
NODE_NAME: Final = "NodeName"
TAINT_TOLERATION: Final = "TaintToleration"
NODE_AFFINITY: Final = "NodeAffinity"
NODE_PORTS: Final = "NodePorts"
NODE_RESOURCES_FIT: Final = "NodeResourcesFit"
INTER_POD_AFFINITY: Final = "InterPodAffinity"
POD_TOPOLOGY_SPREAD: Final = "PodTopologySpread"
VOLUME_BINDING: Final = "VolumeBinding"
VOLUME_RESTRICTIONS: Final = "VolumeRestrictions"
VOLUME_ZONE: Final = "VolumeZone"


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """Expected, so a value and no error. `check` has the name of kube-scheduler's plugin: hints are found by it.

    `can_resolve` tells whether the node could do once other pods leave it (Unschedulable, and not
    UnschedulableAndUnresolvable).
    """

    check: str
    reasons: tuple[str, ...]
    can_resolve: bool = False

    def __str__(self) -> str:
        return ", ".join(self.reasons)
