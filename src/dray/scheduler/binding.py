"""A decision gets to the API server: claims get their devices and the pod as a user, then the pod gets its node.

Many pods at once, each in a task of its own, and none of them holds up the decisions. All that must be known after a
restart is in the API: a pod that was not bound is decided anew, with the devices its claims have by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from dray.api.meta import Model
from dray.api.resource.claim import ResourceClaim
from dray.errors import (
    ConflictError,
    Error,
    NotFoundError,
    UnavailableError,
)
from dray.runtime.clock import Clock
from dray.runtime.tasks import wait_first
from dray.runtime.traces import span, tell_span
from dray.scheduler.claims.bind import (
    ClaimBinding,
    bindings,
    last_write,
    next_step,
    note_bound,
    note_error,
    note_failed,
    pod_write,
)
from dray.scheduler.claims.conditions import Binding, has_conditions, readiness_of_all
from dray.scheduler.claims.extended import IN_MEMORY
from dray.scheduler.claims.reserve import Reserved, unreserve
from dray.scheduler.claims.resolve import full_name
from dray.scheduler.claims.settings import Settings
from dray.scheduler.claims.tracking import Tracker, has_same_devices, version_of
from dray.scheduler.claims.writes import Verb, Write
from dray.scheduler.decision import Placed
from dray.scheduler.pod_binding import Attempt, bind_pod
from dray.scheduler.taking_back import Taker
from dray.scheduler.writing import Patience, Writer

Key = tuple[str, str]
_STRAY: Final = 5.0
"""Seconds that a request may be on its way after its connection broke."""


class Bindings:
    """How many pods are being written: `writing` is counted up with each decision, and down when it is bound or not.

    Those that wait for their devices to be ready do not count.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.writing = 0
        self.waiting = 0
        self._waits: dict[Key, set[asyncio.Event]] = {}

    @property
    def has_room(self) -> bool:
        """Whether one more may begin."""
        return self.writing < self.limit

    def claim_changed(self, key: Key) -> None:
        """Called for each change of a claim that is seen."""
        for event in self._waits.get(key, ()):
            event.set()

    async def wait_changed(self, claims: tuple[ResourceClaim, ...], clock: Clock, seconds: float) -> None:
        """Until one of the claims changes, or for so long. The pod is not counted as being written meanwhile."""
        keys = [(one.metadata.namespace, one.metadata.name) for one in claims]
        event = asyncio.Event()
        for key in keys:
            self._waits.setdefault(key, set()).add(event)
        self.writing, self.waiting = self.writing - 1, self.waiting + 1
        try:
            await wait_first(event.wait(), clock.sleep(seconds))
        finally:
            self.writing, self.waiting = self.writing + 1, self.waiting - 1
            for key in keys:
                events = self._waits[key]
                events.discard(event)
                if not events:
                    del self._waits[key]


