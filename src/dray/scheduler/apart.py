"""Decisions that take longer than the loop can spare are made in a copy of the process, while other pods go on.

A decision gets a tenth of a second in the loop. One that is not over by then is made again in a copy (`runtime.forked`), with
all the time that a decision may have, and its answer is checked against what the cluster is by then. There is one copy at a
time, namespaces take turns at it, and a pod whose decision was stopped there rests longer each time: whoever writes claims
that nobody can decide waits for himself.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from dray.allocation.budget import Budget
from dray.allocation.state import DeviceID
from dray.api.core import Pod
from dray.errors import UnavailableError
from dray.runtime.clock import Clock
from dray.runtime.forked import Limits, Stopped, run_forked
from dray.runtime.logs import get_log
from dray.scheduler.decision import Decision, Failed, Given, Overrun, Placed, Refused

_log = get_log("scheduler.apart")

_HASTE: Final = 0.05
"""The share of a decision's time in the loop that is left to a namespace after one of its pods overran."""
_LONG_AGO: Final = 60.0
_CHECK: Final = 0.1
_FIRST_REST, _LONGEST_REST = 10.0, 300.0
_KEPT: Final = 10_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ApartOptions:
    """`inline`: seconds that a decision has in the loop. `limits`: what it has in a copy."""

    inline: float = 0.1
    limits: Limits = field(default_factory=Limits)


@dataclass(slots=True)
class _Overrun:
    """A pod that needs a copy. `rests` ends when it may be tried again."""

    namespace: str
    rests: float = 0.0
    stops: int = 0


class Apart:
    """For one scheduler. Pods are told apart by their uid; those that are decided or gone are forgotten."""

    def __init__(self, options: ApartOptions, clock: Clock) -> None:
        self.options = options
        self._clock = clock
        self._overruns: OrderedDict[str, _Overrun] = OrderedDict()
        self._hasty: OrderedDict[str, float] = OrderedDict()
        self._turns: OrderedDict[str, float] = OrderedDict()
        self._is_busy = False
        self.stopped = 0

    @property
    def waiting(self) -> int:
        """How many pods are known to need a copy."""
        return len(self._overruns)

    def budget(self, pod: Pod) -> Budget:
        """For a decision in the loop."""
        overran = self._hasty.get(pod.metadata.namespace)
        is_recent = overran is not None and self._clock.monotonic() - overran < _LONG_AGO
        inline = self.options.inline * (_HASTE if is_recent else 1.0)
        return Budget(inline, self._clock.monotonic)

    def check_budget(self) -> Budget:
        """To look once more at what a copy has chosen: a search among a few devices."""
        return Budget(_CHECK, self._clock.monotonic)

    def is_needed(self, pod: Pod) -> bool:
        """Whether a decision about this pod was not over in time before."""
        return pod.metadata.uid in self._overruns

    def overran(self, pod: Pod) -> None:
        """The decision about the pod was not over in time."""
        meta = pod.metadata
        _put(self._hasty, meta.namespace, self._clock.monotonic())
        _put(self._overruns, meta.uid, _Overrun(meta.namespace))
        self._turns.setdefault(meta.namespace, 0.0)

    def forget(self, uid: str) -> None:
        """The pod is decided or gone."""
        gone = self._overruns.pop(uid, None)
        if gone is not None and all(one.namespace != gone.namespace for one in self._overruns.values()):
            self._turns.pop(gone.namespace, None)

    def prune(self, is_known: Callable[[str], bool]) -> None:
        """Forget pods that are gone."""
        for uid in [one for one in self._overruns if not is_known(one)]:
            self.forget(uid)

    def is_due(self, pod: Pod) -> bool:
        """Whether the copy is free, the pod has rested, and it is its namespace's turn."""
        known = self._overruns.get(pod.metadata.uid)
        now = self._clock.monotonic()
        if self._is_busy or known is None or known.rests > now:
            return False
        rested = {one.namespace for one in self._overruns.values() if one.rests <= now}
        first = min(rested, key=lambda name: self._turns.get(name, 0.0))
        return self._turns.get(known.namespace, 0.0) <= self._turns.get(first, 0.0)

    async def decide(self, pod: Pod, decide: Callable[[Budget], Decision]) -> Decision | Given:
        """What a copy decides. `decide` is called there."""
        limits, namespace = self.options.limits, pod.metadata.namespace
        self._is_busy = True
        if namespace in self._turns:
            self._turns[namespace] = self._clock.monotonic()
        try:
            answer = await run_forked(lambda: _packed(decide(self._whole())), limits)
        except UnavailableError as error:
            meta = pod.metadata
            _log.warning("no copy to decide in", pod=f"{meta.namespace}/{meta.name}", error=str(error))
            self._stop(meta.uid)
            return Failed(pod, f"no process could be started to decide in: {error}")
        finally:
            self._is_busy = False
        decision = answer if isinstance(answer, Stopped) else _unpacked(answer)
        if isinstance(decision, Overrun):
            decision = Stopped(f"after {limits.seconds:g} s")
        if isinstance(decision, Stopped):
            self._stop(pod.metadata.uid)
            what = "devices" if pod.spec.resource_claims else "a node"
            return Failed(pod, f"the search for {what} was stopped {decision.why}")
        if isinstance(decision, Failed):
            self._stop(pod.metadata.uid)
        return decision if isinstance(decision, Given) else replace(decision, pod=pod)

    def unchecked(self, pod: Pod, node: str) -> Failed:
        """What a copy has chosen cannot be looked at once more in the time that the loop has."""
        self._stop(pod.metadata.uid)
        return Failed(pod, f"the check of what was chosen on node {node} was stopped after {_CHECK:g} s")

    def _whole(self) -> Budget:
        # The copy is killed when its time is over; its own clock lets it say so a little earlier, and what it found by then.
        return Budget(self.options.limits.seconds * 0.95, self._clock.monotonic)

    def _stop(self, uid: str) -> None:
        self.stopped += 1
        known = self._overruns.get(uid)
        if known is not None:
            known.stops += 1
            pause = min(_FIRST_REST * 2.0 ** min(known.stops - 1, 16), _LONGEST_REST)
            known.rests = self._clock.monotonic() + pause


def _packed(decision: Decision) -> bytes:
    """Without what belongs to the copy. Pickled: both sides are the same program."""
    if isinstance(decision, Placed):
        results = decision.reserved.allocations.values() if decision.reserved is not None else ()
        devices = frozenset(
            DeviceID(one.driver, one.pool, one.device) for result in results for one in result.devices.results
        )
        return pickle.dumps(Given(decision.node, devices))
    if isinstance(decision, Refused):
        return pickle.dumps(replace(decision, asked=None, short=(), is_told=True))
    return pickle.dumps(decision)


def _unpacked(answer: bytes) -> Refused | Failed | Overrun | Given:
    found = pickle.loads(answer)  # noqa: S301 - written by a copy of this process, into a pipe that only it has
    assert isinstance(found, Refused | Failed | Overrun | Given)
    return found


def _put(kept: OrderedDict[str, T], key: str, value: T) -> None:
    kept[key] = value
    while len(kept) > _KEPT:
        kept.popitem(last=False)
