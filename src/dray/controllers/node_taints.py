"""Drives pods out of nodes with a NoExecute taint, when the time that they tolerate it is over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from dray.api.core import Node, Pod
from dray.api.kinds import NODES, PODS
from dray.api.taints import Effect, Taint, tolerates
from dray.client.client import Client
from dray.client.event_recorder import FOR_A_CLUSTER, LAST_WORDS, EventRecorder, refer_to
from dray.controllers.done_pods import is_terminal
from dray.controllers.ending import Ending, PodEnder
from dray.controllers.following import follow
from dray.controllers.index import Index
from dray.controllers.nodes import NOT_READY, UNREACHABLE
from dray.controllers.pictures import Surroundings
from dray.controllers.queues import MeteredQueue
from dray.runtime.clock import Clock
from dray.runtime.tasks import running

NAME: Final = "taint-eviction-controller"
_ENDING: Final = Ending("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
_FOR_EVER: Final = 10**10
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class NodeTaintConfig:
    """`default_seconds`: what a pod that says nothing tolerates of a node that is silent or not ready.

    Kubernetes' API server writes these 300 seconds into each pod; a server that does not needs them here.
    """

    default_seconds: int = 300
    workers: int = 8


def eviction_time(pod: Pod, node: Node, now: datetime, default_seconds: int) -> datetime | None:
    """When the pod must leave its node; None: it may stay. A taint without a time counts from now.

    A taint that nothing tolerates drives it out at once; of those tolerated for a while the first to run out counts.
    """
    if pod.metadata.deletion_timestamp is not None or is_terminal(pod):
        return None
    times = []
    for taint in node.spec.taints:
        if taint.effect == Effect.NO_EXECUTE:
            seconds = _tolerated(pod, taint, default_seconds)
            if seconds is not None:
                times.append((taint.time_added or now) + timedelta(seconds=seconds))
    return min(times, default=None)


def _tolerated(pod: Pod, taint: Taint, default_seconds: int) -> int | None:
    """For how many seconds; None: for good. The shortest of several tolerations counts."""
    found = [one.toleration_seconds for one in pod.spec.tolerations if tolerates(one, taint)]
    if not found:
        return default_seconds if taint.key in (UNREACHABLE, NOT_READY) else 0
    limited = [max(0, seconds) for seconds in found if seconds is not None and seconds < _FOR_EVER]
    return min(limited, default=None)


class NodeTaintController:
    """Made by `node_taint_controller`. Two at once evict a pod once."""

    def __init__(self, around: Surroundings, config: NodeTaintConfig) -> None:
        client, clock = around.client, around.clock
        self.pods = around.pictures.of(PODS)
        self.nodes = around.pictures.of(NODES)
        self._config, self._clock, self._metrics = config, clock, around.metrics
        self._by_node: Index[Key, str] = Index()
        self._ender = PodEnder(client, NAME, clock)
        self._events = EventRecorder(client, NAME, clock, pace=FOR_A_CLUSTER)
        watch = around.watch(self._find, self._events)
        self.queue: MeteredQueue[Key] = MeteredQueue("noexec_taint_pod", clock, around.metrics.queues, watch)

    async def run(self) -> None:
        """Until cancelled; both pictures must be entered."""
        async with self._events.recording(LAST_WORDS):
            with follow(self.pods, self._see_pod), follow(self.nodes, self._see_node):
                await self.queue.run(self._look_at, workers=self._config.workers)

    def _see_pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is None:
            return
        key = (pod.metadata.namespace, pod.metadata.name)
        node = pod.spec.node_name if new is not None else ""
        self._by_node.put(key, [node] if node else [])
        if node:
            self.queue.add(key)

    def _see_node(self, old: Node | None, new: Node | None) -> None:
        if new is not None and (old is None or old.spec.taints != new.spec.taints):
            for key in sorted(self._by_node.having(new.metadata.name)):
                self.queue.add(key)

    def _find(self, key: Key) -> Pod | None:
        namespace, name = key
        return self.pods.get(name, namespace)

    async def _look_at(self, key: Key) -> None:
        namespace, name = key
        pod = self._find(key)
        node = self.nodes.get(pod.spec.node_name) if pod is not None and pod.spec.node_name else None
        if pod is None or node is None:
            return
        now = self._clock.now()
        when = eviction_time(pod, node, now, self._config.default_seconds)
        if when is None:
            return
        left = (when - now).total_seconds()
        if left > 0:
            self.queue.add_after(key, left)
        elif await self._ender.end(namespace, name, pod.metadata.uid, _ENDING):
            self._metrics.node_evictions.inc()
            self._metrics.node_eviction_lag.observe(max(0.0, -left))
            text = f"Marking for deletion Pod {namespace}/{name}"
            self._events.tell(refer_to(pod), "Normal", "TaintManagerEviction", text)


@asynccontextmanager
async def node_taint_controller(
    client: Client, config: NodeTaintConfig | None = None, *, clock: Clock | None = None
) -> AsyncIterator[NodeTaintController]:
    """Runs while entered. Entered: the pictures are there."""
    around = Surroundings.of(client, clock)
    controller = NodeTaintController(around, config or NodeTaintConfig())
    async with around.pictures, running(controller.run(), name=NAME):
        yield controller
