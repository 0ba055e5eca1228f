"""Keeps a `Fleet` up to date: one informer for each kind, each for itself, so that a kind that may not be read costs only itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from dray.api.kinds import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    EVENTS,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from dray.client.client import Client
from dray.client.follow import FollowConfig
from dray.client.informer import Informer
from dray.client.reflector import ReflectorConfig
from dray.client.store import Change
from dray.dashboard.fleet.fleet import KINDS, Fleet, Lag
from dray.errors import DeniedError, Error, NotFoundError, UnavailableError
from dray.runtime.backoff import BackoffPolicy
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.runtime.tasks import running

_log = get_log("dashboard")

_WITHOUT: Final[dict[Resource[Any], str]] = {
    NODES: "how nodes are is not known",
    RESOURCE_SLICES: "no devices are shown",
    RESOURCE_CLAIMS: "who has devices, and who waits, is not known",
    DEVICE_CLASSES: "refusals cannot be explained",
    RESOURCE_CLAIM_TEMPLATES: "pods whose claims come from templates cannot be explained",
    PODS: "pods are not shown, and what they take of nodes does not count",
    DEVICE_TAINT_RULES: "taints that rules set are not shown",
    EVENTS: "no events are shown, and devices' stories are short",
}


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """How patient it is, in seconds. `ask_again` is for a kind that may not be read; rights may come later."""

    patience: float = 1.0
    ask_again: float = 30.0
    start: float = 10.0
    look: float = 3.0
    answer: float = 5.0
    follow: FollowConfig = field(
        default_factory=lambda: FollowConfig(backoff=BackoffPolicy(first=0.2, limit=5.0, jitter=1.0))
    )


class Watching:
    """Use `running` of it: entered, all kinds that can be read are read (or `start` seconds are over); left, nothing is followed."""

    def __init__(
        self, client: Client, fleet: Fleet, clock: Clock, options: WatchOptions | None = None
    ) -> None:
        self._client = client
        self._fleet = fleet
        self._clock = clock
        self._options = options or WatchOptions()
        self._settled = {kind: asyncio.Event() for kind in KINDS}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Follow the cluster while entered."""
        async with running(self._run(), name="dashboard's picture"):
            try:
                async with asyncio.timeout(self._options.start):
                    for settled in self._settled.values():
                        await settled.wait()
            except TimeoutError:
                _log.warning("the cluster does not answer yet", server=self._fleet.server)
            self._fleet.picture.settle()
            yield

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look(), name="is the cluster there")
            for kind in KINDS:
                group.create_task(self._keep(kind), name=f"keep {kind}")

    async def _keep(self, kind: Resource[Any]) -> None:
        options = self._options
        config = ReflectorConfig(follow=options.follow, refusal_patience=options.patience)
        while True:
            try:
                async with Informer(self._client, kind, config=config, clock=self._clock) as informer:
                    informer.on_change(lambda change: self._take(kind, change))
                    self._fleet.can_read(kind)
                    self._settled[kind].set()
                    await asyncio.Event().wait()
            except Error as error:
                self._cannot(kind, error)
            await self._clock.sleep(options.ask_again)

    def _take(self, kind: Resource[Any], change: Change[Any]) -> None:
        self._fleet.take(kind, change, self._clock.now())

    def _cannot(self, kind: Resource[Any], error: Error) -> None:
        """A server without taint rules has none: that is nothing to complain about."""
        if isinstance(error, NotFoundError):
            text = f"the server does not have {kind} {kind.version}: {_WITHOUT[kind]}; Kubernetes 1.34 or newer does"
            text = "" if kind is DEVICE_TAINT_RULES else text
        elif isinstance(error, DeniedError):
            text = f"may not read {kind}: {_WITHOUT[kind]}; ask for a role with get, list and watch on it"
        else:
            text = f"cannot read {kind}: {_WITHOUT[kind]}; {error}"
        self._fleet.can_read(kind, text)
        self._settled[kind].set()

    async def _look(self) -> None:
        """Whether the cluster answers: informers alone notice late, and cannot tell silence from peace."""
        while True:
            try:
                async with asyncio.timeout(self._options.answer):
                    self._fleet.version = await self._client.server_version()
                self._answers("")
            except (UnavailableError, TimeoutError) as error:
                self._answers(str(error) or f"{self._fleet.server} does not answer")
            except DeniedError:
                self._answers("")  # it is there, and does not tell us its version
            except Error as error:
                self._answers(str(error))
            await self._clock.sleep(self._options.look if self._fleet.lag is None else 1.0)

    def _answers(self, why_not: str) -> None:
        fleet = self._fleet
        if not why_not:
            if fleet.lag is not None:
                _log.info("the cluster answers again", server=fleet.server)
            fleet.lag = None
        elif fleet.lag is None:
            _log.warning("the cluster does not answer", server=fleet.server, error=why_not)
            fleet.lag = Lag(self._clock.now(), why_not)
