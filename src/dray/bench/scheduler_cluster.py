"""The API server under `dray bench scheduler`: filled with a workload, and watched while a scheduler binds its pods."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from dray.api.core.pod import Pod
from dray.api.kinds import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.bench.scheduler_workloads import NAMESPACE, Json, Workload
from dray.client.client import Client
from dray.client.informer import Informer
from dray.client.requests import Selection
from dray.client.store import Change, Deleted
from dray.errors import InvariantError, UnavailableError
from dray.testing.settled import Picture, disorder

WRITERS = 64
_QUIET_SECONDS = 120.0
_LOOK_SECONDS = 0.1
_MISSING_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Bound:
    """When each pod was seen bound, in the order of sight."""

    seconds: tuple[float, ...]

    @property
    def rate(self) -> float:
        """Pods a second between the first and the last: the start of the scheduler does not count."""
        return (len(self.seconds) - 1) / max(self.seconds[-1] - self.seconds[0], 1e-9)


async def fill(client: Client, workload: Workload) -> None:
    """Everything but the pods."""
    await client.create(DEVICE_CLASSES, workload.device_class)
    await at_once(_create_node(client, one) for one in workload.nodes)
    await at_once(client.create(RESOURCE_SLICES, one) for one in workload.slices)


async def _create_node(client: Client, document: Json) -> None:
    """Kubernetes taints every new node until a kubelet reports; here none will."""
    await client.create(NODES, document)
    await client.patch(NODES, document["metadata"]["name"], {"spec": {"taints": None}})


async def add_pods(client: Client, workload: Workload, scheduler: str, count: int) -> None:
    """The pods with their claims. Nobody schedules them yet."""
    await at_once(client.create(RESOURCE_CLAIMS, one) for one in workload.claims[:count])
    await at_once(client.create(PODS, one) for one in workload.pods(scheduler, count))


async def at_once(calls: Iterable[Coroutine[Any, Any, object]], writers: int = WRITERS) -> None:
    """Run them all, some at a time."""
    waiting = iter(calls)

    async def work() -> None:
        for call in waiting:
            await call

    async with asyncio.TaskGroup() as group:
        for _ in range(writers):
            group.create_task(work())


async def watch_bindings(client: Client, count: int, start: Callable[[], None]) -> Bound:
    """Start a scheduler and see its pods bound, all of them. UnavailableError when it comes to nothing."""
    seen: dict[str, float] = {}

    def note(change: Change[Pod]) -> None:
        if not isinstance(change, Deleted) and change.new.value.spec.node_name:
            seen.setdefault(change.new.value.metadata.uid, time.perf_counter())

    async with Informer(client, PODS, Selection(NAMESPACE)) as pods:
        pods.on_change(note)
        start()
        quiet = 0
        while (known := len(seen)) < count:
            await asyncio.sleep(_LOOK_SECONDS)
            quiet = 0 if len(seen) > known else quiet + 1
            if quiet * _LOOK_SECONDS > _QUIET_SECONDS:
                left = f"{count - known} of {count} pods are not bound"
                raise UnavailableError(f"{left}, and for {_QUIET_SECONDS:g} s none was")
    return Bound(tuple(seen.values()))


async def check(client: Client) -> None:
    """What was bound must be right: a fast scheduler that gives a device twice is no scheduler."""
    picture = Picture(
        (await client.list(PODS)).items,
        (await client.list(RESOURCE_CLAIMS)).items,
        (await client.list(RESOURCE_SLICES)).items,
        (await client.list(NODES)).items,
    )
    if found := disorder(picture):
        raise InvariantError(f"the cluster is not in order: {'; '.join(found[:_MISSING_SHOWN])}")
