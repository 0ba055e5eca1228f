"""NodePrepareResources and NodeUnprepareResources: every claim of a call is answered, each for itself.

What passes (the API server is away, a lock is held) is tried again inside the time that a kubelet waits: its own next
try comes a minute later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from dray.api.names import dns_label, dns_subdomain, is_uid_for_files
from dray.api.resource import ResourceClaim
from dray.dra.fetch import ClaimSource
from dray.dra.meeting import Meeting
from dray.dra.metrics import DriverMetrics, Method, NoMetrics
from dray.dra.parcels import ClaimRef, PreparedDevice
from dray.dra.works import MOST, ClaimWorks, Devices, Outcome
from dray.errors import ConflictError, Error, InvalidError, UnavailableError
from dray.runtime.backoff import Backoff, BackoffPolicy
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.runtime.quarantine import Quarantine
from dray.wire.dra import CALL_TIMEOUT
from dray.wire.gen.dra_v1_pb2 import (
    Claim,
    Device,
    NodePrepareResourceResponse,
    NodePrepareResourcesRequest,
    NodePrepareResourcesResponse,
    NodeUnprepareResourceResponse,
    NodeUnprepareResourcesRequest,
    NodeUnprepareResourcesResponse,
)
from dray.wire.limits import MIB

_log = get_log("dra")

MOST_CLAIMS: Final = 10_000
"""In one call; a node with its pods has fewer."""
ERROR_BYTES: Final = (100, 2000)
"""Of one claim's error: the less the more there are, for the whole answer has to fit into a message."""
_ERRORS_BYTES: Final = MIB
_LOGGED: Final = 20
_FIRST: Final = 0.95
"""A round that begins with so much of the time left is the first one."""
LONGEST_PAUSE: Final = 10.0
"""Seconds, however long a server asks us to wait."""


class Preparer(Protocol):
    """What is done with a claim. Both are repeatable; for one claim they are called one after the other."""

    async def prepare(self, claim: ResourceClaim) -> tuple[PreparedDevice, ...]:
        """Make the devices of our driver ready. UnavailableError and ConflictError are tried again for a while."""
        ...

    async def unprepare(self, ref: ClaimRef) -> None:
        """Give them back; one that was never prepared is fine."""
        ...


class Reports(Protocol):
    """Who is told of claims that came and went (`status.py`); returns at once."""

    def prepared(self, claim: ResourceClaim, devices: tuple[PreparedDevice, ...]) -> None:
        """Also for one that was prepared before."""
        ...

    def unprepared(self, ref: ClaimRef) -> None:
        """The claim may be gone."""
        ...

    def failed(self, method: Method, ref: ClaimRef, error: Error) -> None:
        """What the kubelet is answered, after all tries."""
        ...


@dataclass(frozen=True, slots=True)
class Retries:
    """Seconds. After `limit` a claim gets the last error, or is told to be under way; `conflicts` is for ConflictError.

    A conflict passes where whoever has the device is just leaving: of a pod that was deleted by force the kubelet gives
    claims back 2 to 5 seconds later, and asks again for the next one only after 10 and more.
    """

    limit: float = CALL_TIMEOUT - 5.0
    conflicts: float = 10.0
    backoff: BackoffPolicy = field(default_factory=lambda: BackoffPolicy(first=0.05, limit=3.0))

    def passes(self, error: Error, elapsed: float) -> bool:
        """Whether another try may help, so long after the first one began."""
        if isinstance(error, UnavailableError):
            return elapsed < self.limit
        return isinstance(error, ConflictError) and elapsed < self.conflicts


