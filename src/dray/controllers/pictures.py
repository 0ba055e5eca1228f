"""What all controllers of a process see of the cluster: one list and one watch a collection, however many read it.

around = Surroundings.of(client)
collector, claims = PodGc(around, …), ClaimController(around, …)
async with around.pictures, running(collector.run(), …), running(claims.run(), …): …
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from dray.api.core import Pod
from dray.api.kinds import Resource
from dray.api.meta import Model
from dray.api.resource import DeviceTaintRule, ResourceClaim
from dray.api.scheduling import PodGroup
from dray.client.client import Client
from dray.client.event_recorder import EventRecorder, refer_to
from dray.client.informer import Informer
from dray.client.informers import Informers
from dray.client.reflector import ReflectorConfig
from dray.client.requests import ALL, Selection
from dray.controllers.metrics import ControllerMetrics
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.quarantine import PLACE, SET_ASIDE, Quarantine, object_key
from dray.runtime.workqueue import Watch

T = TypeVar("T", bound=Model)
K = TypeVar("K", bound=Hashable)
Followed = Pod | PodGroup | ResourceClaim | DeviceTaintRule
"""What controllers are told to look at."""


class Pictures:
    """Entered: everything that was asked for is there. Controllers ask when they are made, before it is entered."""

    def __init__(self, client: Client, clock: Clock | None = None) -> None:
        clock = clock or SystemClock()
        self._needed = Informers(client, clock=clock)
        self._optional = Informers(client, ReflectorConfig(wait_synced=False), clock=clock)
        self._stack = AsyncExitStack()

    def of(self, resource: Resource[T], selection: Selection = ALL) -> Informer[T]:
        """A collection; entering waits for its first list, and fails where the server does not have it."""
        return self._needed.of(resource, selection)

    def optional(self, resource: Resource[T]) -> Informer[T]:
        """A collection that the server may lack, behind a gate that is off: empty until there is one."""
        return self._optional.of(resource)

    async def __aenter__(self) -> Pictures:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._optional)
            await stack.enter_async_context(self._needed)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every controller of a process works with. Made before the pictures are entered."""

    client: Client
    pictures: Pictures
    clock: Clock
    metrics: ControllerMetrics
    quarantine: Quarantine

    @staticmethod
    def of(
        client: Client,
        clock: Clock | None = None,
        metrics: ControllerMetrics | None = None,
        *,
        state_dir: Path | None = None,
    ) -> Surroundings:
        """With pictures of its own. `state_dir`: where objects are noted that end the process; None: nowhere."""
        clock = clock or SystemClock()
        quarantine = Quarantine(state_dir / PLACE if state_dir is not None else None, clock)
        return Surroundings(
            client, Pictures(client, clock), clock, metrics or ControllerMetrics(), quarantine
        )

    def watch(self, find: Callable[[K], Followed | None], events: EventRecorder) -> Watch[K]:
        """For a queue whose keys stand for objects: `find` gives them as the pictures have them."""

        def name_of(key: K) -> str:
            one = find(key)
            if one is None:
                return ""
            meta = one.metadata
            kind = f"{one.kind.lower()}s"
            return object_key(kind, meta.namespace, meta.name, meta.uid, meta.controller_uid)

        def tell(key: K, why: str) -> None:
            one = find(key)
            if one is not None:
                events.tell(refer_to(one), "Warning", SET_ASIDE, why)

        return Watch(self.quarantine, name_of, tell)
