"""The scheduler: pods that wait are decided one by one and written many at once. All it knows comes from the API server.

    informers → `Feed` → nodes, tracker, queue → `Cycle` decides → `Binder` writes → API server
                                              ↘ `Teller` says why not

It may be ended and started at any moment: what was not written was never decided.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from dray.allocation.budget import Budget
from dray.allocation.faults import TimeLimitError
from dray.allocation.profiles import CORRECT
from dray.api.core import Pod
from dray.api.meta import Model
from dray.api.resource.claim import ResourceClaim
from dray.client.client import Client
from dray.client.informer import Journal
from dray.client.rate_limit import RateLimit
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.logs import get_log
from dray.runtime.metrics import Metrics
from dray.runtime.quarantine import PLACE, Quarantine, object_key
from dray.scheduler import events
from dray.scheduler.apart import Apart, ApartOptions
from dray.scheduler.binding import Binder, Bindings
from dray.scheduler.claims.settings import Settings
from dray.scheduler.claims.tracking import ClaimChange, Tracker
from dray.scheduler.cycle import Cycle, CycleOptions
from dray.scheduler.decision import Decision, Failed, Given, Overrun, Placed, Refused
from dray.scheduler.diagnosis import Diagnosis
from dray.scheduler.events import Teller
from dray.scheduler.feeding import Feed
from dray.scheduler.fit.filters import gated
from dray.scheduler.metrics import ERROR, SCHEDULED, UNSCHEDULABLE, SchedulerMetrics
from dray.scheduler.nodes import Nodes
from dray.scheduler.preempting import Preempting
from dray.scheduler.queue.device_hints import DYNAMIC_RESOURCES, claims_gate, device_hints
from dray.scheduler.queue.hints import fit_hints
from dray.scheduler.queue.queue import SchedulingQueue
from dray.scheduler.queue.waiting import Place, QueueOptions
from dray.scheduler.reasons import Reasons
from dray.scheduler.sources import Sources
from dray.scheduler.storage import volume_hints
from dray.scheduler.taking_back import Taker
from dray.scheduler.writing import Writer

_log = get_log("scheduler")

TURN: Final = 0.005
"""Seconds of decisions after which others get their turn in the loop."""
TICK: Final = 0.25
_LEAST_TICK: Final = 0.02
_SLOW_GATE: Final = 5.0
"""Seconds after which a pod that is kept out of the queue is told why."""


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """`name` is what pods have as `schedulerName`, or one of `also`. `in_flight`: so many pods are written at once. `drain`:
    seconds that writes under way get when it ends. `state_dir`: where pods are noted that end the process; None: nowhere."""

    name: str = "dray"
    also: tuple[str, ...] = ()
    settings: Settings = field(default_factory=lambda: Settings.of_gates(CORRECT))
    cycle: CycleOptions = field(default_factory=CycleOptions)
    queue: QueueOptions = field(default_factory=QueueOptions)
    in_flight: int = 64
    preempt: bool = False
    apart: ApartOptions = field(default_factory=ApartOptions)
    state_dir: Path | None = None
    events: RateLimit = field(default_factory=lambda: RateLimit(50.0, 25))
    drain: float = 8.0


async def run(
    client: Client,
    config: SchedulerConfig,
    *,
    metrics: Metrics | None = None,
    clock: Clock | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Until cancelled; then no more decisions are made, and those under way are written. `ready`: everything was listed once."""
    await Scheduler(client, config, metrics or Metrics(), clock or SystemClock()).run(ready)


