"""A device is never given to two claims, whatever comes in between: informers that lag, conflicts, writes whose answers
get lost or that arrive late, claims that others deallocate, delete and make anew, and a second scheduler.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dray.api.codec import to_raw
from dray.api.resource import ResourceClaim
from dray.errors import ConflictError, Error, UnavailableError
from dray.scheduler.claims import bind
from dray.scheduler.claims.filter import Filter
from dray.scheduler.claims.pre_filter import pre_filter
from dray.scheduler.claims.reserve import LINGER, Reserved, reserve, unreserve
from dray.scheduler.claims.tracking import Tracker
from dray.scheduler.claims.writes import Write
from tests.campaign import campaign
from tests.scheduler.claims.driving import DEFAULT
from tests.scheduler.claims.model_server import ModelServer
from tests.scheduler.claims.objects import (
    GPU,
    NOW,
    claim,
    container,
    device,
    device_class,
    exactly,
    node,
    pod,
    request,
    slice_of,
)

NODES = (node("worker"), node("worker-2"))
PARTS = device("parts", allowMultipleAllocations=True, capacity={"memory": {"value": "4"}})
SLICES = (
    slice_of("worker", "instance-1", PARTS),
    slice_of("worker-2", "instance-2"),
)
WHOLE = {"cel": {"expression": "!device.allowMultipleAllocations"}}
SHARED = {"cel": {"expression": "device.allowMultipleAllocations"}}
CLASSES = (device_class("my-class", resource=GPU),)
KINDS = (
    claim(request(selectors=[WHOLE])),
    claim(request(selectors=[WHOLE])),
    claim({"name": "req-1", "exactly": exactly(selectors=[SHARED], capacity={"requests": {"memory": "2"}})}),
)
NAMES = "abcd"
FATES = st.sampled_from(("stored", "stored", "refused", "answer lost", "late", "lost"))


@dataclass
class Job:
    """A pod on its way to a node: the claims yet to be written, the first of them as it was last read."""

    held: Reserved
    claims: list[ResourceClaim]
    todo: list[bind.ClaimBinding]
    current: ResourceClaim | None = None


@dataclass
class Scheduler:
    tracker: Tracker
    seen: int = 0
    jobs: list[Job] = field(default_factory=list)


class Machine(RuleBasedStateMachine):
    """One scheduler, and a server that checks nothing across claims."""

    schedulers = 1

    def __init__(self) -> None:
        super().__init__()
        self.server = ModelServer(guards=self.schedulers > 1)
        self.now = NOW
        self.late: list[Write] = []
        self.numbers = count(1)
        self.all = []
        for _ in range(self.schedulers):
            tracker = Tracker(DEFAULT)
            for one in CLASSES:
                tracker.catalogue.set_class(one)
            for piece in SLICES:
                tracker.catalogue.set_slice(piece)
            self.all.append(Scheduler(tracker))
        for name in NAMES[:3]:
            self.make_claim(name, KINDS[0])
        for scheduler in self.all:
            self._hear(scheduler, len(NAMES))

    @rule(name=st.sampled_from(NAMES), kind=st.sampled_from(KINDS))
    def make_claim(self, name: str, kind: ResourceClaim) -> None:
        if name not in self.server.claims:
            self.server.add(claim(*[_raw(kind)], name=name, uid=f"uid-{name}-{next(self.numbers)}"))

    @rule(who=st.integers(0, 1), number=st.integers(1, 3))
    def hear(self, who: int, number: int) -> None:
        """The informer gets on a little."""
        self._hear(self.all[who % len(self.all)], number)

    @rule(who=st.integers(0, 1), name=st.sampled_from(NAMES), extended=st.integers(0, 4))
    def schedule(self, who: int, name: str, extended: int) -> None:
        one = self.all[who % len(self.all)]
        containers = [container("con0", gpu=1)] if not extended else []
        user = pod(*([name] if extended else []), name=f"pod-{next(self.numbers)}", containers=containers)
        self.server.pods[user.metadata.name] = {"metadata": {"name": user.metadata.name}}
        found = pre_filter(user, one.tracker, DEFAULT)
        if not found.status.is_success:
            return
        asked = Filter(found.plan, one.tracker, DEFAULT, self.now)
        good = [place for place in NODES if asked.check(place).status.is_success]
        if good:
            held = reserve(asked, good[0])
            assert isinstance(held, Reserved), held
            one.jobs.append(Job(held, list(held.plan.claims), list(bind.bindings(held))))

    @rule(who=st.integers(0, 1), name=st.sampled_from(NAMES), fate=FATES)
    def attempt(self, who: int, name: str, fate: str) -> None:
        """A pod from the queue to the write of its devices."""
        one = self.all[who % len(self.all)]
        before = len(one.jobs)
        self.schedule(who, name, 1)
        if len(one.jobs) > before:
            self.write(who, before, 2, fate)

    @rule(who=st.integers(0, 1), number=st.integers(0, 9), steps=st.integers(1, 4), fate=FATES)
    def write(self, who: int, number: int, steps: int, fate: str) -> None:
        """Some steps of one pod go well, and the last one as fate wants."""
        one = self.all[who % len(self.all)]
        if not one.jobs:
            return
        job = one.jobs[number % len(one.jobs)]
        for step in range(steps):
            if job in one.jobs:
                self._step(one, job, fate if step == steps - 1 else "stored")

    @rule(who=st.integers(0, 1), number=st.integers(0, 9))
    def give_up(self, who: int, number: int) -> None:
        """The pod is not bound after all."""
        one = self.all[who % len(self.all)]
        if one.jobs:
            self._end(one, one.jobs[number % len(one.jobs)])

    @rule(name=st.sampled_from(NAMES), how=st.sampled_from(("touch", "deallocate", "delete", "release")))
    def meddle(self, name: str, how: str) -> None:
        raw = self.server.claims.get(name)
        if raw is None:
            return
        if how == "touch":
            self.server.change(name, labels={"touched": str(next(self.numbers))})
        elif how == "deallocate":
            self.server.change(name, status={})
        elif how == "delete":
            self.server.delete(name)
        elif raw["metadata"].get("deletionTimestamp"):
            self.server.change(name, status={})
            self.server.change(name, finalizers=[])

    @precondition(lambda self: self.late)
    @rule()
    def arrive_late(self) -> None:
        self._try(self.late.pop(0))

    @rule(seconds=st.sampled_from((1, 30, 121)))
    def wait(self, seconds: int) -> None:
        """No request is under way for longer than an allocation lingers."""
        if seconds > LINGER:
            while self.late:
                self._try(self.late.pop(0))
            for one in self.all:
                self._hear(one, len(self.server.history))
        self.now += timedelta(seconds=seconds)
        for one in self.all:
            one.tracker.drop_overdue(self.now.timestamp())

    @invariant()
    def no_device_twice(self) -> None:
        held = Counter(one for many in self.server.held().values() for one in many)
        assert not [one for one, times in held.items() if times > 1], held
        shares = [
            one
            for raw in self.server.claims.values()
            for one in raw.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
            if one.get("shareID")
        ]
        assert len(shares) <= 2 or self.schedulers > 1

    def teardown(self) -> None:
        """When everything has come to rest, every scheduler holds exactly what the server has."""
        for one in self.all:
            while one.jobs:
                self._step(one, one.jobs[0], "stored")
        self.wait(121)
        stored = {device for many in self.server.held().values() for device in many}
        for one in self.all:
            assert {tuple(device) for device in one.tracker.allocated().devices} == stored
            assert one.tracker.in_flight == ()
        self.no_device_twice()

    def _hear(self, one: Scheduler, number: int) -> None:
        for kind, news in self.server.history[one.seen : one.seen + number]:
            (one.tracker.set_claim if kind == "set" else one.tracker.remove_claim)(news)
        one.seen = min(one.seen + number, len(self.server.history))

    def _step(self, one: Scheduler, job: Job, fate: str) -> None:
        if not job.todo:
            one.jobs.remove(job)
            return
        binding = job.todo[0]
        current = job.current or binding.claim
        step = bind.next_step(binding, current, DEFAULT, self.now)
        if step.write is None:
            if step.status.is_success:
                bind.note_bound(one.tracker, binding, current, self.now.timestamp())
                job.todo.pop(0)
                job.current = None
            else:
                bind.note_failed(one.tracker, binding)
                self._end(one, job)
            return
        try:
            got = self._send(step.write, fate)
            assert isinstance(got, ResourceClaim)
            job.current = job.claims[binding.place] = got
        except ConflictError:
            self._read_again(one, job, binding, step.write)
        except Error as error:
            bind.note_error(one.tracker, binding, current, step.write, error, self.now.timestamp())
            self._end(one, job)

    def _read_again(self, one: Scheduler, job: Job, binding: bind.ClaimBinding, write: Write) -> None:
        try:
            job.current = self.server.get(write.name)
        except Error:
            bind.note_failed(one.tracker, binding)
            self._end(one, job)

    def _send(self, write: Write, fate: str) -> object:
        if fate == "refused":
            raise ConflictError("somebody wrote first")
        if fate == "late":
            self.late.append(write)
        if fate in ("lost", "late"):
            raise UnavailableError("no answer")
        got = self.server.send(write)
        if fate == "answer lost":
            raise UnavailableError("no answer")
        return got

    def _end(self, one: Scheduler, job: Job) -> None:
        one.jobs.remove(job)
        for write in unreserve(job.held, job.claims, one.tracker, self.now.timestamp()):
            self._try(write)

    def _try(self, write: Write) -> None:
        try:
            self.server.send(write)
        except Error:
            return


class Pair(Machine):
    """Two schedulers that share the devices, and a server that refuses a device that another claim holds."""

    schedulers = 2


def _raw(kind: ResourceClaim) -> dict[str, object]:
    found: dict[str, object] = to_raw(kind)["spec"]["devices"]["requests"][0]
    return found


SIZE = settings(
    max_examples=campaign(45, 3000),
    stateful_step_count=campaign(40, 80),
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
TestOneScheduler = Machine.TestCase
TestOneScheduler.settings = SIZE
TestTwoSchedulers = Pair.TestCase
TestTwoSchedulers.settings = SIZE
