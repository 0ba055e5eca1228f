"""Any order of calls: no pod is lost, none is in two places, none is tried twice at once, and no news passes by in vain."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dray.scheduler.queue.happenings import Action, Happening
from dray.scheduler.queue.hints import Hints, Interest
from dray.scheduler.queue.queue import SchedulingQueue
from dray.scheduler.queue.waiting import Place, QueueOptions
from tests.campaign import campaign
from tests.scheduler.objects import make_pod

CHECKS = ("One", "Two")
NAMES = st.sampled_from([f"p{number}" for number in range(6)])
REJECTORS = st.sets(st.sampled_from(CHECKS))
HINTS: Hints = {
    **{check: [Interest(check, Action.ADD)] for check in CHECKS},
    "SchedulingGates": [
        Interest(
            "Pod", Action.POD_GATES_GONE, lambda pod, one: getattr(one.new, "metadata", None) is not None
        )
    ],
}


class QueueMachine(RuleBasedStateMachine):
    """`alive` are the pods that wait, `tried` those in flight with the news since; both as the rules below have it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.alive: dict[str, bool] = {}
        self.tried: dict[str, set[str]] = {}
        self.gone: set[str] = set()
        self.bound: set[str] = set()

    @initialize(is_eager=st.booleans())
    def start(self, is_eager: bool) -> None:
        self.queue = SchedulingQueue(HINTS, options=QueueOptions(is_eager=is_eager))
        for name in ("p0", "p1", "p2"):
            self.queue.put(make_pod(name), self.now)
            self.alive[name] = False

    @rule(name=NAMES, is_gated=st.sampled_from([False, False, True]), priority=st.integers(0, 2))
    def put(self, name: str, is_gated: bool, priority: int) -> None:
        if name in self.alive:
            is_gated, priority = is_gated and self.alive[name], 0
        gates = [{"name": "x"}] if is_gated else []
        self.queue.put(make_pod(name, schedulingGates=gates, priority=priority), self.now)
        if name not in self.bound:
            self.alive[name] = is_gated
        self.gone.discard(name)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.queue.delete(name)
        self.alive.pop(name, None)
        self.bound.discard(name)
        if name in self.tried:
            self.gone.add(name)

    @rule()
    def pop(self) -> None:
        pod = self.queue.pop(self.now)
        if pod is not None:
            name = pod.metadata.name
            assert name in self.alive and name not in self.tried and not pod.spec.scheduling_gates
            self.tried[name] = set()

    @precondition(lambda self: self.tried)
    @rule(data=st.data(), rejectors=REJECTORS)
    def failed(self, data: st.DataObject, rejectors: set[str]) -> None:
        self._end(data.draw(st.sampled_from(sorted(self.tried))), rejectors)

    @rule(rejectors=REJECTORS, news=st.lists(st.sampled_from(CHECKS), max_size=2))
    def tried_while_things_happen(self, rejectors: set[str], news: list[str]) -> None:
        pod = self.queue.pop(self.now)
        if pod is not None:
            self.tried[pod.metadata.name] = set()
            for check in news:
                self._happens(check)
            self._end(pod.metadata.name, rejectors)

    def _end(self, name: str, rejectors: set[str]) -> None:
        news = self.tried.pop(name)
        self.queue.failed(name, self.now, rejectors)
        if name in self.gone:
            self.gone.discard(name)
            return
        waiting = self.queue.get(name)
        assert waiting is not None
        may_help = not rejectors or bool(rejectors & news)
        assert self.alive[name] or (waiting.place is not Place.UNSCHEDULABLE) is may_help

    @precondition(lambda self: self.tried)
    @rule(data=st.data())
    def succeeded(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.tried)))
        del self.tried[name]
        self.queue.bound(name)
        if name in self.gone:
            self.gone.discard(name)
        else:
            self.bound.add(name)
        self.alive.pop(name, None)

    @rule(check=st.sampled_from(CHECKS))
    def happened(self, check: str) -> None:
        self._happens(check)

    def _happens(self, check: str) -> None:
        self.queue.happened(Happening(check, Action.ADD), self.now)
        for news in self.tried.values():
            news.add(check)
        for waiting in self.queue:
            if waiting.place is Place.UNSCHEDULABLE and waiting.gate is None:
                assert check not in waiting.rejectors

    @rule(name=NAMES)
    def activate(self, name: str) -> None:
        self.queue.activate(name, self.now)
        if name in self.tried:
            self.tried[name].update(CHECKS)

    @rule(seconds=st.sampled_from([0.3, 1.0, 5.0, 400.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.queue.flush(self.now)

    @invariant()
    def each_pod_is_in_one_place(self) -> None:
        places = {waiting.uid: waiting.place for waiting in self.queue}
        assert set(places) == set(self.alive) | self.bound | self.gone
        assert {uid for uid, where in places.items() if where is Place.IN_FLIGHT} == set(self.tried)
        assert {uid for uid, where in places.items() if where is Place.BOUND} == self.bound
        counts = self.queue.counts()
        assert sum(counts.values()) + len(self.bound) == len(places)
        for where, count in counts.items():
            assert count == list(places.values()).count(where)

    @invariant()
    def timers_are_ahead(self) -> None:
        self.queue.flush(self.now)
        due = self.queue.next_due()
        assert due is None or due > self.now

    def teardown(self) -> None:
        """In the end every pod without a gate gets its turn, however long it waited."""
        waiting = {name for name, is_gated in self.alive.items() if not is_gated} - set(self.tried)
        self.now += 1000
        found = set()
        while (pod := self.queue.pop(self.now)) is not None:
            assert pod.metadata.name not in found
            found.add(pod.metadata.name)
        assert found == waiting


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(max_examples=campaign(60, 5_000), stateful_step_count=40)
