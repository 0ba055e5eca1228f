"""Which of the nodes that do is best: kube-scheduler's scores and weights, 0 to 100 each.

Spreading over zones, wishes about other pods and images that a node has already are not scored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from dray.allocation.budget import UNLIMITED, Spending
from dray.allocation.faults import TimeLimitError
from dray.api.core import Pod
from dray.errors import InvalidError
from dray.scheduler.fit import taints
from dray.scheduler.fit.rejection import NODE_AFFINITY, NODE_RESOURCES_FIT, TAINT_TOLERATION
from dray.scheduler.fit.selectors import Preferred
from dray.scheduler.nodes import NodeInfo
from dray.scheduler.requests import CPU, MEMORY, ScoredUse, scored_wish, taken

BEST: Final = 100
BALANCED_ALLOCATION: Final = "NodeResourcesBalancedAllocation"
WEIGHTS: Final[Mapping[str, int]] = {
    TAINT_TOLERATION: 3,
    NODE_AFFINITY: 2,
    NODE_RESOURCES_FIT: 1,
    BALANCED_ALLOCATION: 1,
}


@dataclass(frozen=True, slots=True)
class Wish:
    """What of a pod counts for scores, worked out once. Make it with `Wish.of`. `fault`: a preferred term cannot be read,
    which matters once there is a choice between nodes."""

    pod: Pod
    use: ScoredUse
    asked: ScoredUse
    preferred: Preferred
    compare_numbers: bool = False
    fault: InvalidError | None = None

    @staticmethod
    def of(pod: Pod, *, compare_numbers: bool = False, budget: Spending = UNLIMITED) -> Wish:
        """No error but TimeLimitError: see `fault`."""
        takes = taken(pod)
        asked = ScoredUse(takes.get(CPU, 0), takes.get(MEMORY, 0))
        preferred, fault = Preferred(), None
        try:
            preferred = Preferred.of(pod, budget)
        except TimeLimitError:
            raise
        except InvalidError as error:
            fault = error
        return Wish(pod, scored_wish(pod), asked, preferred, compare_numbers, fault)


def scores(wish: Wish, nodes: Sequence[NodeInfo]) -> dict[str, list[int]]:
    """By check, one score a node. A check that has nothing to say about the pod is left out."""
    tolerations = wish.pod.spec.tolerations
    avoided = [taints.avoided(tolerations, info.node, compare_numbers=wish.compare_numbers) for info in nodes]
    found = {
        TAINT_TOLERATION: normalised(avoided, is_reverse=True),
        NODE_RESOURCES_FIT: [least_allocated(wish.use, info) for info in nodes],
    }
    if has_preferences(wish.pod):
        found[NODE_AFFINITY] = normalised([wish.preferred.weight(info.node) for info in nodes])
    if any(wish.asked):
        found[BALANCED_ALLOCATION] = [balanced(wish.asked, info) for info in nodes]
    return found


def has_preferences(pod: Pod) -> bool:
    """Whether the pod has wishes about nodes, even ones that no node can meet."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    return affinity is not None and bool(affinity.preferred)


def normalised(raw: Sequence[int], *, is_reverse: bool = False) -> list[int]:
    """Stretched so that the largest gets 100; reversed where less is better."""
    most = max(raw, default=0)
    if most == 0:
        return [BEST if is_reverse else 0] * len(raw)
    return [BEST - BEST * one // most if is_reverse else BEST * one // most for one in raw]


def least_allocated(use: ScoredUse, info: NodeInfo) -> int:
    """How much of the node would be left, as the mean of CPU and memory."""
    cpu, memory = info.allocatable.get(CPU, 0), info.allocatable.get(MEMORY, 0)
    left = _left(cpu, info.scored.cpu + use.cpu) + _left(memory, info.scored.memory + use.memory)
    return left // 2 if cpu and memory else left


def _left(has: int, used: int) -> int:
    return BEST * (has - used) // has if has and used <= has else 0


def balanced(asked: ScoredUse, info: NodeInfo) -> int:
    """Whether CPU and memory would be used more evenly with the pod (towards 100) or less (towards 50)."""
    cpu, memory = info.allocatable.get(CPU, 0), info.allocatable.get(MEMORY, 0)
    if not cpu or not memory:
        return BEST // 2 + BEST // 4
    used_cpu, used_memory = info.requested.get(CPU, 0), info.requested.get(MEMORY, 0)
    before = _evenness(used_cpu / cpu, used_memory / memory)
    after = _evenness((used_cpu + asked.cpu) / cpu, (used_memory + asked.memory) / memory)
    return BEST // 2 + (BEST // 2 + after - before) // 2


def _evenness(cpu: float, memory: float) -> int:
    return int((1 - abs((min(cpu, 1.0) - min(memory, 1.0)) / 2)) * BEST)


def totals(
    parts: Mapping[str, Sequence[int]], weights: Mapping[str, int] = WEIGHTS, *, nodes: int
) -> list[int]:
    """The weighted sums, one a node. `parts` may hold scores of other checks, such as the devices'."""
    sums = [0] * nodes
    for check, part in parts.items():
        weight = weights.get(check, 1)
        sums = [total + weight * one for total, one in zip(sums, part, strict=True)]
    return sums


def choose(nodes: Sequence[NodeInfo], sums: Sequence[int], pod: Pod, seed: int = 0) -> NodeInfo:
    """The node with the largest sum. Of several, one by lot: the same pod, nodes and seed give the same one."""
    best = max(sums)
    equal = {info.name: info for info, one in zip(nodes, sums, strict=True) if one == best}
    lot = int.from_bytes(blake2b(f"{seed}/{pod.metadata.uid}".encode(), digest_size=8).digest())
    return equal[sorted(equal)[lot % len(equal)]]
