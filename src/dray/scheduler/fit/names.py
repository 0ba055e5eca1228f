"""The node that a pod names itself."""

from __future__ import annotations

from typing import Final

from dray.api.core import Node, Pod
from dray.scheduler.fit.rejection import NODE_NAME, Rejection

_REFUSED: Final = Rejection(check=NODE_NAME, reasons=("node(s) didn't match the requested node name",))


def refused(pod: Pod, node: Node) -> Rejection | None:
    """Whether the pod has another node's name. A pod that waits for a scheduler has none, as a rule."""
    return _REFUSED if pod.spec.node_name not in ("", node.metadata.name) else None
