"""The informers of one process: each collection is followed once, however many parts read it.

informers = Informers(client)
pods = informers.of(PODS, indexers={"node": node_of})
claims = informers.of(RESOURCE_CLAIMS)
async with informers: …
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, TypeVar

from dray.api.kinds import Resource
from dray.api.meta import Model
from dray.client.client import Client
from dray.client.index import Indexer
from dray.client.informer import Informer, Journal
from dray.client.reflector import ReflectorConfig
from dray.client.requests import ALL, Selection
from dray.errors import InvariantError
from dray.runtime.clock import Clock
from dray.runtime.tasks import running

T = TypeVar("T", bound=Model)


class Informers:
    """Entered: all first lists are in, read side by side. Left: all stopped. The first failure ends all of them."""

    def __init__(
        self,
        client: Client,
        config: ReflectorConfig | None = None,
        *,
        clock: Clock | None = None,
        journal: Journal | None = None,
    ) -> None:
        """`journal` is entered while these run."""
        self._journal = journal
        self._client = client
        self._config = config or ReflectorConfig()
        self._clock = clock
        self._informers: dict[tuple[Resource[Any], Selection], Informer[Any]] = {}
        self._ready: list[asyncio.Event] = []
        self._stack: AsyncExitStack | None = None

    def of(
        self,
        resource: Resource[T],
        selection: Selection = ALL,
        *,
        indexers: Mapping[str, Indexer[T]] | None = None,
    ) -> Informer[T]:
        """The informer of a collection, the same for all who ask; their indexes come together. Ask before entering."""
        informer: Informer[T] | None = self._informers.get((resource, selection))
        if informer is None:
            if self._stack is not None:
                raise InvariantError(f"{resource}: ask for an informer before the informers are entered")
            informer = Informer(
                self._client,
                resource,
                selection,
                config=self._config,
                clock=self._clock,
                journal=self._journal,
            )
            self._informers[resource, selection] = informer
        for name, indexer in (indexers or {}).items():
            informer.add_index(name, indexer)
        return informer

    async def __aenter__(self) -> Informers:
        async with AsyncExitStack() as stack:
            self._ready = [asyncio.Event() for _ in self._informers]
            await stack.enter_async_context(running(self._run(), name="informers"))
            for ready in self._ready:
                await ready.wait()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        stack = self._stack or AsyncExitStack()
        return await stack.__aexit__(kind, error, trace)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for informer, ready in zip(self._informers.values(), self._ready, strict=True):
                group.create_task(_hold(informer, ready), name=f"informer {informer.resource}")


async def _hold(informer: Informer[Any], ready: asyncio.Event) -> None:
    """Keep one informer entered until cancelled; each in a task of its own, so that the lists come side by side."""
    async with informer:
        ready.set()
        await asyncio.Event().wait()
