"""Preemption (`--preempt`): which pods of lower priority would have to go so that a pod fits, devices included.

Kubernetes does not do this for devices. Pure: the smallest choice on the best node comes out, somebody else deletes.
Devices of a claim become free when all its users are victims; the claim controller takes them back when these are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import field as named

from dray.allocation.allocator import Allocator
from dray.allocation.budget import UNLIMITED, Budget
from dray.allocation.cluster.situation import in_use, with_allocated
from dray.allocation.faults import AllocationError, NodeAllocationError, StepLimitError
from dray.api.core import Node, Pod
from dray.api.kinds import Resource
from dray.api.meta import Int32, Model, ObjectMeta, always
from dray.api.resource.claim import ResourceClaim
from dray.api.selectors import LabelSelector, compile_label_selector
from dray.errors import InvalidError
from dray.scheduler.claims.filter import Filter
from dray.scheduler.claims.tracking import Tracker
from dray.scheduler.decision import Refused
from dray.scheduler.fit.filters import Fit
from dray.scheduler.nodes import NodeInfo, Nodes, PlacedPod
from dray.semantics.pools import PoolID

MOST_NODES: Final = 100
"""So many nodes where it would help are compared."""
_LOOK: Final = 4
"""What it costs a budget to look at a pod or a claim once more."""
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


class PodDisruptionBudgetSpec(Model, frozen=True, kw_only=True):
    """Which pods it protects."""

    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Model, frozen=True, kw_only=True):
    """How many of them may go now."""

    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, Any] = named(default_factory=dict)


class PodDisruptionBudget(Model, frozen=True, kw_only=True):
    """How many pods of an application may be disturbed at once (policy/v1)."""

    api_version: str = named(default_factory=always("policy/v1"))
    kind: str = named(default_factory=always("PodDisruptionBudget"))
    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


BUDGETS: Final = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, PodDisruptionBudget, has_status=True
)


@dataclass(frozen=True, slots=True)
class Victims:
    """Who must leave the node. `violations` of them are protected by a budget that allows no more."""

    node: str
    pods: tuple[Pod, ...]
    violations: int = 0

    @property
    def cost(self) -> tuple[Any, ...]:
        """The less the better: budgets broken, the most important victim, all their importance, their number, their age."""
        priorities = [priority(pod) for pod in self.pods]
        most = max(priorities)
        oldest = min(_started(pod) for pod in self.pods if priority(pod) == most)
        # Offset, so that many unimportant victims do not count less than one.
        total = sum(one + 2**31 for one in priorities)
        return (self.violations, most, total, len(self.pods), -oldest.timestamp(), self.node)


def priority(pod: Pod) -> int:
    """The admitted value; none is 0."""
    return pod.spec.priority or 0


def may_preempt(pod: Pod) -> bool:
    """Whether others may be sent away for it at all."""
    return pod.spec.preemption_policy != "Never"


def choose_victims(
    refused: Refused,
    fit: Fit,
    nodes: Nodes,
    tracker: Tracker,
    budgets: Iterable[PodDisruptionBudget] = (),
    time: Budget = UNLIMITED,
) -> Victims | None:
    """The best node with the fewest victims, or None where nobody of lower priority is in the way.

    Only nodes are looked at that lack resources or devices; what no eviction changes (taints, labels) stays against them.
    A node where the search for devices was stopped is left out: nobody is sent away for a pod that may not fit. Raises
    TimeLimitError where the `time` for all of it is over; then nobody is chosen.
    """
    pod = refused.pod
    if not may_preempt(pod):
        return None
    short = {node.metadata.name for node in refused.short}
    devices = _Devices.of(tracker, nodes, time) if refused.asked is not None else None
    trial = _Trial(pod, fit, refused.asked, devices, tuple(budgets), time)
    found: list[Victims] = []
    for name, rejection in sorted(refused.diagnosis.rejected.items()):
        info = nodes.get(name)
        if info is None or not (rejection.can_resolve or name in short):
            continue
        time.check()
        try:
            victims = trial.on(info)
        except StepLimitError:
            time.check()
            continue
        if victims is not None:
            found.append(victims)
            if len(found) >= MOST_NODES:
                break
    return min(found, key=lambda one: one.cost, default=None)


@dataclass(frozen=True, slots=True)
class _Devices:
    """All claims that hold devices, by pool, so that one node is judged without a look at the claims of others."""

    allocator: Allocator
    tracker: Tracker
    nodes: Nodes
    time: Budget
    by_pool: Mapping[PoolID, Sequence[ResourceClaim]] = field(default_factory=dict)

    @staticmethod
    def of(tracker: Tracker, nodes: Nodes, time: Budget) -> _Devices:
        by_pool: dict[PoolID, list[ResourceClaim]] = {}
        for claim in (*tracker.claims, *(one.claim for one in tracker.in_flight)):
            time.charge(_LOOK)
            results = claim.status.allocation.devices.results if claim.status.allocation else ()
            for pool in {PoolID(one.driver, one.pool) for one in results}:
                by_pool.setdefault(pool, []).append(claim)
        return _Devices(tracker.index.allocator(), tracker, nodes, time, by_pool)

    def fit(self, node: Node, wanted: Sequence[ResourceClaim], gone: frozenset[str]) -> bool:
        """Whether the claims fit on the node once these pods are gone."""
        pools = self.tracker.index.view(node).pools
        held = {
            claim.metadata.uid: claim
            for pool in pools
            for claim in self.by_pool.get(pool.id, ())
            if not self._is_freed(claim, gone)
        }
        self.time.charge(_LOOK * len(held))
        state = in_use(held.values(), self.allocator.rules.features)
        try:
            return with_allocated(self.allocator, state).allocate(node, wanted, self.time) is not None
        except StepLimitError:
            raise
        except (AllocationError, NodeAllocationError):
            return False

    def _is_freed(self, claim: ResourceClaim, gone: frozenset[str]) -> bool:
        """Once its users are gone. Those of earlier preemptions are: nobody has taken the claim back yet."""
        users = [one.uid for one in claim.status.reserved_for]
        return bool(users) and all(uid in gone or self.nodes.pod(uid) is None for uid in users)


@dataclass(frozen=True, slots=True)
class _Trial:
    """What one pod needs, asked of node after node."""

    pod: Pod
    check: Fit
    asked: Filter | None
    devices: _Devices | None
    budgets: tuple[PodDisruptionBudget, ...]
    time: Budget

    def on(self, info: NodeInfo) -> Victims | None:
        """Without all pods of lower priority; then as many as can stay are put back, the most important first."""
        own = priority(self.pod)
        lower = [one for one in info.pods.values() if priority(one.pod) < own]
        if not lower or not self._fits(info, lower):
            return None
        self.time.charge(_LOOK * len(lower) * len(self.budgets))
        protected = _protected([one.pod for one in lower], self.budgets)
        order = sorted(
            lower,
            key=lambda one: (
                one.pod.metadata.uid not in protected,
                -priority(one.pod),
                _started(one.pod),
                one.pod.metadata.uid,
            ),
        )
        victims = list(order)
        for one in order:
            fewer = [other for other in victims if other is not one]
            if self._fits(info, fewer):
                victims = fewer
        if not victims:
            return None  # it fits by now
        pods = tuple(one.pod for one in victims)
        broken = sum(1 for pod in pods if pod.metadata.uid in protected)
        return Victims(info.name, pods, broken)

    def _fits(self, info: NodeInfo, without: Sequence[PlacedPod]) -> bool:
        self.time.charge(_LOOK * len(info.pods) + self.check.weight)
        gone = frozenset(one.pod.metadata.uid for one in without)
        left = NodeInfo.of(info.node)
        for uid, placed in info.pods.items():
            if uid not in gone:
                left.put(placed)
        if self.check.refused(left) is not None:
            return False
        wanted = self.asked.claims_for(info.node) if self.asked is not None else ()
        if not wanted:
            return True
        return self.devices is not None and self.devices.fit(info.node, wanted, gone)


def _protected(pods: Sequence[Pod], budgets: Iterable[PodDisruptionBudget]) -> frozenset[str]:
    """Uids of the pods that a budget does not let go beyond those it does."""
    found: set[str] = set()
    order = sorted(pods, key=lambda pod: (-priority(pod), _started(pod), pod.metadata.uid))
    for budget in budgets:
        left = budget.status.disruptions_allowed
        for pod in order:
            if not _covers(budget, pod) or pod.metadata.name in budget.status.disrupted_pods:
                continue
            left -= 1
            if left < 0:
                found.add(pod.metadata.uid)
    return frozenset(found)


def _covers(budget: PodDisruptionBudget, pod: Pod) -> bool:
    if budget.metadata.namespace != pod.metadata.namespace or budget.spec.selector is None:
        return False
    try:
        return compile_label_selector(budget.spec.selector).matches(pod.metadata.labels)
    except InvalidError:
        return True  # nobody knows whom it means: rather one too many


def _started(pod: Pod) -> datetime:
    return pod.status.start_time or pod.metadata.creation_timestamp or _LONG_AGO