class Scheduler:
    """Made for one `run`."""

    def __init__(self, client: Client, config: SchedulerConfig, metrics: Metrics, clock: Clock) -> None:
        settings = config.settings
        self._config, self._clock = config, clock
        self._tracker = Tracker(settings)
        self._cycle = Cycle(Nodes(), self._tracker, settings, config.cycle)
        place = config.state_dir / PLACE if config.state_dir is not None else None
        self._quarantine = Quarantine(place, clock)
        self._teller = Teller(client, config.name, clock, self._current, config.events)
        journal = Journal(self._quarantine, self._teller.leave, _may_leave)
        self._sources = Sources(client, settings, clock, preempt=config.preempt, journal=journal)
        lookup, groups = self._tracker.get, settings.workload_claims
        hints = {
            **fit_hints(served=lambda: frozenset(self._tracker.catalogue.class_of)),
            **device_hints(lookup, pod_groups=groups),
            **volume_hints(),
        }
        self._queue = SchedulingQueue(hints, (gated, claims_gate(lookup, pod_groups=groups)), config.queue)
        self._bindings = Bindings(config.in_flight)
        self._writer = Writer(client, clock)
        self._binder = Binder(
            self._writer,
            self._tracker,
            settings,
            self._bindings,
            self._obstacle,
            self._tell_pending,
            self._confirm,
            lambda old, new: self._feed.claim_news(ClaimChange(old, new)),
        )
        self._wake = asyncio.Event()
        self._feed = Feed(
            frozenset({config.name, *config.also}),
            self._cycle,
            self._queue,
            self._sources.pods,
            clock,
            self._wake.set,
            self._bindings.claim_changed,
        )
        self._apart = Apart(config.apart, clock)
        self._metrics = SchedulerMetrics(metrics, config.name)
        self._metrics.watch(self._queue, self._bindings, self._teller, self._apart, self._quarantine)
        self._preempting = Preempting(self._cycle, self._writer, self._teller, self._sources.budgets)
        self._reasons = Reasons(clock)
        self._group: asyncio.TaskGroup = asyncio.TaskGroup()

    async def run(self, ready: Callable[[], None]) -> None:
        """Until cancelled."""
        if self._config.state_dir is None:
            _log.warning("objects that end the scheduler are not set aside: it was given no --state-dir")
        with self._quarantine:
            await self._sources.look()
            await self._run(ready)

    async def _run(self, ready: Callable[[], None]) -> None:
        async with self._sources, self._group as group:
            talk = group.create_task(self._teller.run(), name="events")
            self._sources.feed(self._feed)
            tick = group.create_task(self._tick(), name="tick")
            _log.info("ready", name=self._config.name, nodes=len(self._cycle.nodes), **self._sources.counts)
            ready()
            try:
                await self._decide()
            finally:
                tick.cancel()
                await self._drain()
                talk.cancel()
                await self._teller.flush(1.0)

    async def _drain(self) -> None:
        """Writes under way are finished, as far as that does not take too long."""
        try:
            async with asyncio.timeout(self._config.drain):
                while self._bindings.writing:
                    self._wake.clear()
                    await self._wake.wait()
        except TimeoutError:
            _log.warning("ended with writes under way", pods=self._bindings.writing)

    async def _decide(self) -> None:
        while True:
            ends = self._clock.monotonic() + TURN
            while self._bindings.has_room and (pod := self._queue.pop(self._clock.monotonic())) is not None:
                self._try(pod)
                if self._clock.monotonic() >= ends:
                    await asyncio.sleep(0)
                    ends = self._clock.monotonic() + TURN
            self._wake.clear()
            await self._wake.wait()

    def _try(self, pod: Pod) -> None:
        key = _key(pod)
        if why := self._quarantine.why(key):
            self._failed(Failed(pod, why))
        elif not self._apart.is_needed(pod):
            with self._quarantine.handling(key):
                started = self._clock.monotonic()
                decision = self._cycle.decide(pod, self._clock.now(), self._apart.budget(pod))
                self._metrics.deciding.observe(self._clock.monotonic() - started)
                self._take(decision, started)
        elif self._apart.is_due(pod):
            self._begin(pod, self._try_apart(pod), "decide")
        else:
            self._queue.failed(pod.metadata.uid, self._clock.monotonic())

    def _begin(self, pod: Pod, work: Coroutine[Any, Any, None], what: str) -> None:
        """A task for the pod, beside the decisions."""
        steps = self._quarantine.steps(_key(pod), work)
        self._group.create_task(steps, name=f"{what} {pod.metadata.uid}")

    async def _try_apart(self, pod: Pod) -> None:
        """Other pods are decided meanwhile: what was chosen is looked at once more before it is taken."""
        started, now = self._clock.monotonic(), self._clock.now()
        found = await self._apart.decide(pod, lambda budget: self._explained(pod, now, budget))
        if not isinstance(found, Given):
            self._take(found, started)
        elif isinstance(checked := self._check(pod, found), Placed):
            self._take(checked, started)
        elif isinstance(checked, Overrun):
            self._take(self._apart.unchecked(pod, found.node), started)
        else:  # another pod was faster
            self._queue.failed(pod.metadata.uid, self._clock.monotonic())
        self._wake.set()

    def _explained(self, pod: Pod, now: datetime, budget: Budget) -> Decision:
        """In the copy, which may take its time for reasons, too."""
        decision = self._cycle.decide(pod, now, budget, is_last=True)
        if not isinstance(decision, Refused):
            return decision
        victims = self._preempting.search(decision, budget) if self._may_preempt(decision) else None
        return replace(decision, victims=victims, why=self._reasons.of(decision, budget))

    def _may_preempt(self, refused: Refused) -> bool:
        """A claim that gives back devices of no use comes first."""
        return self._config.preempt and not (refused.post is not None and refused.post.writes)

    def _check(self, pod: Pod, given: Given) -> Decision:
        return self._cycle.decide(pod, self._clock.now(), self._apart.check_budget(), given)

    def _take(self, decision: Decision, started: float) -> None:
        uid = decision.pod.metadata.uid
        if isinstance(decision, Placed):
            self._apart.forget(uid)
            self._bindings.writing += 1
            self._begin(decision.pod, self._bind(decision, started), "bind")
            return
        if isinstance(decision, Refused) and self._refused(decision):
            pass
        elif isinstance(decision, Refused | Overrun):
            self._apart.overran(decision.pod)
            self._queue.failed(uid, self._clock.monotonic())
            self._wake.set()
        else:
            self._failed(decision)
        result = UNSCHEDULABLE if isinstance(decision, Refused) else ERROR
        self._metrics.ended(result, self._clock.monotonic() - started)

    async def _bind(self, placed: Placed, started: float) -> None:
        uid = placed.pod.metadata.uid
        try:
            reason = await self._binder.bind(placed)
        finally:
            self._bindings.writing -= 1
        now = self._clock.monotonic()
        self._metrics.ended(ERROR if reason else SCHEDULED, now - started)
        if reason:
            self._unbound(placed, reason)
        else:
            waiting = self._queue.get(uid)
            if waiting is not None:
                self._metrics.bound(waiting.attempts.tries, now - waiting.came)
            self._queue.bound(uid)
            self._preempting.forget(uid)
            self._teller.tell(events.scheduled(placed.pod, placed.node))
        self._wake.set()

    def _unbound(self, placed: Placed, reason: str) -> None:
        """Back into the queue, after a pause. What is counted for the pod follows what the server says of it."""
        meta = placed.pod.metadata
        _log.warning("pod not bound", pod=f"{meta.namespace}/{meta.name}", node=placed.node, reason=reason)
        self._cycle.forget(placed)
        known = self._sources.pods.by_key((meta.namespace, meta.name))
        if known is not None and known.metadata.uid == meta.uid and known.spec.node_name:
            self._cycle.nodes.put_pod(known)
        self._queue.failed(meta.uid, self._clock.monotonic())
        self._feed.released(placed)
        if known is not None and not known.spec.node_name:
            self._teller.tell(events.refused(known, reason, is_error=True))

    def _refused(self, refused: Refused) -> bool:
        """False where whom to end for the pod could not be found in time: then it is decided anew, with more."""
        pod, chosen = refused.pod, None
        try:
            if self._may_preempt(refused):
                chosen = self._preempting.choose(refused, self._apart.budget(pod))
        except (TimeLimitError, RecursionError):
            return False
        message = str(refused.diagnosis)
        if why := refused.why or self._reasons.of(refused, self._apart.budget(pod)):
            message = f"{message} {why}"
        self._queue.failed(pod.metadata.uid, self._clock.monotonic(), refused.diagnosis.rejectors)
        if refused.post is not None and refused.post.writes:
            self._begin(pod, self._settle(refused), "post filter")
        elif chosen is not None:
            self._metrics.preemptions.inc()
            self._metrics.victims.inc(len(chosen.pods))
            self._begin(pod, self._preempting.end(pod, chosen), "preempt")
        nominated: str | None = None
        if (victims := self._preempting.pending(pod)) is not None:
            nominated = victims.node
            message = f"{message} preemption: {len(victims.pods)} pod(s) on {victims.node} make room"
        self._teller.tell(events.refused(pod, message, nominated=nominated))
        return True

    async def _settle(self, refused: Refused) -> None:
        """A claim gives back devices of no use; its change brings the pod back."""
        if refused.post is not None:
            pod = refused.pod
            writes, is_wanted = refused.post.writes, lambda: self._current(pod) is not None
            await Taker(self._writer).take(pod, writes, is_wanted=is_wanted)

    def _failed(self, failed: Failed) -> None:
        self._queue.failed(failed.pod.metadata.uid, self._clock.monotonic())
        self._teller.tell(events.refused(failed.pod, failed.reason, is_error=True))

    def _current(self, pod: Pod) -> Pod | None:
        """The pod as it is now, while it waits."""
        meta = pod.metadata
        known = self._sources.pods.by_key((meta.namespace, meta.name))
        if known is None or known.metadata.uid != meta.uid or known.spec.node_name:
            return None
        waiting = self._queue.get(meta.uid)
        is_waiting = waiting is not None and waiting.place not in (Place.IN_FLIGHT, Place.BOUND)
        return known if is_waiting else None

    def _obstacle(self, placed: Placed) -> str:
        meta = placed.pod.metadata
        known = self._sources.pods.by_key((meta.namespace, meta.name))
        if known is None or known.metadata.uid != meta.uid or known.metadata.deletion_timestamp is not None:
            return "the pod got deleted in the meantime"
        if known.spec.node_name not in ("", placed.node):
            return f"the pod got bound to node {known.spec.node_name} in the meantime"
        if self._cycle.nodes.get(placed.node) is None:
            return f"node {placed.node} is gone"
        return ""

    def _confirm(self, uid: str, claim: ResourceClaim) -> None:
        self._group.create_task(self._binder.confirm(uid, claim), name=f"confirm {claim.metadata.uid}")

    def _tell_pending(self, placed: Placed) -> None:
        text = f"waiting for binding conditions of devices on {placed.node}"
        self._teller.tell(events.Word(placed.pod, "Normal", events.CONDITIONS_PENDING, text))

    async def _tick(self) -> None:
        """What only time brings about: backoffs end, lost writes are given up, pods kept out are told why."""
        told: set[str] = set()
        while True:
            due = self._queue.next_due()
            left = TICK if due is None else due - self._clock.monotonic()
            await self._clock.sleep(min(max(left, _LEAST_TICK), TICK))
            for claim in self._tracker.drop_overdue(self._clock.monotonic()):
                self._feed.claim_news(ClaimChange(claim, None))
            self._tell_gated(told)
            self._preempting.prune(lambda uid: self._queue.get(uid) is not None)
            self._apart.prune(lambda uid: self._queue.get(uid) is not None)
            self._cycle.prune(lambda uid: self._queue.get(uid) is not None)
            self._wake.set()

    def _tell_gated(self, told: set[str]) -> None:
        late = self._clock.monotonic() - _SLOW_GATE
        held = {
            one.uid: one
            for one in self._queue
            if one.gate is not None and one.gate.check == DYNAMIC_RESOURCES and one.since < late
        }
        told &= held.keys()
        for uid in sorted(held.keys() - told):
            told.add(uid)
            message = str(Diagnosis(len(self._cycle.nodes), barred=held[uid].gate))
            self._teller.tell(events.refused(held[uid].pod, message))


def _may_leave(one: Model) -> bool:
    """Not a claim that holds devices: who does not see it gives them to others."""
    return not (isinstance(one, ResourceClaim) and one.status.allocation is not None)


def _key(pod: Pod) -> str:
    meta = pod.metadata
    return object_key("pods", meta.namespace, meta.name, meta.uid, meta.controller_uid)
