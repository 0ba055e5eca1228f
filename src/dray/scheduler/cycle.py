"""One scheduling decision for one pod: which node, and which devices there; or why none.

Decisions are made one after the other and each is over before the next begins. What a decision takes is counted at once,
so the next one does not see it any more; `forget` gives it back when the pod could not be bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from msgspec.structs import replace

from dray.allocation.budget import UNLIMITED, Budget
from dray.allocation.faults import TimeLimitError
from dray.api.core import Node, Pod
from dray.errors import InvalidError
from dray.scheduler.claims.filter import CANNOT_ALLOCATE, Filter
from dray.scheduler.claims.groups import GroupClaim, idle_claims
from dray.scheduler.claims.outcome import Code, Status
from dray.scheduler.claims.pod_claims import NodeAllocation, PodClaims
from dray.scheduler.claims.post_filter import post_filter
from dray.scheduler.claims.pre_filter import pre_filter
from dray.scheduler.claims.reserve import Reserved, reserve
from dray.scheduler.claims.score import needs_score, normalize, score
from dray.scheduler.claims.settings import Settings
from dray.scheduler.claims.tracking import Tracker
from dray.scheduler.decision import Decision, Failed, Given, Overrun, Placed, Refused
from dray.scheduler.diagnosis import Diagnosis
from dray.scheduler.fit.filters import Fit, FitOptions
from dray.scheduler.fit.rejection import Rejection
from dray.scheduler.fit.volume_objects import Volumes
from dray.scheduler.known_refusals import Asked, KnownRefusals, asked_for
from dray.scheduler.nodes import NodeInfo, Nodes
from dray.scheduler.queue.device_hints import DYNAMIC_RESOURCES, PREEMPTION
from dray.scheduler.sampling import enough
from dray.scheduler.scoring import BEST, choose, normalised
from dray.scheduler.shapes import Shape, Shapes

FEASIBLE: Final = 100
"""So many nodes that do are enough to choose from, however large the cluster is; kube-scheduler's least number."""
_PORTION: Final = 16
_DEVICE_WEIGHT: Final = 10
"""Of the score for devices left, so that it counts more than CPU and memory."""


class Score(StrEnum):
    """Which of the nodes that do is best. KUBERNETES has kube-scheduler's scores and none for devices that are left."""

    KUBERNETES = "kubernetes"
    BEST_FIT = "best-fit"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True)
class CycleOptions:
    """`percent` of all nodes are looked for instead of `FEASIBLE` ones; 0 for the latter, -1 for as many as kube-scheduler."""

    score: Score = Score.KUBERNETES
    percent: int = 0
    seed: int = 0

    def limit(self, nodes: int) -> int:
        """How many nodes that do are enough."""
        if self.percent == 0:
            return min(nodes, FEASIBLE)
        return enough(nodes, max(self.percent, 0))


@dataclass(slots=True)
class _Looked:
    feasible: list[NodeInfo] = field(default_factory=list)
    rejected: dict[str, Rejection] = field(default_factory=dict)
    short: list[NodeInfo] = field(default_factory=list)
    error: Status | None = None