@dataclass(frozen=True, slots=True)
class Binder:
    """Writes one decision at a time; any number of calls run side by side.

    `obstacle` is asked right before the pod gets its node: why it cannot go there any more, "" where it can.
    """

    writer: Writer
    tracker: Tracker
    settings: Settings
    counts: Bindings
    obstacle: Callable[[Placed], str]
    on_wait: Callable[[Placed], None] = lambda placed: None
    on_stray: Callable[[str, ResourceClaim], None] = lambda uid, claim: None
    """Called where nobody knows whether an allocation was stored; `confirm` finds it out."""
    on_bound: Callable[[ResourceClaim, ResourceClaim], None] = lambda old, new: None
    """Called with a claim before and after: other pods may wait for it, and the informer's news of it is none any more."""

    async def bind(self, placed: Placed) -> str:
        """Empty once the pod is bound. Otherwise the reason, and what this try has written is taken back.

        Not where nobody knows whether the pod got its node: then its claims stay as they are, and it is tried again.
        """
        attempt = Attempt(placed, placed.pod)
        reason = await self._write(attempt)
        if not reason:
            try:
                with span("scheduler", "bind", (one.metadata.uid for _, one in attempt.stored())):
                    await bind_pod(self.writer, attempt)
            except UnavailableError as error:
                return f"binding has no answer: {error}"
            except Error as error:
                reason = f"binding rejected: {error}"
        if reason and placed.reserved is not None:
            await self._undo(placed.reserved, attempt)
        return reason

    async def confirm(self, uid: str, claim: ResourceClaim) -> None:
        """Look at a claim some time after its allocation, in flight under `uid`, got lost: if nothing came of it, let go.

        It asks until there is an answer. A claim that changed is settled by the informer's news of it.
        """
        await self._clock.sleep(_STRAY)
        while True:
            try:
                found = await self.writer.read_claim(claim)
            except NotFoundError:
                break
            except Error:
                await self._clock.sleep(1.0)
                continue
            if found.metadata.uid == claim.metadata.uid and version_of(found) != version_of(claim):
                return
            break
        self.tracker.linger(uid, self._clock.monotonic(), version=version_of(claim))

    async def _undo(self, reserved: Reserved, attempt: Attempt) -> None:
        """A reservation that was there before is left alone: another scheduler may be about to bind the pod."""
        claims = [
            attempt.claims[place] if place in attempt.reserved else _unreserved(one)
            for place, one in enumerate(reserved.plan.claims)
        ]
        writes = unreserve(reserved, claims, self.tracker, self._clock.monotonic())
        await Taker(self.writer).take(reserved.plan.pod, writes, self._seen)

    def _seen(self, answer: Model | None) -> None:
        if isinstance(answer, ResourceClaim):
            self.tracker.assume(answer)

    @property
    def _clock(self) -> Clock:
        return self.writer.clock

    async def _write(self, attempt: Attempt) -> str:
        """All but the pod's own binding."""
        placed, reserved = attempt.placed, attempt.placed.reserved
        if reserved is not None:
            wanted = bindings(reserved)
            try:
                found = await self._looked_at(attempt, reserved, {one.place for one in wanted})
            except Error as error:
                return str(error)
            for binding in (*wanted, *found):
                if reason := await self._bind_claim(attempt, binding):
                    return reason
            told = pod_write(reserved)
            if told is not None and (reason := await self.writer.settle((told,))):
                return reason
            if reason := await self._wait_ready(placed, tuple(one for _, one in attempt.stored())):
                return reason
        return self.obstacle(placed)

    async def _looked_at(
        self, attempt: Attempt, reserved: Reserved, others: Container[int]
    ) -> tuple[ClaimBinding, ...]:
        """Claims that had the pod as a user before this try are read anew, and bound where they have not any more: what is
        known of them may be from before a reservation was taken back. Only pods that were tried before have such claims.
        """
        plan, lost = reserved.plan, []
        for place, claim in enumerate(plan.claims[: plan.users]):
            if place in others:
                continue
            patience = Patience(self._clock)
            while True:
                try:
                    found = await self.writer.read_claim(claim)
                except UnavailableError as error:
                    await patience.wait(error)
                    continue
                break
            if not has_same_devices(found.status.allocation, claim.status.allocation):
                raise ConflictError(f"claim {full_name(claim)} got other devices in the meantime")
            attempt.claims[place] = found
            if not plan.may_use(found):
                lost.append(ClaimBinding(plan, place, found))
        return tuple(lost)

    async def _bind_claim(self, attempt: Attempt, binding: ClaimBinding) -> str:
        """Why the claim could not be reserved for the pod; "" where it is."""
        claim, patience, is_own = binding.claim, Patience(self._clock), False
        began = self._clock.now()
        while True:
            step = next_step(binding, claim, self.settings, self._clock.now())
            if step.write is None:
                break
            try:
                claim, is_own = await self._step(binding, claim, step.write, patience)
            except Error as error:
                self._note(binding, claim, step.write, error, patience)
                if claim.metadata.name != binding.claim.metadata.name:
                    attempt.claims[binding.place] = claim
                    attempt.reserved.add(binding.place)
                return f"{step.write.purpose}: {error}"
        if not step.status.is_success:
            note_failed(self.tracker, binding)
            return step.status.reason
        note_bound(self.tracker, binding, claim, self._clock.monotonic())
        if binding.allocation is not None:
            tell_span("scheduler", "allocate", claim.metadata.uid, (began, self._clock.now()))
        self.on_bound(binding.claim, claim)
        attempt.claims[binding.place] = claim
        attempt.reserved.add(binding.place)
        if is_own:
            attempt.sure.add(binding.place)
        return await self._tell(attempt, binding, claim)

    async def _tell(self, attempt: Attempt, binding: ClaimBinding, claim: ResourceClaim) -> str:
        last = last_write(binding, claim)
        if last is None:
            return ""
        told, reason = await self.writer.tell(last, binding.pod, claim)
        attempt.pod = told or attempt.pod
        return reason

    def _note(
        self, binding: ClaimBinding, claim: ResourceClaim, write: Write, error: Error, patience: Patience
    ) -> None:
        """A write was given up. It, or one before it, may have been stored, or still be on its way."""
        told = UnavailableError(str(error)) if patience.has_lost else error
        note_error(self.tracker, binding, claim, write, told, self._clock.monotonic())
        if patience.has_lost and binding.allocation is not None:
            self.on_stray(binding.claim.metadata.uid, claim)

    async def _step(
        self, binding: ClaimBinding, claim: ResourceClaim, write: Write, patience: Patience
    ) -> tuple[ResourceClaim, bool]:
        """Send one write; the claim, and whether this write made it so. Where it met a conflict or had no answer, that is
        the claim as it is now. An error ends the binding."""
        try:
            return await self.writer.send_claim(write), True
        except (ConflictError, UnavailableError) as error:
            failure: Error = error
        is_lost = isinstance(failure, UnavailableError)
        if isinstance(failure, UnavailableError) and failure.retry_after is None:
            patience.has_lost |= write.carries_allocation
        if write.verb is Verb.CREATE:
            raise failure  # sent twice, it would make two claims
        while True:
            if is_lost:
                await patience.wait(failure)
            try:
                found = await self.writer.read_claim(claim)
            except UnavailableError:
                is_lost = True
                continue
            except NotFoundError:
                raise ConflictError("the claim got deleted in the meantime") from None
            if not is_lost and found.metadata.resource_version == claim.metadata.resource_version:
                raise failure  # nobody wrote to it: it is refused for another reason, such as a device that is taken
            if not is_lost and binding.claim.metadata.name != IN_MEMORY:
                await patience.wait(failure)
            return found, False

    async def _wait_ready(self, placed: Placed, awaited: tuple[ResourceClaim, ...]) -> str:
        """Devices with binding conditions report that they are attached, or that they are not, or time passes."""
        if not self.settings.has_binding_conditions or not any(map(has_conditions, awaited)):
            return ""
        self.on_wait(placed)
        started = self._clock.now()
        while True:
            awaited = tuple(self._newest(one) for one in awaited)
            found = readiness_of_all(awaited, self.settings, started, self._clock.now())
            if found.binding is not Binding.PENDING:
                return found.reason
            if reason := self.obstacle(placed):
                return reason
            await self.counts.wait_changed(awaited, self._clock, 5.0)

    def _newest(self, claim: ResourceClaim) -> ResourceClaim:
        known = self.tracker.get(claim.metadata.namespace, claim.metadata.name)
        return known if known is not None and known.metadata.uid == claim.metadata.uid else claim


def _unreserved(claim: ResourceClaim) -> ResourceClaim:
    return replace(claim, status=replace(claim.status, reserved_for=()))
