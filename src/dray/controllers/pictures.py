"""What all controllers of a process see of the cluster: one list and one watch a collection, however many read it.

around = Surroundings.of(client)
collector, claims = PodGc(around, …), ClaimController(around, …)
async with around.pictures, running(collector.run(), …), running(claims.run(), …): …
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

from dray.api.kinds import Resource
from dray.api.meta import Model
from dray.client.client import Client
from dray.client.informer import Informer
from dray.client.informers import Informers
from dray.client.reflector import ReflectorConfig
from dray.client.requests import ALL, Selection
from dray.controllers.metrics import ControllerMetrics
from dray.runtime.clock import Clock, SystemClock

T = TypeVar("T", bound=Model)


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

    @staticmethod
    def of(
        client: Client, clock: Clock | None = None, metrics: ControllerMetrics | None = None
    ) -> Surroundings:
        """With pictures of its own."""
        clock = clock or SystemClock()
        return Surroundings(client, Pictures(client, clock), clock, metrics or ControllerMetrics())