class Cycle:
    """Belongs to the one loop that decides; others feed `nodes` and `tracker` between decisions."""

    def __init__(
        self, nodes: Nodes, tracker: Tracker, settings: Settings, options: CycleOptions | None = None
    ) -> None:
        self.nodes = nodes
        self.tracker = tracker
        self._settings = settings
        self._options = options or CycleOptions()
        self.namespaces: dict[str, Mapping[str, str]] = {}
        """Their labels, kept by whoever feeds."""
        self._fit = FitOptions(namespaces=self.namespaces)
        self._shapes = Shapes(nodes, self._fit, is_packing=self._options.score is Score.BEST_FIT)
        self._class_of: object = None
        self._start = 0
        self._kept: dict[str, tuple[str, int]] = {}
        self._asked_for: Asked | None = None
        self._refusals = KnownRefusals()

    def decide(
        self,
        pod: Pod,
        now: datetime,
        budget: Budget | None = None,
        given: Given | None = None,
        *,
        is_last: bool = False,
    ) -> Decision:
        """For a pod that waits. Placed: reserved and counted; the pod is to be bound or given to `forget`.

        Overrun only where a `budget` ended before every node could be judged; with `is_last` nobody has more time, and one
        that could be is taken all the same. With `given` nothing else is looked at. Whoever runs out of Python's stack has
        overrun, too: the stack is an amount of work like any other.
        """
        try:
            return self._decide(pod, now, budget or UNLIMITED, given, is_last)
        except (TimeLimitError, RecursionError):
            return Overrun(pod)
        except InvalidError as error:
            return Failed(pod, str(error))

    def _decide(
        self, pod: Pod, now: datetime, budget: Budget, given: Given | None, is_last: bool
    ) -> Decision:
        if not len(self.nodes):
            return Refused(pod, Diagnosis(0))
        shape = self._shape(pod, budget)
        if (barred := shape.fit.barred()) is not None:
            return Refused(pod, Diagnosis(len(self.nodes), barred=barred))
        found = pre_filter(pod, self.tracker, self._settings, budget=budget)
        if found.status.code is Code.ERROR:
            return Failed(pod, found.status.reason)
        if found.status.code not in (Code.SUCCESS, Code.SKIP):
            return Refused(pod, Diagnosis(len(self.nodes), barred=_rejection(found.status)))
        asked = None
        if found.status.code is not Code.SKIP:
            only = given.devices if given is not None else None
            asked = Filter(
                found.plan,
                self.tracker,
                self._settings,
                now,
                self.nodes,
                budget=budget,
                only=only,
                is_last=is_last,
            )
        if given is not None:
            self._asked_for = None
            return self._place(pod, shape, asked, given.node)
        return self._again(pod, shape, asked) or self._place(pod, shape, asked)

    def _again(self, pod: Pod, shape: Shape, asked: Filter | None) -> Refused | None:
        """What was refused to another pod that asks for the same, if nothing has changed since: many wait for one device."""
        self._asked_for = asked_for(shape, asked) if not self._kept else None
        known = self._refusals.get(self._asked_for, self._state) if self._asked_for is not None else None
        if known is None:
            return None
        post = post_filter(asked.plan, (), self._idle(pod)) if asked is not None else None
        return Refused(pod, known.diagnosis, asked, known.short, post)

    @property
    def _state(self) -> tuple[int, int]:
        return self.nodes.generation, self.tracker.revision

    def forget(self, placed: Placed) -> None:
        """The pod was not bound. Its devices are let go by `unreserve`."""
        counted = self.nodes.pod(placed.pod.metadata.uid)
        if counted is not None and counted.spec.node_name == placed.node:
            self.nodes.remove_pod(placed.pod.metadata.uid)

    def prune(self, is_waiting: Callable[[str], bool]) -> None:
        """Forget what is kept of large pods that do not wait any more. From time to time."""
        self._shapes.prune(is_waiting)

    def set_volumes(self, volumes: Volumes) -> None:
        """The cluster's storage, kept up to date by whoever gives it. Without it, pods that need it are refused."""
        self._fit = replace(self._fit, volumes=volumes)
        self._class_of = None
        self._refusals.clear()

    def keep(self, node: str, pod: Pod) -> None:
        """Others had to leave the node for this pod: none of lower priority gets there before it."""
        self._kept[pod.metadata.uid] = (node, pod.spec.priority or 0)

    def release(self, uid: str) -> None:
        """Nothing is kept for this pod any more."""
        self._kept.pop(uid, None)

    def fit_of(self, pod: Pod, budget: Budget = UNLIMITED) -> Fit:
        """The pod's questions to nodes, for a search beyond a decision."""
        return self._shape(pod, budget).fit

    def _shape(self, pod: Pod, budget: Budget) -> Shape:
        class_of = self.tracker.catalogue.class_of
        if class_of is not self._class_of:
            self._class_of = class_of
            served = frozenset(class_of) if self._settings.extended_resource else frozenset[str]()
            self._shapes.set_options(replace(self._fit, served=served))
        return self._shapes.of(pod, budget)

    def _place(self, pod: Pod, shape: Shape, asked: Filter | None, only: str = "") -> Decision:
        kept = {node for node, priority in self._kept.values() if priority > (pod.spec.priority or 0)}
        looked = self._looked(pod, shape, asked, only)
        if asked is not None and asked.overran:
            return Overrun(pod)
        if kept:
            for info in [info for info in looked.feasible if info.name in kept]:
                looked.feasible.remove(info)
                looked.rejected[info.name] = _KEPT
        if looked.error is not None:
            return Failed(pod, looked.error.reason)
        while looked.feasible:
            made: dict[str, NodeAllocation] = {}
            try:
                sums = self._sums(shape, asked, looked.feasible, made)
            except InvalidError as error:
                return Failed(pod, str(error))
            chosen = choose(looked.feasible, sums, pod, self._options.seed)
            reserved = reserve(asked, chosen.node, made.get(chosen.name)) if asked is not None else None
            if isinstance(reserved, Status):
                if asked is not None and asked.overran:
                    return Overrun(pod)
                if reserved.code is Code.ERROR:
                    return Failed(pod, reserved.reason)
                looked.feasible.remove(chosen)
                looked.short.append(chosen)
                continue
            return self._count(pod, shape, chosen.name, reserved)
        return self._refusal(pod, asked, looked)

    def _count(self, pod: Pod, shape: Shape, node: str, reserved: Reserved | None) -> Placed:
        if reserved is not None and reserved.node_resources:
            bound = reserved.placed
            self.nodes.put_pod(bound)
        else:
            bound = replace(pod, spec=replace(pod.spec, node_name=node))
            self.nodes.place(shape.placed(bound))
        return Placed(bound, node, reserved)

    def _looked(self, pod: Pod, shape: Shape, asked: Filter | None, only: str) -> _Looked:
        if not only:
            return self._nominated(pod, shape, asked) or self._look(shape, asked)
        looked, info = _Looked(), self.nodes.get(only)
        self._ask((info,) if info is not None else (), shape, asked, looked)
        return looked

    def _nominated(self, pod: Pod, shape: Shape, asked: Filter | None) -> _Looked | None:
        """The node that was cleared for the pod, if it does by now."""
        info = self.nodes.get(pod.status.nominated_node_name) if pod.status.nominated_node_name else None
        if info is None:
            return None
        looked = _Looked()
        self._ask((info,), shape, asked, looked)
        return looked if looked.feasible else None

    def _look(self, shape: Shape, asked: Filter | None) -> _Looked:
        """Nodes from where the last look ended, in portions, until enough of them do."""
        looked = _Looked()
        only = shape.fit.required.only
        if only is not None:
            named = [info for name in sorted(only) if (info := self.nodes.get(name)) is not None]
            self._ask(named, shape, asked, looked)
            return looked
        order = self.nodes.order
        limit, total, step = self._options.limit(len(order)), len(order), 0
        start = self._start % total
        while step < total and len(looked.feasible) < limit and looked.error is None:
            size = min(max(limit - len(looked.feasible), _PORTION), total - step)
            first = (start + step) % total
            portion = order[first : first + size]
            self._ask(portion, shape, asked, looked)
            step += len(portion)
        self._start = (start + step) % total
        return looked

    def _ask(self, infos: Sequence[NodeInfo], shape: Shape, asked: Filter | None, looked: _Looked) -> None:
        fitting = []
        for info in infos:
            rejection = shape.refused(info)
            if rejection is None:
                fitting.append(info)
            else:
                looked.rejected[info.name] = rejection
        if asked is None or not fitting:
            looked.feasible += fitting
            return
        good = asked.feasible([info.node for info in fitting])
        if isinstance(good, Status):
            looked.error = good
        elif len(good) == len(fitting):
            looked.feasible += fitting
        else:
            names = set(map(id, good))
            for info in fitting:
                (looked.feasible if id(info.node) in names else looked.short).append(info)

    def _sums(
        self, shape: Shape, asked: Filter | None, nodes: Sequence[NodeInfo], made: dict[str, NodeAllocation]
    ) -> list[int]:
        if len(nodes) == 1:
            return [0]
        sums = shape.scores(nodes)
        if asked is None:
            return sums
        if needs_score(asked.plan):
            made.update(_allocations(asked, nodes))
            part = _wished(asked.plan, made)
            sums = [total + part.get(info.name, 0) for total, info in zip(sums, nodes, strict=True)]
        if self._options.score is not Score.KUBERNETES:
            left = self._left(nodes)
            sums = [total + _DEVICE_WEIGHT * one for total, one in zip(sums, left, strict=True)]
        return sums

    def _left(self, nodes: Sequence[NodeInfo]) -> list[int]:
        """By how many devices each node has left: few are best for BEST_FIT, many for SPREAD."""
        views = [self.tracker.index.view(info.node) for info in nodes]
        free = [len(view.devices) - view.in_use.bit_count() for view in views]
        return normalised(free, is_reverse=self._options.score is Score.BEST_FIT)

    def _refusal(self, pod: Pod, asked: Filter | None, looked: _Looked) -> Decision:
        places: set[int] = set()
        short: list[Node] = []
        for info in looked.short if asked is not None else ():
            answer = asked.check(info.node) if asked is not None else None
            if answer is None:
                continue
            if asked is not None and asked.overran:
                return Overrun(pod)
            if answer.status.code is Code.ERROR:
                return Failed(pod, answer.status.reason)
            status = CANNOT_ALLOCATE if answer.status.is_success else answer.status
            if status is CANNOT_ALLOCATE:
                short.append(info.node)
            places.update(answer.unavailable)
            looked.rejected[info.name] = _rejection(status)
        diagnosis = Diagnosis(len(self.nodes), looked.rejected)
        post = None
        if asked is not None:
            post = post_filter(asked.plan, places or _unused(asked.plan), self._idle(pod))
        refused = Refused(pod, diagnosis, asked, tuple(short), post)
        if self._asked_for is not None and not places:
            self._refusals.put(self._asked_for, self._state, refused)
        return refused

    def _idle(self, pod: Pod) -> tuple[GroupClaim, ...]:
        if not self._settings.workload_claims:
            return ()
        placed = (one.pod for info in self.nodes for one in info.pods.values())
        return idle_claims(pod, self.tracker.groups, self.tracker.get, placed)


