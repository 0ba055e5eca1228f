"""Pods that ask the same of nodes: what one of them found out about a node holds for the next, until the node changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from dray.allocation.budget import UNLIMITED, Spending
from dray.api.codec import encode
from dray.api.core import Pod
from dray.scheduler.fit import disks, taints
from dray.scheduler.fit.filters import Fit, FitOptions
from dray.scheduler.fit.rejection import NODE_AFFINITY, TAINT_TOLERATION, Rejection
from dray.scheduler.nodes import NodeInfo, Nodes, PlacedPod
from dray.scheduler.scoring import WEIGHTS, Wish, balanced, has_preferences, least_allocated, normalised

KEPT_SHAPES: Final = 64
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

    def __init__(
        self, pod: Pod, fit: Fit, wish: Wish, *, is_shared: bool = False, is_packing: bool = False
    ) -> None:
        self.is_shared = is_shared
        """Whether it stands for other pods, too."""
        self.fit = fit
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

    def refused(self, info: NodeInfo, budget: Spending = UNLIMITED) -> Rejection | None:
        """The first check that is against the node; remembered. Raises TimeLimitError."""
        known = self._known.get(info)
        if known is None or known.generation != info.generation:
            if self._weight:
                budget.charge(self._weight)
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
        self._kept: dict[bytes, Shape] = {}

    def set_options(self, options: FitOptions) -> None:
        """What fit depends on beside nodes and pods has changed: all is looked at anew."""
        self.options = options
        self._kept.clear()

    def of(self, pod: Pod, budget: Spending = UNLIMITED) -> Shape:
        """The shape of a pod, which others of its kind may have made. Raises TimeLimitError."""
        if self._minds_others(pod, budget):
            return self._new(pod, budget, is_shared=False)
        kept, key = self._kept, _key(pod)
        shape = kept.get(key)
        if shape is None:
            if len(kept) >= KEPT_SHAPES:
                del kept[next(iter(kept))]
            shape = kept[key] = self._new(pod, budget, is_shared=True)
        shape.trim(len(self._nodes))
        return shape

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

    def _new(self, pod: Pod, budget: Spending, *, is_shared: bool) -> Shape:
        fit = Fit.of(pod, self._nodes, self.options, budget)
        wish = Wish.of(pod, compare_numbers=self.options.compare_numbers, budget=budget)
        return Shape(pod, fit, wish, is_shared=is_shared, is_packing=self._is_packing)


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
