"""Finds out what became of writes that were let through, where the watch does not tell.

Mostly it does, within milliseconds. Where a write was refused after us, or its API server died, the claim stays at its
version and nothing comes. Then the claim is read; and where it is still the same after a while, it is changed (an
annotation), so that the write cannot be stored any more, whoever still holds on to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dray.allocation.holding import held_of
from dray.api.kinds import RESOURCE_CLAIMS
from dray.api.resource import ResourceClaim
from dray.client.client import Client
from dray.client.requests import Preconditions, WriteOptions
from dray.controllers.guard.holdings import Holding, Holdings
from dray.controllers.guard.review import Subject
from dray.controllers.pictures import Surroundings
from dray.controllers.queues import MeteredQueue
from dray.errors import ConflictError, NotFoundError
from dray.runtime.logs import get_log

_log = get_log("controllers.guard")
FENCE_ANNOTATION: Final = "guard.dray.internal/fenced-version"
MANAGER: Final = "dray-guard"


@dataclass(frozen=True, slots=True)
class SettlingConfig:
    """Seconds: until the first look at a claim that nothing was heard of, between looks, and until it is changed."""

    first: float = 1.0
    pause: float = 2.0
    fence: float = 10.0
    workers: int = 4


class Settler:
    """Reads claims into `holdings`. Entered by `run`, which works until it is cancelled."""

    def __init__(self, around: Surroundings, holdings: Holdings, config: SettlingConfig) -> None:
        self._client: Client = around.client
        self._holdings, self._config, self._clock = holdings, config, around.clock
        self._queue: MeteredQueue[str] = MeteredQueue("dray_guard", around.clock, around.metrics.queues)

    def expect(self, uid: str) -> None:
        """Something was let through for this claim."""
        self._queue.add_after(uid, self._config.first)

    async def run(self) -> None:
        """Until cancelled."""
        await self._queue.run(self._settle, workers=self._config.workers)

    async def look(self, subject: Subject) -> None:
        """Read the claim as it is now, past all caches."""
        try:
            claim = await self._client.get(RESOURCE_CLAIMS, subject.name, namespace=subject.namespace)
        except NotFoundError:
            self._holdings.forget(subject.uid)
            return
        if claim.metadata.uid != subject.uid:
            self._holdings.forget(subject.uid)
        self._holdings.see(stored(claim), is_live=True)

    async def is_there(self, subject: Subject) -> bool:
        """Whether the API server has this claim, at this version or a later one. Of `subject` nothing is believed yet:
        whatever it says of other claims changes nothing here.
        """
        try:
            claim = await self._client.get(RESOURCE_CLAIMS, subject.name, namespace=subject.namespace)
        except NotFoundError:
            return False
        found = stored(claim)
        self._holdings.see(found, is_live=True)
        return found.subject.uid == subject.uid and found.subject.version >= subject.version

    async def _settle(self, uid: str) -> None:
        waiting = self._holdings.waiting(uid)
        if waiting:
            await self.look(waiting[0].subject)
        left = self._holdings.waiting(uid)
        if not left:
            return
        if self._clock.monotonic() - left[0].since < self._config.fence:
            self._queue.add_after(uid, self._config.pause)
        else:
            await self._fence(left[0].subject)

    async def _fence(self, subject: Subject) -> None:
        """Change the claim, so that it leaves the version that the write is based on. Conflict: it has left it."""
        version = str(subject.version)
        _log.info("write that never came is shut out", claim=f"{subject.namespace}/{subject.name}")
        try:
            claim = await self._client.patch(
                RESOURCE_CLAIMS,
                subject.name,
                {"metadata": {"annotations": {FENCE_ANNOTATION: version}}},
                namespace=subject.namespace,
                options=WriteOptions(field_manager=MANAGER),
                preconditions=Preconditions(uid=subject.uid, resource_version=version),
            )
        except (ConflictError, NotFoundError):
            await self.look(subject)
        else:
            self._holdings.see(stored(claim), is_live=True)


def stored(claim: ResourceClaim) -> Holding:
    """A claim as the API server has it."""
    meta = claim.metadata
    return Holding(Subject(meta.namespace, meta.name, meta.uid, int(meta.resource_version)), held_of(claim))
