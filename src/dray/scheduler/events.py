"""What is said about pods: events, and the condition PodScheduled of those that found no node.

Words must not slow the work: they wait in a bounded line, the newest for each pod, and go out at a limited rate. What
does not fit into the line is dropped and counted. The same event of the same pod is one object with a count.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from dray.api.core import Pod
from dray.api.kinds import EVENTS, PODS
from dray.api.meta import format_time
from dray.client.client import Client
from dray.client.rate_limit import RateLimit, RateLimiter
from dray.client.requests import PatchType
from dray.errors import ConflictError, Error, InvariantError, NotFoundError, UnavailableError
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log

_log = get_log("scheduler.events")

SCHEDULED: Final = "Scheduled"
FAILED: Final = "FailedScheduling"
PREEMPTED: Final = "Preempted"
CONDITIONS_PENDING: Final = "BindingConditionsPending"
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"
_LINE: Final = 10_000
_REMEMBERED: Final = 10_000
_NAME_MAX: Final = 230
_MESSAGE_MAX: Final = 1024
_PAUSE: Final = 1.0
_AGAIN: Final = 60.0
"""Seconds after which an event that is seen again is counted on the server."""
Kind = Literal["Normal", "Warning"]


@dataclass(frozen=True, slots=True)
class Word:
    """One thing to say. `condition` is the reason of PodScheduled=False that goes with it; "" for an event alone.

    `nominated` is the node to name in the pod's status, None to leave it.
    """

    pod: Pod
    kind: Kind
    reason: str
    message: str
    condition: str = ""
    nominated: str | None = None


@dataclass(slots=True)
class _Told:
    at: float
    unsent: int = 0


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
        self.dropped = 0
        self._client = client
        self._component = component
        self._clock = clock
        self._current = current
        self._limiter = RateLimiter(rate or RateLimit(50.0, 25), clock)
        self._line: OrderedDict[tuple[str, str], Word] = OrderedDict()
        self._told: OrderedDict[str, _Told] = OrderedDict()
        self._wake = asyncio.Event()
        self._is_ending = False

    @property
    def waiting(self) -> int:
        """How many words are in the line."""
        return len(self._line)

    def tell(self, word: Word) -> None:
        """Say it when there is time. A newer word with the same reason about the same pod takes its place."""
        key = (word.pod.metadata.uid, word.reason)
        if key not in self._line and len(self._line) >= _LINE:
            self._line.popitem(last=False)
            self.dropped += 1
        self._line[key] = word
        self._wake.set()

    async def run(self, workers: int = 4) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(workers):
                group.create_task(self._work(), name=f"events {number}")

    async def flush(self, seconds: float) -> None:
        """Say what is in the line, for so long at most. For the end of a process."""
        self._is_ending = True
        try:
            async with asyncio.timeout(seconds):
                while self._line:
                    await self._say(self._line.popitem(last=False)[1])
        except TimeoutError:
            _log.info("some events were not written", left=len(self._line))

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
            if word.condition or word.nominated is not None:
                await self._set_condition(word)
            await self._event(word)
        except InvariantError:
            raise
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

    async def _event(self, word: Word) -> None:
        document = self._document(word)
        name, now = document["metadata"]["name"], self._clock.monotonic()
        told = self._told.get(name)
        if told is not None and now - told.at < _AGAIN:
            told.unsent += 1
            return
        more = 1 + (told.unsent if told is not None else 0)
        self._told[name] = _Told(now)
        self._told.move_to_end(name)
        while len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
        await self._write(document, more, is_known=told is not None)

    async def _write(self, document: dict[str, Any], more: int, *, is_known: bool) -> None:
        name, namespace = document["metadata"]["name"], document["metadata"]["namespace"]
        if not is_known:
            try:
                await self._client.create(EVENTS, document)
            except ConflictError:  # from before a restart
                pass
            else:
                return
        try:
            known = await self._client.get(EVENTS, name, namespace=namespace)
        except NotFoundError:  # events are kept for an hour or so
            await self._client.create(EVENTS, document)
            return
        change = {"count": known.count + more, "lastTimestamp": document["lastTimestamp"]}
        await self._client.patch(EVENTS, name, change, namespace=namespace)

    def _document(self, word: Word) -> dict[str, Any]:
        meta, now = word.pod.metadata, format_time(self._clock.now())
        message = word.message[:_MESSAGE_MAX]
        said = f"{meta.uid}\n{self._component}\n{word.reason}\n{message}"
        suffix = hashlib.sha256(said.encode()).hexdigest()[:16]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
        }
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{meta.name[:_NAME_MAX].rstrip('.-')}.{suffix}",
                "namespace": meta.namespace,
            },
            "involvedObject": pod,
            "type": word.kind,
            "reason": word.reason,
            "message": message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }


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