def _unused(plan: PodClaims) -> set[int]:
    """Claims of the pod that hold devices, from an earlier try, while it lacks others everywhere and nobody uses them."""
    claims = enumerate(plan.claims[: plan.users])
    return {
        place for place, one in claims if one.status.allocation is not None and not one.status.reserved_for
    }


def _allocations(asked: Filter, nodes: Iterable[NodeInfo]) -> dict[str, NodeAllocation]:
    made = {}
    for info in nodes:
        found = asked.allocate(info.node)
        if not isinstance(found, Status):
            made[info.name] = found
    return made


def _wished(plan: PodClaims, made: dict[str, NodeAllocation]) -> dict[str, int]:
    """How far each node gives the claims what they like best, up to 100."""
    claims = plan.claims[: plan.users]
    found = normalize({name: score(claims, one.results) for name, one in made.items()})
    return {name: min(one, BEST) for name, one in found.items()}


_KEPT: Final = Rejection(check=PREEMPTION, reasons=("node(s) were cleared for a pod of higher priority",))
_CANNOT_ALLOCATE: Final = Rejection(check=DYNAMIC_RESOURCES, reasons=(CANNOT_ALLOCATE.reason,))


def _rejection(status: Status) -> Rejection:
    if status is CANNOT_ALLOCATE:
        return _CANNOT_ALLOCATE
    is_open = status.code is Code.UNSCHEDULABLE
    return Rejection(check=DYNAMIC_RESOURCES, reasons=(status.reason,), can_resolve=is_open)