class ClaimCalls:
    """Answers the kubelet's calls for one driver, for its whole life: servers come and go around it. Used in `hosting`."""

    def __init__(
        self,
        driver: str,
        preparer: Preparer,
        claims: ClaimSource,
        clock: Clock,
        *,
        metrics: DriverMetrics | None = None,
        reports: Reports | None = None,
        retries: Retries | None = None,
        at_once: int = MOST,
        quarantine: Quarantine | None = None,
    ) -> None:
        self.driver = driver
        self._preparer = preparer
        self._claims = claims
        self._clock = clock
        self._metrics = metrics or NoMetrics()
        self._reports = reports
        self._retries = retries or Retries()
        self._at_once = at_once
        self._works = ClaimWorks(at_once, quarantine)
        self._calls = 0
        self._news: list[Callable[[], None]] = []
        self._idle = asyncio.Event()

    def hosting(self) -> AbstractAsyncContextManager[None]:
        """Calls are answered while entered."""
        return self._works.hosting()

    async def wait_idle(self, timeout: float) -> bool:
        """Return True when no call and no work runs, False after `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                while self._calls or self._works:
                    await self._works.wait_idle()
                    if self._calls:
                        await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def node_prepare_resources(
        self, request: NodePrepareResourcesRequest
    ) -> NodePrepareResourcesResponse:
        """One entry for each claim; the call itself fails only where nothing of it can be answered."""
        answers = await self._answer("prepare", request.claims)
        return NodePrepareResourcesResponse(
            claims={
                uid: NodePrepareResourceResponse(error=answer)
                if isinstance(answer, str)
                else NodePrepareResourceResponse(devices=[_device(one) for one in answer])
                for uid, answer in answers.items()
            }
        )

    async def node_unprepare_resources(
        self, request: NodeUnprepareResourcesRequest
    ) -> NodeUnprepareResourcesResponse:
        """One entry for each claim."""
        answers = await self._answer("unprepare", request.claims)
        return NodeUnprepareResourcesResponse(
            claims={
                uid: NodeUnprepareResourceResponse(error=answer if isinstance(answer, str) else "")
                for uid, answer in answers.items()
            }
        )

    async def _answer(self, method: Method, claims: Sequence[Claim]) -> Mapping[str, Devices | str]:
        """Devices, or the error's text, by UID."""
        if len(claims) > MOST_CLAIMS:
            raise InvalidError(f"{len(claims)} claims in one call: at most {MOST_CLAIMS} are taken")
        self._calls += 1
        try:
            with self._metrics.calling(method):
                refs, answers = named(claims)
                for ref, found in (await self._work(method, refs)).items():
                    answers[ref.uid] = found
                    if isinstance(found, Error):
                        self._report_failure(method, ref, found)
        finally:
            self._calls -= 1
            asyncio.get_running_loop().call_soon(self._tell_news)
            if not self._calls:
                self._idle.set()
                self._idle = asyncio.Event()
        return self._told(method, answers)

    def _told(self, method: Method, answers: Mapping[str, Outcome]) -> Mapping[str, Devices | str]:
        bad = {uid: error for uid, error in answers.items() if isinstance(error, Error)}
        self._metrics.answered(method, good=len(answers) - len(bad), bad=len(bad))
        fewest, most = ERROR_BYTES
        length = max(fewest, min(most, _ERRORS_BYTES // max(len(bad), 1)))
        for uid, error in sorted(bad.items())[:_LOGGED]:
            _log.warning("claim refused", driver=self.driver, what=method, uid=uid[:64], error=str(error))
        if len(bad) > _LOGGED:
            _log.warning("more claims refused", driver=self.driver, what=method, more=len(bad) - _LOGGED)
        return {
            uid: _cut(str(answer), length) if isinstance(answer, Error) else answer
            for uid, answer in answers.items()
        }

    async def _work(self, method: Method, refs: Sequence[ClaimRef]) -> Mapping[ClaimRef, Outcome]:
        """Round after round, each with those that may still succeed; nobody waits in line behind one that pauses."""
        began, backoff = self._clock.monotonic(), Backoff(self._retries.backoff)
        answers: dict[ClaimRef, Outcome] = {}
        left = refs
        while left:
            answers |= await self._round(method, left, began + self._retries.limit)
            delay = max(backoff.next(), _asked_for(answers[ref] for ref in left))
            elapsed = self._clock.monotonic() - began + delay
            left = [ref for ref in left if self._passes(answers[ref], elapsed)]
            if left:
                await self._clock.sleep(delay)
        return answers

    def _passes(self, outcome: Outcome, elapsed: float) -> bool:
        return isinstance(outcome, Error) and self._retries.passes(outcome, elapsed)

    async def _round(
        self, method: Method, refs: Sequence[ClaimRef], end: float
    ) -> Mapping[ClaimRef, Outcome]:
        """One try for each, a few at once."""
        found: dict[ClaimRef, Outcome] = {}
        waiting = iter(refs)
        # Only at first: later rounds are short of time, and have other reasons to wait.
        is_first = end - self._clock.monotonic() > self._retries.limit * _FIRST
        meeting = Meeting(refs[: self._at_once] if is_first else ())

        async def work() -> None:
            for ref in waiting:
                found[ref] = await self._try(method, ref, meeting, end - self._clock.monotonic())

        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._at_once, len(refs))):
                group.create_task(work())
        return found

    async def _try(self, method: Method, ref: ClaimRef, meeting: Meeting, seconds: float) -> Outcome:
        """Where the time is over before it ends, it goes on by itself."""
        try:
            async with asyncio.timeout(max(seconds, 0.0)):
                found = await self._works.do(method, ref, lambda: self._carry_out(method, ref, meeting))
        except TimeoutError:
            found = UnavailableError(
                f"claim {ref}: {method} is not done after {self._retries.limit:g} s; it goes on, and the kubelet asks again"
            )
        finally:
            meeting.leave(ref)
        if isinstance(found, Error):
            self._metrics.failed(method, found)
        return found

    async def _carry_out(self, method: Method, ref: ClaimRef, meeting: Meeting) -> Devices:
        if method == "unprepare":
            await self._preparer.unprepare(ref)
            self._report(lambda reports: reports.unprepared(ref))
            return ()
        claim = await self._claims.get(ref)
        await meeting.come(ref)
        devices = await self._preparer.prepare(claim)
        self._tell_later(
            lambda: _log.info("claim prepared", claim=str(ref), uid=ref.uid, devices=len(devices))
        )
        self._report(lambda reports: reports.prepared(claim, devices))
        return devices

    def _report(self, tell: Callable[[Reports], None]) -> None:
        if self._reports is not None:
            self._tell_later(partial(tell, self._reports))

    def _tell_later(self, tell: Callable[[], None]) -> None:
        """After the answer: the kubelet waits for that, and nobody for a report."""
        self._news.append(tell)
        if not self._calls:
            self._tell_news()

    def _report_failure(self, method: Method, ref: ClaimRef, error: Error) -> None:
        self._report(lambda reports: reports.failed(method, ref, error))

    def _tell_news(self) -> None:
        news, self._news = self._news, []
        for tell in news:
            tell()


