"""Removes pods that nobody will ever end: those of nodes that are gone, those deleted before a node got them, and old ones.

Every pass looks at the whole picture anew, so one that failed costs nothing but time. Two at once remove a pod once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec

from dray.api.core import Node, Pod
from dray.api.kinds import NODES, PODS
from dray.client.client import Client
from dray.controllers.done_pods import is_terminal
from dray.controllers.ending import Ending, PodEnder
from dray.controllers.pictures import Surroundings
from dray.errors import Error, NotFoundError
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.runtime.tasks import running

_log = get_log("controllers.pod_gc")
NAME: Final = "pod-garbage-collector-controller"
_MANAGER: Final = "pod-garbage-collector"
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
_PLAIN: Final = Ending(fail=True, grace_period=0, even_deleted=True)
_ORPHANED: Final = Ending(
    "DeletionByPodGC", "PodGC: node no longer exists", fail=True, grace_period=0, even_deleted=True
)
_FIRST: Final = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class PodGcConfig:
    """Seconds, and how many pods that have ended may stay (0: all)."""

    terminated_threshold: int = 12_500
    period: float = 20.0
    quarantine: float = 40.0
    """A node must be missing this long, and the API server must confirm it, before its pods go."""


class Removal(msgspec.Struct, frozen=True):
    """One pod to remove, and why."""

    pod: Pod
    why: str
    ending: Ending


def missing_since(
    pods: Iterable[Pod], nodes: Collection[str], before: Mapping[str, float], now: float
) -> dict[str, float]:
    """Names of nodes that pods are bound to and that are not there, with the time they were first missed."""
    names = {pod.spec.node_name for pod in pods} - {""} - set(nodes)
    return {name: before.get(name, now) for name in sorted(names)}


def plan_gc(
    pods: Iterable[Pod], nodes: Mapping[str, Node], gone: Collection[str], threshold: int
) -> tuple[Removal, ...]:
    """Which pods to remove; each once, with the first reason that holds. `gone`: nodes that certainly are."""
    pods = sorted(pods, key=lambda pod: (pod.metadata.namespace, pod.metadata.name))
    found: dict[str, Removal] = {}
    for pod in pods:
        removal = _judge(pod, nodes, gone)
        if removal is not None:
            found[pod.metadata.uid] = removal
    for pod in _surplus(pods, threshold):
        found.setdefault(pod.metadata.uid, Removal(pod, "terminated", _PLAIN))
    return tuple(found.values())


def _judge(pod: Pod, nodes: Mapping[str, Node], gone: Collection[str]) -> Removal | None:
    name, is_deleted = pod.spec.node_name, pod.metadata.deletion_timestamp is not None
    if name and name in gone and name not in nodes:
        return Removal(pod, "orphaned", _ORPHANED)
    if is_deleted and not name:
        return Removal(pod, "unscheduled", _PLAIN)
    node = nodes.get(name)
    if is_deleted and node is not None and not _is_ready(node) and _is_out_of_service(node):
        return Removal(pod, "out-of-service", _PLAIN)
    return None


def _surplus(pods: Iterable[Pod], threshold: int) -> list[Pod]:
    """Of the pods that have ended those that are too many: evicted ones first, then the oldest."""
    if threshold <= 0:
        return []
    ended = [pod for pod in pods if is_terminal(pod)]
    ended.sort(
        key=lambda pod: (
            pod.status.reason != "Evicted",
            pod.metadata.creation_timestamp or _FIRST,
            pod.metadata.name,
        )
    )
    return ended[: max(0, len(ended) - threshold)]


def _is_ready(node: Node) -> bool:
    return any(one.type == "Ready" and one.status == "True" for one in node.status.conditions)


def _is_out_of_service(node: Node) -> bool:
    return any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)


class PodGc:
    """Made by `pod_gc`; `passes` counts the finished looks at everything."""

    def __init__(self, around: Surroundings, config: PodGcConfig) -> None:
        self.passes = 0
        self.pods = around.pictures.of(PODS)
        self.nodes = around.pictures.of(NODES)
        self._client, self._config, self._clock = around.client, config, around.clock
        self._metrics = around.metrics
        self._ender = PodEnder(around.client, _MANAGER, around.clock)
        self._missing: dict[str, float] = {}

    async def run(self) -> None:
        """Until cancelled; both pictures must be entered."""
        while True:
            try:
                await self._pass()
            except Error as error:
                _log.warning("pass failed, the next one comes", error=str(error))
            self.passes += 1
            await self._clock.sleep(self._config.period)

    async def _pass(self) -> None:
        pods = tuple(self.pods.values())
        nodes = {one.metadata.name: one for one in self.nodes.values()}
        now = self._clock.monotonic()
        self._missing = missing_since(pods, nodes, self._missing, now)
        due = [name for name, since in self._missing.items() if now - since >= self._config.quarantine]
        gone = {name for name in due if await self._is_gone(name)}
        for removal in plan_gc(pods, nodes, gone, self._config.terminated_threshold):
            await self._remove(removal)

    async def _is_gone(self, name: str) -> bool:
        try:
            await self._client.get(NODES, name)
        except NotFoundError:
            return True
        return False

    async def _remove(self, removal: Removal) -> None:
        meta = removal.pod.metadata
        labels = (meta.namespace, removal.why)
        try:
            if await self._ender.end(meta.namespace, meta.name, meta.uid, removal.ending):
                self._metrics.pods_collected.labels(*labels).inc()
                _log.info("pod removed", pod=f"{meta.namespace}/{meta.name}", why=removal.why)
        except Error as error:  # one that cannot go does not keep the others; the next pass tries again
            self._metrics.pods_not_collected.labels(*labels).inc()
            _log.warning("pod not removed", pod=f"{meta.namespace}/{meta.name}", error=str(error))


@asynccontextmanager
async def pod_gc(
    client: Client, config: PodGcConfig | None = None, *, clock: Clock | None = None
) -> AsyncIterator[PodGc]:
    """Runs while entered. Entered: the pictures are there."""
    around = Surroundings.of(client, clock)
    collector = PodGc(around, config or PodGcConfig())
    async with around.pictures, running(collector.run(), name=NAME):
        yield collector
