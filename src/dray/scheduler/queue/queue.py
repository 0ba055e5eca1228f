"""The pods that wait: active (to be tried now), backing off, unschedulable until something helps, and in flight.

Time is given with each call, in seconds, and must not go backwards. One task owns the queue; nothing in it waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum

from dray.api.core import Pod
from dray.errors import InvariantError
from dray.scheduler.fit.filters import gated
from dray.scheduler.fit.rejection import Rejection
from dray.scheduler.queue.happenings import ANY, TIME_TO_TRY, Action, Happening, pod_happening
from dray.scheduler.queue.hints import Hints, helped, is_for_all, listeners
from dray.scheduler.queue.in_flight import InFlight
from dray.scheduler.queue.ranked import Ranked
from dray.scheduler.queue.unschedulable import Unschedulable
from dray.scheduler.queue.waiting import Attempts, Place, QueueOptions, Waiting

PreEnqueue = Callable[[Pod], Rejection | None]


class _Urgency(IntEnum):
    NONE = 0
    AFTER_BACKOFF = 1
    NOW = 2


class SchedulingQueue:
    """Each pod is in exactly one place. `pre_enqueue` are asked before a pod may be tried; the first refusal counts."""

    def __init__(
        self, hints: Hints, pre_enqueue: Iterable[PreEnqueue] = (gated,), options: QueueOptions | None = None
    ) -> None:
        self._hints = hints
        self._pre_enqueue = tuple(pre_enqueue)
        self._options = options or QueueOptions()
        self._pods: dict[str, Waiting] = {}
        self._active: Ranked[str] = Ranked()
        self._backoff: Ranked[str] = Ranked()
        self._errors: Ranked[str] = Ranked()
        self._unschedulable = Unschedulable()
        self._in_flight = InFlight()

    def __iter__(self) -> Iterator[Waiting]:
        """Every pod that is known, for status and tests; not to be changed."""
        return iter(tuple(self._pods.values()))

    def get(self, uid: str) -> Waiting | None:
        """One of them."""
        return self._pods.get(uid)

    def gated(self) -> int:
        """How many of the unschedulable ones are kept out of the queue before any node is asked."""
        return sum(1 for uid in self._unschedulable.all() if self._pods[uid].gate is not None)

    def counts(self) -> dict[Place, int]:
        """How many pods are where."""
        return {
            Place.ACTIVE: len(self._active),
            Place.BACKOFF: len(self._backoff) + len(self._errors),
            Place.UNSCHEDULABLE: len(self._unschedulable),
            Place.IN_FLIGHT: len(self._in_flight),
        }

    def put(self, pod: Pod, now: float) -> None:
        """A pod without a node came or changed. The same again is harmless."""
        waiting = self._pods.get(pod.metadata.uid)
        if waiting is None:
            waiting = self._pods[pod.metadata.uid] = Waiting(pod, now, Attempts(), came=now)
            self._requeue(waiting, _Urgency.NOW, now)
            return
        happening = pod_happening(waiting.pod, pod)
        waiting.pod, waiting.is_gone = pod, False
        if happening is None:
            return
        if waiting.place is Place.UNSCHEDULABLE:
            self._wake(waiting, happening, now)
        elif waiting.place is Place.IN_FLIGHT:
            self._in_flight.happened(happening)

    def delete(self, uid: str) -> None:
        """A pod is gone, has ended, or its binding was seen. One in flight is forgotten when its try is over."""
        waiting = self._pods.get(uid)
        if waiting is None:
            return
        if waiting.place is Place.IN_FLIGHT:
            waiting.is_gone = True
        else:
            self._leave(waiting)
            del self._pods[uid]

    def pop(self, now: float) -> Pod | None:
        """The next pod to try, if there is one. Its try ends with `bound` or `failed`."""
        self.flush(now)
        uid = self._active.pop()
        if uid is None and self._options.is_eager:
            uid = self._backoff.pop()
        if uid is None:
            return None
        waiting = self._pods[uid]
        waiting.place = Place.IN_FLIGHT
        waiting.attempts.tries += 1
        self._in_flight.start(uid)
        return waiting.pod

    def bound(self, uid: str) -> None:
        """The try found a node and the binding is written. `delete` follows when it is seen, if it was not seen yet."""
        waiting, _ = self._end(uid)
        waiting.place = Place.BOUND
        if waiting.is_gone:
            del self._pods[uid]

    def failed(
        self, uid: str, now: float, rejectors: Iterable[str] = (), pending: Iterable[str] = ()
    ) -> None:
        """The try found no node because of these checks; without any it was an error, and the pod backs off.

        What happened during the try counts as if it happened now.
        """
        waiting, meanwhile = self._end(uid)
        if waiting.is_gone:
            del self._pods[uid]
            return
        waiting.pending = frozenset(pending)
        waiting.rejectors = frozenset(rejectors) | waiting.pending
        waiting.since = now
        if waiting.rejectors:
            waiting.attempts.refusals, waiting.attempts.errors = waiting.attempts.refusals + 1, 0
        else:
            waiting.attempts.errors += 1
        least = _Urgency.NONE if waiting.rejectors else _Urgency.AFTER_BACKOFF
        urgency = max((least, *(self._urgency(waiting, happening) for happening in meanwhile)))
        self._requeue(waiting, urgency, now)

    def happened(self, happening: Happening, now: float, only: Iterable[str] | None = None) -> None:
        """Something changed in the cluster: wake those that it may help; those in flight hear of it when their try is over.

        `only` are the uids of the pods that it may help at all, where the caller knows: then no others are asked.
        """
        checks = frozenset(listeners(self._hints, happening))
        for_all = is_for_all(happening)
        if not checks and not for_all:
            return
        for uid in self._hearing(checks, for_all=for_all) if only is None else only:
            waiting = self._pods.get(uid)
            if waiting is None or waiting.place is not Place.UNSCHEDULABLE:
                continue
            if for_all or waiting.gate is None or waiting.gate.check in checks:
                self._wake(waiting, happening, now)
        self._in_flight.happened(happening)

    def _hearing(self, checks: Iterable[str], *, for_all: bool) -> tuple[str, ...]:
        return self._unschedulable.all() if for_all else self._unschedulable.waiting_for(sorted(checks))

    def activate(self, uid: str, now: float) -> None:
        """Someone knows that the pod shall be tried, whatever it waited for. Gates hold it all the same."""
        waiting = self._pods.get(uid)
        if waiting is None:
            return
        if waiting.place is Place.IN_FLIGHT:
            self._in_flight.happened(Happening(ANY, Action.UPDATE, new=waiting.pod))
        elif waiting.place in (Place.BACKOFF, Place.UNSCHEDULABLE):
            self._requeue(waiting, _Urgency.NOW, now)

    def flush(self, now: float) -> None:
        """Move what is due: pods whose backoff is over, and those that nothing has helped for too long. `pop` does it, too."""
        for heap in (self._backoff, self._errors):
            while (first := heap.first()) is not None and first[1][0] <= now:
                self._requeue(self._pods[first[0]], _Urgency.NOW, now)
        for uid in self._unschedulable.waiting_since(now - self._options.longest_wait):
            self._wake(self._pods[uid], TIME_TO_TRY, now)

    def next_due(self) -> float | None:
        """When `flush` has something to do; None while nothing waits for a time."""
        times = [first[1][0] for heap in (self._backoff, self._errors) if (first := heap.first())]
        if (oldest := self._unschedulable.oldest()) is not None:
            times.append(oldest + self._options.longest_wait)
        return min(times, default=None)

    def _end(self, uid: str) -> tuple[Waiting, tuple[Happening, ...]]:
        waiting = self._pods.get(uid)
        if waiting is None or waiting.place is not Place.IN_FLIGHT:
            raise InvariantError(f"the try of pod {uid} ended, but there was none")
        return waiting, self._in_flight.end(uid)

    def _urgency(self, waiting: Waiting, happening: Happening) -> _Urgency:
        if is_for_all(happening):
            meant = happening.new
            is_other = isinstance(meant, Pod) and meant.metadata.uid != waiting.uid
            return _Urgency.NONE if is_other else _Urgency.AFTER_BACKOFF
        if not waiting.rejectors:
            return _Urgency.AFTER_BACKOFF
        checks = set(helped(self._hints, waiting.rejectors, waiting.pod, happening))
        if not checks:
            return _Urgency.NONE
        return _Urgency.AFTER_BACKOFF if checks.isdisjoint(waiting.pending) else _Urgency.NOW

    def _wake(self, waiting: Waiting, happening: Happening, now: float) -> None:
        """For a pod that is unschedulable."""
        if urgency := self._urgency(waiting, happening):
            self._requeue(waiting, urgency, now)

    def _requeue(self, waiting: Waiting, urgency: _Urgency, now: float) -> None:
        """Put a pod where it belongs now. Every pod that is not in flight gets to its place through here."""
        self._leave(waiting)
        due = waiting.due(self._options)
        if not urgency or not self._is_let_in(waiting):
            waiting.place = Place.UNSCHEDULABLE
            self._unschedulable.add(waiting, now)
        elif urgency is _Urgency.AFTER_BACKOFF and due > now:
            waiting.place = Place.BACKOFF
            heap = self._errors if waiting.attempts.errors else self._backoff
            heap.add(waiting.uid, (due, *waiting.rank))
        else:
            waiting.place = Place.ACTIVE
            self._active.add(waiting.uid, waiting.rank)

    def _is_let_in(self, waiting: Waiting) -> bool:
        for check in self._pre_enqueue:
            waiting.gate = check(waiting.pod)
            if waiting.gate is not None:
                waiting.rejectors |= {waiting.gate.check}
                return False
        return True

    def _leave(self, waiting: Waiting) -> None:
        for heap in (self._active, self._backoff, self._errors):
            heap.discard(waiting.uid)
        self._unschedulable.discard(waiting.uid)
