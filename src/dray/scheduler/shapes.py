"""Pods that ask the same of nodes: what one of them found out about a node holds for the next, until the node changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Final, NamedTuple

from dray.allocation.budget import UNLIMITED, Spending
from dray.api.codec import encode
from dray.api.core import Pod
from dray.cel.memo import Memo
from dray.scheduler.fit import disks, taints
from dray.scheduler.fit.filters import Fit, FitOptions
from dray.scheduler.fit.rejection import NODE_AFFINITY, TAINT_TOLERATION, Rejection
from dray.scheduler.nodes import NodeInfo, Nodes, PlacedPod
from dray.scheduler.scoring import WEIGHTS, Wish, balanced, has_preferences, least_allocated, normalised

_NODE: Final = 128
"""Bytes that are kept for what a shape found out about a node."""
KEPT_BYTES: Final = 32 << 20
"""Of all shapes, roughly."""
_GROWTH: Final = 12
"""So many bytes are kept for each byte that a pod says of nodes."""
_LARGE: Final = 16 << 10
"""Shapes of pods that say more are forgotten with the last pod that waits and has them."""
_DIGEST: Final = 16
_SMALL: Final = 1024
"""What a pod says of nodes is its own digest up to so many bytes."""
_LIGHT: Final = 64
"""Conditions that a node is compared with in microseconds: no budget is asked for them."""
_BOUND_SOMEWHERE: Final = frozenset({"persistentVolumeClaim", "ephemeral", *disks.KINDS})
"""Kinds of volumes whose checks look at the cluster's storage, or at other pods."""


class _Known(NamedTuple):
    """What was found out about a node when it had this generation. `plain` are the scores that look at no other node."""

    generation: int
    rejection: Rejection | None
    avoided: int = 0
    preferred: int = 0
    plain: int = 0


class Shape:
    """One kind of pod. Make it with `Shapes.of`."""

    def __init__(self, pod: Pod, fit: Fit, wish: Wish, *, key: bytes = b"", is_packing: bool = False) -> None:
        self.key = key
        """The same for all pods that it stands for; empty where that is one pod, in one try."""
        self.fit = fit
        self.budget: Spending = UNLIMITED
        """Of the decision that has it now."""
        self._wish = wish
        self._placed = PlacedPod.of(pod)
        self._known: dict[NodeInfo, _Known] = {}
        self._has_preferences = has_preferences(pod)
        self._has_balance = any(wish.asked)
        self._sign = -1 if is_packing else 1
        weight = fit.weight + wish.preferred.size
        self._weight = weight if weight > _LIGHT else 0

    def placed(self, pod: Pod) -> PlacedPod:
        """What a pod of this shape takes on its node."""
        return replace(self._placed, pod=pod)

    def refused(self, info: NodeInfo) -> Rejection | None:
        """The first check that is against the node; remembered. Raises TimeLimitError."""
        known = self._known.get(info)
        if known is None or known.generation != info.generation:
            if self._weight:
                self.budget.charge(self._weight)
            known = self._known[info] = self._look(info)
        return known.rejection

    def scores(self, nodes: Sequence[NodeInfo]) -> list[int]:
        """Weighted sums, one for each node; all of them were not refused just now. InvalidError: as `Wish.fault` says."""
        if self._wish.fault is not None:
            raise self._wish.fault.with_traceback(None)
        known = [self._known[info] for info in nodes]
        sums = [one.plain for one in known]
        avoided = [one.avoided for one in known]
        if any(avoided):
            weight, part = WEIGHTS[TAINT_TOLERATION], normalised(avoided, is_reverse=True)
            sums = [total + weight * one for total, one in zip(sums, part, strict=True)]
        if self._has_preferences:
            weight, part = WEIGHTS[NODE_AFFINITY], normalised([one.preferred for one in known])
            sums = [total + weight * one for total, one in zip(sums, part, strict=True)]
        return sums

    def trim(self, nodes: int) -> None:
        """Forget everything once most of it is about nodes that are gone."""
        if len(self._known) > 2 * nodes + 100:
            self._known.clear()

    def _look(self, info: NodeInfo) -> _Known:
        rejection = self.fit.refused(info)
        if rejection is not None:
            return _Known(info.generation, rejection)
        wish = self._wish
        plain = self._sign * least_allocated(wish.use, info)
        if self._has_balance:
            plain += balanced(wish.asked, info)
        avoided = taints.avoided(wish.pod.spec.tolerations, info.node, compare_numbers=wish.compare_numbers)
        preferred = wish.preferred.weight(info.node) if self._has_preferences else 0
        return _Known(info.generation, None, avoided, preferred, plain)


