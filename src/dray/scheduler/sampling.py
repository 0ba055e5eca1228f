"""How many nodes are looked at for a pod, and where the look begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from dray.scheduler.fit.rejection import Rejection
from dray.scheduler.nodes import NodeInfo

_ALWAYS: Final = 100
_LEAST_PERCENT: Final = 5


def enough(nodes: int, percent: int = 0) -> int:
    """How many nodes that do are enough to choose from.

    Without a percentage the share falls from a half to a twentieth as the cluster grows.
    """
    if nodes < _ALWAYS:
        return nodes
    percent = percent or max(50 - nodes // 125, _LEAST_PERCENT)
    return max(nodes * percent // 100, _ALWAYS)


@dataclass(slots=True)
class Found:
    """The nodes that do, in the order they were met, and why the others that were looked at do not."""

    feasible: list[NodeInfo] = field(default_factory=list)
    rejected: dict[str, Rejection] = field(default_factory=dict)
    start: int = 0
    """Where the next pod's look begins, so that all nodes get their turn."""


def look(
    nodes: Sequence[NodeInfo],
    start: int,
    limit: int,
    refused: Callable[[NodeInfo], Rejection | None],
) -> Found:
    """Try nodes from `start` on, round the end, until `limit` of them do."""
    found = Found(start=start)
    for step in range(len(nodes)):
        if len(found.feasible) >= limit:
            break
        info = nodes[(start + step) % len(nodes)]
        rejection = refused(info)
        if rejection is None:
            found.feasible.append(info)
        else:
            found.rejected[info.name] = rejection
    if nodes:
        found.start = (start + len(found.feasible) + len(found.rejected)) % len(nodes)
    return found
