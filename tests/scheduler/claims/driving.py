"""One scheduling cycle from PreEnqueue to PreBind, against the model server, with what each step said."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from dray.allocation.allocator import Options
from dray.allocation.features import features_for
from dray.allocation.profiles import KUBERNETES_1_36
from dray.api.codec import to_raw
from dray.api.core import Node, Pod
from dray.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from dray.api.scheduling import PodGroup
from dray.errors import ConflictError, Error
from dray.scheduler.claims import bind
from dray.scheduler.claims.filter import Filter, NodeFilter
from dray.scheduler.claims.groups import idle_claims
from dray.scheduler.claims.outcome import SUCCESS, Code, Status, failure
from dray.scheduler.claims.pod_claims import NodeAllocation
from dray.scheduler.claims.post_filter import PostFiltered, post_filter
from dray.scheduler.claims.pre_enqueue import pre_enqueue
from dray.scheduler.claims.pre_filter import pre_filter
from dray.scheduler.claims.reserve import Reserved, reserve, unreserve
from dray.scheduler.claims.score import normalize, score
from dray.scheduler.claims.settings import Settings
from dray.scheduler.claims.tracking import Tracker
from dray.scheduler.claims.writes import Write
from dray.scheduler.nodes import Nodes
from dray.semantics.features import parse_feature_gates
from tests.scheduler.claims.model_server import ModelServer
from tests.scheduler.claims.objects import NOW, device_class, node


def settings_with(
    gates: str = "",
    *,
    extended: bool = True,
    step_limit: int = 200_000,
    groups: bool = False,
    node_resources: bool = False,
) -> Settings:
    features = features_for(KUBERNETES_1_36, parse_feature_gates(gates))
    options = Options(features, KUBERNETES_1_36, step_limit=step_limit)
    return Settings.of(
        options, extended_resource=extended, workload_claims=groups, node_allocatable=node_resources
    )


DEFAULT = settings_with()


@dataclass
class Cycle:
    """What happened. A step that was not reached has no entry."""

    tracker: Tracker
    server: ModelServer
    enqueued: Status = SUCCESS
    prefiltered: Status = SUCCESS
    filtered: dict[str, Status] = field(default_factory=dict)
    scores: dict[str, int] = field(default_factory=dict)
    postfiltered: PostFiltered | None = None
    reserved: Reserved | None = None
    in_flight: list[str] = field(default_factory=list)
    bound: Status | None = None
    writes: list[Write] = field(default_factory=list)

    def claim(self, name: str = "my-claim") -> ResourceClaim:
        """As the server has it."""
        return self.server.get(name)

    @property
    def devices(self) -> list[str]:
        """What the claims got, in order."""
        assert self.reserved is not None
        results = (self.reserved.allocations[place] for place in sorted(self.reserved.allocations))
        return [f"{one.request}={one.device}" for result in results for one in result.devices.results]


@dataclass
class World:
    """A cluster whose tracker has seen everything. `before_bind` is somebody else at work before PreBind."""

    claims: Sequence[ResourceClaim] = ()
    slices: Sequence[ResourceSlice] = ()
    classes: Sequence[DeviceClass] = (device_class(),)
    nodes: Sequence[Node] = (node(),)
    groups: Sequence[PodGroup] = ()
    placed: Sequence[Pod] = ()
    settings: Settings = DEFAULT
    now: datetime = NOW
    before_bind: Callable[[ModelServer], None] = lambda server: None
    before_filter: Callable[[Tracker], None] = lambda tracker: None
    fails: Callable[[Write], Error | None] = lambda write: None
    fails_to_bind: bool = False
    """After PreBind."""

    def drive(self, pod: Pod) -> Cycle:
        """Takes the pod as far as it gets."""
        cycle = self.start()
        cycle.server.pods[pod.metadata.name] = to_raw(pod)
        cycle.enqueued = pre_enqueue(pod, cycle.tracker.get, pod_groups=self.settings.workload_claims)
        if not cycle.enqueued.is_success:
            return cycle
        found = pre_filter(pod, cycle.tracker, self.settings)
        cycle.prefiltered = found.status
        if not found.status.is_success:
            return cycle
        asked = Filter(found.plan, cycle.tracker, self.settings, self.now, self.node_infos())
        self._filter(cycle, asked)
        return cycle

    def node_infos(self) -> Nodes:
        """With the pods that are on them."""
        found = Nodes()
        for one in self.nodes:
            found.put_node(one)
        for pod in self.placed:
            found.put_pod(pod)
        return found

    def start(self) -> Cycle:
        server = ModelServer()
        tracker = Tracker(self.settings)
        for one in self.classes:
            tracker.catalogue.set_class(one)
        for piece in self.slices:
            tracker.catalogue.set_slice(piece)
        for group in self.groups:
            tracker.groups.set_group(group)
        for claim in self.claims:
            tracker.set_claim(server.add(claim))
        self.before_filter(tracker)
        return Cycle(tracker, server)

    def _filter(self, cycle: Cycle, asked: Filter) -> None:
        answers: dict[str, NodeFilter] = {one.metadata.name: asked.check(one) for one in self.nodes}
        cycle.filtered = {name: one.status for name, one in answers.items()}
        good = [one for one in self.nodes if cycle.filtered[one.metadata.name].is_success]
        if any(one.code is Code.ERROR for one in cycle.filtered.values()):
            return
        if not good:
            places = {place for one in answers.values() for place in one.unavailable}
            tracker, placed = cycle.tracker, self.placed
            idle = idle_claims(asked.plan.pod, tracker.groups, tracker.get, placed)
            idle = idle if self.settings.workload_claims else ()
            cycle.postfiltered = post_filter(asked.plan, places, idle)
            self._send(cycle, cycle.postfiltered.writes)
            return
        made = {one.metadata.name: asked.allocate(one) for one in good}
        scores = {}
        for name, one in made.items():
            assert isinstance(one, NodeAllocation)
            scores[name] = score(asked.plan.claims[: asked.plan.users], one.results)
        cycle.scores = normalize(scores)
        best = max(good, key=lambda one: cycle.scores[one.metadata.name])
        taken = made[best.metadata.name]
        assert isinstance(taken, NodeAllocation)
        held = reserve(asked, best, taken)
        assert isinstance(held, Reserved), held
        cycle.reserved = held
        cycle.in_flight = sorted(one.claim.metadata.name for one in cycle.tracker.in_flight)
        self.prebind(cycle, held)

    def prebind(self, cycle: Cycle, held: Reserved) -> None:
        self.before_bind(cycle.server)
        claims = list(held.plan.claims)
        cycle.bound = SUCCESS
        for binding in bind.bindings(held):
            claim, status = self._bind_one(cycle, binding)
            claims[binding.place] = claim
            if not status.is_success:
                cycle.bound = status
                break
        if cycle.bound.is_success and (write := bind.pod_write(held)) is not None:
            try:
                self._send(cycle, (write,))
            except Error as error:
                cycle.bound = failure(str(error))
        if cycle.bound.is_success and self.fails_to_bind:
            cycle.bound = failure("binding failed")
        if not cycle.bound.is_success:
            self._send(cycle, unreserve(held, claims, cycle.tracker, self.now.timestamp()))

    def _bind_one(self, cycle: Cycle, binding: bind.ClaimBinding) -> tuple[ResourceClaim, Status]:
        claim = binding.claim
        try:
            while (step := bind.next_step(binding, claim, self.settings, self.now)).write is not None:
                try:
                    got = self._send(cycle, (step.write,))
                except ConflictError:
                    claim = cycle.server.get(claim.metadata.name)
                    continue
                assert isinstance(got, ResourceClaim)
                claim = got
            status = step.status
            if status.is_success:
                bind.note_bound(cycle.tracker, binding, claim, self.now.timestamp())
                if (last := bind.last_write(binding, claim)) is not None:
                    self._send(cycle, (last,))
                return claim, status
        except Error as error:
            status = failure(str(error))
        bind.note_failed(cycle.tracker, binding)
        return claim, status

    def _send(self, cycle: Cycle, writes: Iterable[Write]) -> ResourceClaim | Pod | None:
        got = None
        for write in writes:
            cycle.writes.append(write)
            if (error := self.fails(write)) is not None:
                raise error
            got = cycle.server.send(write)
        return got