def named(claims: Iterable[Claim]) -> tuple[list[ClaimRef], dict[str, Outcome]]:
    """The claims to work on, each once, and the errors of those that are none."""
    refs: dict[str, ClaimRef] = {}
    refused: dict[str, Outcome] = {}
    for claim in claims:
        ref = ClaimRef(claim.namespace, claim.name, claim.uid)
        if fault := _fault(ref):
            refused[ref.uid] = InvalidError(fault)
        elif refs.setdefault(ref.uid, ref) != ref:
            refused[ref.uid] = InvalidError(
                f"the UID {ref.uid} stands for two claims in one call, {refs[ref.uid]} and {ref}"
            )
    return [ref for uid, ref in refs.items() if uid not in refused], refused


def _fault(ref: ClaimRef) -> str:
    """What is wrong with how a claim is named; these become parts of paths."""
    if not is_uid_for_files(ref.uid):
        return f"the UID {ref.uid[:64]!r} of a claim is not one: letters, digits and '-' are allowed"
    for field_name, value, rule in (
        ("namespace", ref.namespace, dns_label),
        ("name", ref.name, dns_subdomain),
    ):
        if faults := rule(value):
            return f"the {field_name} {value[:64]!r} of claim {ref.uid} is invalid: {faults[0]}"
    return ""


def _asked_for(outcomes: Iterable[Outcome]) -> float:
    """Seconds that a server asked us to wait, within reason."""
    asked = [one.retry_after or 0.0 for one in outcomes if isinstance(one, UnavailableError)]
    return min(max(asked, default=0.0), LONGEST_PAUSE)


def _device(prepared: PreparedDevice) -> Device:
    """A kubelet knows requests, not the alternatives within."""
    return Device(
        request_names=list(dict.fromkeys(name.partition("/")[0] for name in prepared.requests)),
        pool_name=prepared.pool,
        device_name=prepared.device,
        cdi_device_ids=prepared.cdi_ids,
        share_id=prepared.share_id,
    )


def _cut(text: str, most: int) -> str:
    data = text.encode("utf-8", "replace")
    return data.decode() if len(data) <= most else data[: most - 3].decode("utf-8", "ignore") + "..."
