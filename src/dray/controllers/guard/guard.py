"""The guard: lets a new allocation through where nobody holds its devices, and keeps them for it until it is stored.

Safe against everything that may happen meanwhile: two writers at once (what is let through counts at once), a write that
is refused later (see `settling.py`), a kill of the guard and two guards at once (see `journal.py`), a watch that lags
(holders are read anew before a refusal, and what was let through counts without the watch), and a review that no API
server sent (`callers.py` keeps it out; and the claim is read before anything is held for it).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from msgspec.structs import replace

from dray.allocation.holding import Held, held_in
from dray.api.kinds import RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.api.resource import ResourceClaim, ResourceSlice
from dray.client.client import Client
from dray.controllers.following import follow
from dray.controllers.guard.holdings import Clash, Holding, Holdings
from dray.controllers.guard.journal import Journal
from dray.controllers.guard.review import ALLOWED, Answer, Review, Subject, subject_of
from dray.controllers.guard.settling import Settler, SettlingConfig, stored
from dray.controllers.metrics import ControllerMetrics
from dray.controllers.pictures import Surroundings
from dray.errors import Error, InvalidError
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.runtime.tasks import running

_log = get_log("controllers.guard")
_LOOKS: Final = 40
"""Holders that are read anew for one write, at most; a claim has up to 32 devices."""
_POOL: Final = "pool"
_RESULTS: Final = "status.allocation.devices.results"
_MOST_RESULTS: Final = 32
"""That Kubernetes lets an allocation have."""


@dataclass(frozen=True, slots=True)
class GuardConfig:
    """Where it keeps what it let through, and how much of that there may be."""

    namespace: str = "kube-system"
    name: str = "dray-guard"
    most_devices: int = 4000
    """Devices that may be on their way at once: the ConfigMap has room for twice as many."""
    most_devices_of_namespace: int = 1000
    """So that the claims of one namespace cannot keep others from being allocated."""
    most_writes_of_claim: int = 4
    """Different allocations of one version of a claim; of those at most one can be stored."""
    most_devices_of_claim: int = 64
    """That all these allocations have together: two of the largest that there may be."""
    seconds: float = 8.0
    """For one answer; the API server waits for ten."""
    settling: SettlingConfig = field(default_factory=SettlingConfig)


class Guard:
    """Refuses everything until `leading` is entered, and again once it is left."""

    def __init__(self, client: Client, config: GuardConfig, clock: Clock, metrics: ControllerMetrics) -> None:
        self._client, self._config, self._clock, self._metrics = client, config, clock, metrics
        self._lead: _Lead | None = None

    @property
    def is_leading(self) -> bool:
        """Whether it decides."""
        return self._lead is not None

    @property
    def reserved(self) -> int:
        """How many writes were let through of which nothing was heard yet."""
        return len(self._lead.holdings.reserved()) if self._lead is not None else 0

    @asynccontextmanager
    async def leading(self, identity: str) -> AsyncIterator[None]:
        """Take over from the guard before, read all claims, then decide while entered. Once for each guard."""
        around = Surroundings.of(self._client, self._clock, self._metrics)
        journal = Journal(self._client, self._config.namespace, self._config.name, identity)
        lead = _Lead(around, self._config, journal)
        before = await journal.take_over()
        # Only now: what the guard before let through is in `before`, or is stored by the time it is read.
        async with around.pictures, lead.entered(before):
            _log.info("the guard leads", let_through_before=len(before))
            self._lead = lead
            try:
                yield
            finally:
                self._lead = None

    async def review(self, review: Review) -> Answer:
        """Whether this status may be stored. A refusal is final for this write; who wrote may decide again."""
        lead = self._lead
        if lead is None:
            text = "this guard does not lead, or has not read all claims yet; try again"
            return Answer(HTTPStatus.SERVICE_UNAVAILABLE, text)
        try:
            async with asyncio.timeout(self._config.seconds):
                return await lead.review(review)
        except TimeoutError:
            text = f"the guard could not tell within {self._config.seconds:g} s; try again"
            return Answer(HTTPStatus.SERVICE_UNAVAILABLE, text)
        except InvalidError as error:
            return Answer(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
        except Error as error:
            text = f"the guard cannot tell whether the devices are free: {error}"
            return Answer(HTTPStatus.SERVICE_UNAVAILABLE, text)


class _Lead:
    """One time of leading."""

    def __init__(self, around: Surroundings, config: GuardConfig, journal: Journal) -> None:
        self.holdings = Holdings()
        self._config, self._journal, self._clock = config, journal, around.clock
        self._settler = Settler(around, self.holdings, config.settling)
        self._claims = around.pictures.of(RESOURCE_CLAIMS)
        self._slices = around.pictures.of(RESOURCE_SLICES)
        self._slices.add_index(_POOL, _pool_of)

    @asynccontextmanager
    async def entered(self, before: Iterable[Holding]) -> AsyncIterator[None]:
        """Follow claims and settle what is open; the pictures must be entered."""
        with follow(self._claims, self._see):
            for one in before:
                if not self.holdings.is_settled(one.subject):
                    self.holdings.reserve(replace(one, since=self._clock.monotonic()))
                    self._settler.expect(one.subject.uid)
            async with (
                running(self._journal.run(self.holdings.reserved), name="guard journal"),
                running(self._settler.run(), name="guard settling"),
            ):
                yield

    async def review(self, review: Review) -> Answer:
        """See `Guard.review`."""
        wanted = held_in(bytes(review.object))
        if not wanted or wanted == held_in(bytes(review.old_object)):
            return ALLOWED
        if len(wanted) > _MOST_RESULTS:
            text = f"has {len(wanted)} devices, at most {_MOST_RESULTS} are allowed"
            raise InvalidError(f"{_RESULTS}: {text}", field=_RESULTS)
        subject = subject_of(review)
        if (why := await self._look(subject)) is not None:
            return why
        clash = await self._judge(subject, wanted)
        if clash is not None:
            return Answer(HTTPStatus.FORBIDDEN, clash.message)
        # No await since the last look at what is held: nobody came in between.
        if review.dry_run or self.holdings.is_settled(subject):
            return ALLOWED
        if text := self._too_many(subject, wanted):
            return Answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{text}; try again")
        return await self._let_through(subject, wanted)

    async def _look(self, subject: Subject) -> Answer | None:
        """Ask the API server for the claim before the review is believed: devices are held only for one that is there
        at the version that the review tells of. An older version cannot be stored any more: its API server finds out.
        """
        if await self._settler.is_there(subject):
            return None
        text = f"claim {subject.namespace}/{subject.name} (uid {subject.uid}) is not at version {subject.version}"
        return Answer(HTTPStatus.CONFLICT, f"{text} on the API server; read it again")

    def _too_many(self, subject: Subject, wanted: tuple[Held, ...]) -> str:
        """Which limit on writes that are on their way this one would break, in words."""
        writes = self.holdings.waiting(subject.uid)
        if _is_among(writes, subject, wanted):
            return ""
        if len(writes) >= self._config.most_writes_of_claim:
            return f"{len(writes)} other allocations of claim {subject.namespace}/{subject.name} are on their way already"
        of_claim = sum(len(one.held) for one in writes)
        if of_claim + len(wanted) > self._config.most_devices_of_claim:
            return f"{of_claim} devices for claim {subject.namespace}/{subject.name} are on their way already"
        of_namespace = self.holdings.devices_reserved_of(subject.namespace)
        if of_namespace + len(wanted) > self._config.most_devices_of_namespace:
            return f"{of_namespace} devices of namespace {subject.namespace} are on their way already"
        if self.holdings.devices_reserved + len(wanted) > self._config.most_devices:
            return f"{self.holdings.devices_reserved} devices are on their way already"
        return ""

    async def _judge(self, subject: Subject, wanted: tuple[Held, ...]) -> Clash | None:
        """Holders that stand in the way are read anew first: the watch may not have told that they let go."""
        looked: list[Holding] = []
        while True:
            clash = self.holdings.judge(subject.uid, wanted, self._slices_of)
            if clash is None or clash.holder is None or len(looked) >= _LOOKS:
                return clash
            if any(clash.holder.subject.uid == one.subject.uid for one in looked):
                return clash
            looked.append(clash.holder)
            await self._settler.look(clash.holder.subject)

    async def _let_through(self, subject: Subject, wanted: tuple[Held, ...]) -> Answer:
        """The same write once more, after a lost answer or a refusal by others, shares its reservation."""
        is_again = _is_among(self.holdings.waiting(subject.uid), subject, wanted)
        now, number = self._clock.monotonic(), 0
        if not is_again:
            number = self.holdings.reserve(Holding(subject, wanted, is_stored=False, since=now))
            self._settler.expect(subject.uid)
        try:
            await self._journal.save()
        except Error:
            self.holdings.release(number)  # it is refused, so it is never stored
            raise
        return ALLOWED

    def _see(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if new is not None:
            self.holdings.see(stored(new))
        elif old is not None:
            self.holdings.forget(old.metadata.uid)

    def _slices_of(self, driver: str, pool: str) -> Iterable[ResourceSlice]:
        return self._slices.indexed(_POOL, f"{driver}|{pool}")


def _is_among(writes: Iterable[Holding], subject: Subject, wanted: tuple[Held, ...]) -> bool:
    return any((one.subject, one.held) == (subject, wanted) for one in writes)


def _pool_of(one: ResourceSlice) -> Iterable[str]:
    return (f"{one.spec.driver}|{one.spec.pool.name}",)
