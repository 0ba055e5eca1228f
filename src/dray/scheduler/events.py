"""What is said about pods: events, and the condition PodScheduled of those that found no node.

Words must not slow the work: they wait in a bounded line, the newest for each pod, and go out at a limited rate. What
does not fit into the line is dropped and counted. Writing events is the recorder's (`client.event_recorder`).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from dray.api.core import ObjectReference, Pod
from dray.api.kinds import PODS
from dray.api.meta import format_time
from dray.client.client import Client
from dray.client.event_recorder import FOR_A_CLUSTER, EventRecorder, refer_to
from dray.client.event_series import EventType
from dray.client.rate_limit import RateLimit, RateLimiter
from dray.client.requests import PatchType
from dray.errors import ConflictError, Error, UnavailableError
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.runtime.quarantine import SET_ASIDE

_log = get_log("scheduler.events")

SCHEDULED: Final = "Scheduled"
FAILED: Final = "FailedScheduling"
PREEMPTED: Final = "Preempted"
CONDITIONS_PENDING: Final = "BindingConditionsPending"
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"
_PAUSE: Final = 1.0


@dataclass(frozen=True, slots=True)
class Word:
    """One thing to say. `condition` is the reason of PodScheduled=False that goes with it; "" for an event alone.

    `nominated` is the node to name in the pod's status, None to leave it.
    """

    pod: Pod
    kind: EventType
    reason: str
    message: str
    condition: str = ""
    nominated: str | None = None

    @property
    def is_on_pod(self) -> bool:
        """Whether the pod's status says it too."""
        return bool(self.condition) or self.nominated is not None


class Teller:
    """Says it in tasks of its own (`run`). `current` gives a pod that still waits as it is now, None for any other."""

    def __init__(
        self,
        client: Client,
        component: str,
        clock: Clock,
        current: Callable[[Pod], Pod | None],
        rate: RateLimit | None = None,
    ) -> None:
        self._pace = pace = FOR_A_CLUSTER if rate is None else replace(FOR_A_CLUSTER, rate=rate)
        self._events = EventRecorder(client, component, clock, pace=pace)
        self._client = client
        self._clock = clock
        self._current = current
        self._limiter = RateLimiter(pace.rate, clock)
        self._line: OrderedDict[tuple[str, str], Word] = OrderedDict()
        self._left_out = 0
        self._wake = asyncio.Event()
        self._is_ending = False

    @property
    def waiting(self) -> int:
        """How many words and events are not written yet."""
        return len(self._line) + self._events.waiting

    @property
    def dropped(self) -> int:
        """How many never will be."""
        return self._left_out + self._events.dropped

    def leave(self, about: ObjectReference, why: str) -> None:
        """An object is set aside."""
        self._events.tell(about, "Warning", SET_ASIDE, why)

    def tell(self, word: Word) -> None:
        """Say it when there is time. A newer word with the same reason about the same pod takes its place.

        An event alone goes to the recorder, which has a line of its own: a thousand pods that were bound must not keep
        the few that were not from hearing why.
        """
        if not word.is_on_pod:
            self._events.tell(refer_to(word.pod), word.kind, word.reason, word.message)
            return
        key = (word.pod.metadata.uid, word.reason)
        if key not in self._line and len(self._line) >= self._pace.waiting:
            self._line.popitem(last=False)
            self._left_out += 1
        self._line[key] = word
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run(), name="events")
            for number in range(self._pace.writers):
                group.create_task(self._work(), name=f"words {number}")

    async def flush(self, seconds: float) -> None:
        """Say what waits, for so long at most. For the end of a process."""
        self._is_ending = True
        try:
            async with asyncio.timeout(seconds):
                while self._line:
                    await self._say(self._line.popitem(last=False)[1])
                await self._events.flush(seconds)
        except TimeoutError:
            _log.info("some events were not written", left=self.waiting)

    async def _work(self) -> None:
        while True:
            while not self._line:
                self._wake.clear()
                await self._wake.wait()
            await self._limiter.wait()
            if self._line:
                await self._say(self._line.popitem(last=False)[1])

    async def _say(self, word: Word) -> None:
        try:
            await self._set_condition(word)
            self._events.tell(refer_to(word.pod), word.kind, word.reason, word.message)
        except Error as error:  # such as a pod that is gone, or a namespace that is being deleted
            _log.info("not told", reason=word.reason, pod=word.pod.metadata.name, error=str(error))

    async def _set_condition(self, word: Word) -> None:
        """Only while the pod waits: the version it is based on keeps a late word from a pod that was bound meanwhile.

        A pod may wait for long until it is tried again, so where the server is away, or the informer behind, the word goes
        back into the line.
        """
        try:
            is_set = await self._is_set(word)
        except UnavailableError:
            await self._again(word)
            raise
        if not is_set:
            await self._again(word)

    async def _again(self, word: Word) -> None:
        """After a pause, unless there is a newer one by then, or this is the end."""
        if self._is_ending:
            return
        await self._clock.sleep(_PAUSE)
        if (word.pod.metadata.uid, word.reason) not in self._line:
            self.tell(word)

    async def _is_set(self, word: Word) -> bool:
        """Or need not be set; False where the pod is another one than we know, again and again."""
        for _ in range(3):
            pod = self._current(word.pod)
            change = None if pod is None else _condition_patch(pod, word, format_time(self._clock.now()))
            if pod is None or change is None:
                return True
            meta = pod.metadata
            try:
                await self._client.patch(
                    PODS,
                    meta.name,
                    change,
                    PatchType.STRATEGIC,
                    namespace=meta.namespace,
                    subresource="status",
                )
            except ConflictError:
                await self._clock.sleep(0.1)
                continue
            return True
        return False


def scheduled(pod: Pod, node: str) -> Word:
    """In kube-scheduler's words."""
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    return Word(pod, "Normal", SCHEDULED, f"Successfully assigned {name} to {node}")


def refused(pod: Pod, message: str, *, is_error: bool = False, nominated: str | None = None) -> Word:
    """The pod found no node, or could not be tried."""
    condition = SCHEDULER_ERROR if is_error else UNSCHEDULABLE
    return Word(pod, "Warning", FAILED, message, condition, nominated)


def _condition_patch(pod: Pod, word: Word, now: str) -> dict[str, Any] | None:
    """None where the pod says so already."""
    known = next((one for one in pod.status.conditions if one.type == "PodScheduled"), None)
    status: dict[str, Any] = {}
    said = (known.status, known.reason, known.message) if known is not None else None
    if word.condition and said != ("False", word.condition, word.message):
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": word.condition,
            "message": word.message,
        }
        if known is None or known.status != "False":
            condition["lastTransitionTime"] = now
        status["conditions"] = [condition]
    if word.nominated is not None and pod.status.nominated_node_name != word.nominated:
        status["nominatedNodeName"] = word.nominated
    if not status:
        return None
    meta = pod.metadata
    return {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}, "status": status}