class Shapes:
    """The kinds of pods seen last. `is_packing` turns the score for free CPU and memory round: fuller nodes first."""

    def __init__(self, nodes: Nodes, options: FitOptions | None = None, *, is_packing: bool = False) -> None:
        self.options = options or FitOptions()
        self._nodes = nodes
        self._is_packing = is_packing
        self._kept: Memo[bytes, Shape] = Memo(KEPT_BYTES)
        self._large: dict[str, bytes] = {}

    def set_options(self, options: FitOptions) -> None:
        """What fit depends on beside nodes and pods has changed: all is looked at anew."""
        self.options = options
        self._kept.clear()
        self._large.clear()

    def of(self, pod: Pod, budget: Spending = UNLIMITED) -> Shape:
        """The shape of a pod, which others of its kind may have made. Raises TimeLimitError."""
        if self._minds_others(pod, budget):
            return self._with(self._new(pod, budget, b""), budget)
        read = _key(pod)
        key = read if len(read) <= _SMALL else blake2b(read, digest_size=_DIGEST).digest()
        shape = self._kept.get(key)
        if shape is None:
            shape = self._new(pod, budget, key)
            self._kept.put(key, shape, _GROWTH * len(read) + _NODE * len(self._nodes))
        if len(read) > _LARGE:
            self._large[pod.metadata.uid] = key
        shape.trim(len(self._nodes))
        return self._with(shape, budget)

    def _with(self, shape: Shape, budget: Spending) -> Shape:
        shape.budget = budget
        return shape

    def prune(self, is_waiting: Callable[[str], bool]) -> None:
        """Forget large shapes that no pod which waits has."""
        gone = [uid for uid in self._large if not is_waiting(uid)]
        dropped = {self._large.pop(uid) for uid in gone}
        for key in dropped.difference(self._large.values()):
            self._kept.pop(key)

    def _minds_others(self, pod: Pod, budget: Spending) -> bool:
        """Whether the answer depends on where other pods are: it is good for one try only."""
        affinity, spec = pod.spec.affinity, pod.spec
        has_terms = affinity is not None and bool(affinity.pod_affinity or affinity.pod_anti_affinity)
        return (
            has_terms
            or bool(spec.topology_spread_constraints)
            or self._nodes.existing_terms.is_about(pod, self.options.namespaces, budget)
            or any(not _BOUND_SOMEWHERE.isdisjoint(volume) for volume in spec.volumes)
        )

    def _new(self, pod: Pod, budget: Spending, key: bytes) -> Shape:
        fit = Fit.of(pod, self._nodes, self.options, budget)
        wish = Wish.of(pod, compare_numbers=self.options.compare_numbers, budget=budget)
        return Shape(pod, fit, wish, key=key, is_packing=self._is_packing)


def _key(pod: Pod) -> bytes:
    """All that checks and scores read of a pod without volumes that only some nodes reach."""
    spec = pod.spec
    return encode(
        (
            [(one.resources, one.ports) for one in spec.containers],
            [(one.resources, one.ports, one.restart_policy) for one in spec.init_containers],
            (spec.node_name, spec.node_selector, spec.tolerations, spec.affinity),
            (spec.overhead, spec.resources),
        )
    )
