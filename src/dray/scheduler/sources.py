"""What the scheduler follows: one informer for each kind that a decision depends on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any

from dray.api.core import Pod
from dray.api.kinds import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from dray.api.scheduling import POD_GROUPS
from dray.client.client import Client
from dray.client.informer import Informer, Journal
from dray.client.informers import Informers
from dray.errors import NotFoundError, UnavailableError
from dray.runtime.backoff import Backoff
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.scheduler.claims.settings import Settings
from dray.scheduler.feeding import BY_CLAIM, Feed, claims_of
from dray.scheduler.preemption import BUDGETS, PodDisruptionBudget
from dray.scheduler.storage import FOLLOWED, Storage

_log = get_log("scheduler.sources")


class Sources:
    """Entered, after `look`: all first lists are in. `feed` then shows them, and every change from then on."""

    def __init__(
        self,
        client: Client,
        settings: Settings,
        clock: Clock,
        *,
        preempt: bool,
        journal: Journal | None = None,
    ) -> None:
        self._client, self._clock = client, clock
        self._informers = Informers(client, clock=clock, journal=journal)
        self.pods: Informer[Pod] = self._informers.of(PODS, indexers={BY_CLAIM: claims_of})
        self._nodes = self._informers.of(NODES)
        self._classes = self._informers.of(DEVICE_CLASSES)
        self._slices = self._informers.of(RESOURCE_SLICES)
        self._claims = self._informers.of(RESOURCE_CLAIMS)
        self._namespaces = self._informers.of(NAMESPACES)
        self._storage = Storage()
        self._optional: dict[str, Resource[Any]] = {one.kind: one for one in FOLLOWED}
        if settings.options.features.device_taint_rules:
            self._optional["taint_rule"] = DEVICE_TAINT_RULES
        if settings.workload_claims:
            self._optional["pod_group"] = POD_GROUPS
        self._budgets: Informer[PodDisruptionBudget] | None = self._informers.of(BUDGETS) if preempt else None
        self._others: dict[str, Informer[Any]] = {}
        self._stack = AsyncExitStack()

    @property
    def counts(self) -> dict[str, int]:
        """For the log."""
        return {"pods": len(self.pods), "claims": len(self._claims), "slices": len(self._slices)}

    def budgets(self) -> Iterator[PodDisruptionBudget]:
        """All of them as they are now; none without preemption."""
        return self._budgets.values() if self._budgets is not None else iter(())

    async def look(self) -> None:
        """Which of the kinds that need not be there the server has. Before entering; a server that is away is waited for."""
        for name, resource in self._optional.items():
            if await self._is_served(resource):
                self._others[name] = self._informers.of(resource)
            else:
                _log.info("not served, so it does not count", resource=str(resource))

    async def _is_served(self, resource: Resource[Any]) -> bool:
        backoff = Backoff()
        while True:
            try:
                await self._client.list_page(resource, limit=1)
            except NotFoundError:
                return False
            except UnavailableError as error:
                delay = backoff.next()
                _log.warning(
                    "will ask again", resource=str(resource), delay_s=round(delay, 3), error=str(error)
                )
                await self._clock.sleep(delay)
            else:
                return True

    async def __aenter__(self) -> Sources:
        await self._stack.enter_async_context(self._informers)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    def feed(self, feed: Feed) -> None:
        """Pods last: what they depend on is there when the first one is tried."""
        if all(one.kind in self._others for one in FOLLOWED):
            feed.cycle.set_volumes(self._storage.volumes)
            for one in FOLLOWED:
                self._others[one.kind].on_change(self._storage.handler(one, feed.tell))
        self._namespaces.on_change(feed.namespace)
        self._nodes.on_change(feed.node)
        self._classes.on_change(feed.device_class)
        self._slices.on_change(feed.resource_slice)
        if "taint_rule" in self._others:
            self._others["taint_rule"].on_change(feed.taint_rule)
        if "pod_group" in self._others:
            self._others["pod_group"].on_change(feed.pod_group)
        self._claims.on_change(feed.claim)
        self.pods.on_change(feed.pod)
