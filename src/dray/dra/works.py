"""One work at a time on each claim, in tasks that outlive the call that asked for it.

A kubelet gives a call up after 45 seconds, or when it ends. Work on the host is not cut off then: it goes on, and the
kubelet's next call for the claim joins it.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from dray.dra.parcels import ClaimRef, PreparedDevice
from dray.errors import Error, InvariantError, UnavailableError
from dray.runtime.logs import get_log
from dray.runtime.quarantine import Quarantine, object_key
from dray.runtime.tasks import STOP_TIMEOUT, running

_log = get_log("dra")

MOST = 32
"""Works at once, of all calls together."""

Devices = tuple[PreparedDevice, ...]
Outcome = Devices | Error
Work = Callable[[], Coroutine[Any, Any, Devices]]


@dataclass(frozen=True, slots=True, eq=False)
class _Running:
    what: str
    ref: ClaimRef
    done: asyncio.Future[Outcome]


class ClaimWorks:
    """The works that run now, by the claim's UID. Used within `hosting`."""

    def __init__(self, most: int = MOST, quarantine: Quarantine | None = None) -> None:
        self._quarantine = quarantine
        self._turn = asyncio.Semaphore(most)
        self._running: dict[str, _Running] = {}
        self._group: asyncio.TaskGroup | None = None
        self._hosted = asyncio.Event()

    def __len__(self) -> int:
        return len(self._running)

    @asynccontextmanager
    async def hosting(self) -> AsyncIterator[None]:
        """Works run while entered. Left: those that still run are cancelled; `InvariantError` in one ends the body."""
        async with running(self._host(), name="works on claims", stop_timeout=STOP_TIMEOUT):
            await self._hosted.wait()
            yield

    async def do(self, what: str, ref: ClaimRef, work: Work) -> Outcome:
        """The result of `work`, or of the same that runs already; another one on this claim is waited for first.

        To cancel this does not cancel the work.
        """
        while (other := self._running.get(ref.uid)) is not None:
            await asyncio.wait({other.done})
            if (other.what, other.ref) == (what, ref):
                return _result(other)
        if self._group is None:
            return _stopping(ref)
        mine = _Running(what, ref, asyncio.get_running_loop().create_future())
        self._running[ref.uid] = mine
        self._group.create_task(self._run(mine, work), name=f"{what} {ref}").add_done_callback(
            lambda _: self._over(mine)
        )
        await asyncio.wait({mine.done})
        return _result(mine)

    async def wait_idle(self) -> None:
        """Return when no work runs."""
        while self._running:
            await asyncio.wait({one.done for one in self._running.values()})

    async def _host(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            self._hosted.set()
            try:
                await asyncio.Event().wait()
            finally:
                self._group = None

    async def _run(self, mine: _Running, work: Work) -> None:
        async with self._turn:
            (found,) = await asyncio.gather(self._watched(mine, work), return_exceptions=True)
        if isinstance(found, InvariantError):
            raise found
        if isinstance(found, BaseException) and not isinstance(found, Error):
            found = _bug(mine, found)
        mine.done.set_result(found)

    async def _watched(self, mine: _Running, work: Work) -> Devices:
        if (quarantine := self._quarantine) is None:
            return await work()
        key = _key(mine.what, mine.ref)
        if why := quarantine.why(key):
            raise Error(f"claim {mine.ref}: {why}")
        return await quarantine.steps(key, work())

    def _over(self, mine: _Running) -> None:
        """By the task's end, not in its `finally`: a task that is cancelled before its first step has none."""
        del self._running[mine.ref.uid]
        mine.done.cancel()  # nothing happens to one that has its result


def _key(what: str, ref: ClaimRef) -> str:
    """To give a claim back is another matter than to prepare it: that must go on where this does not."""
    return f"{what} {object_key('resourceclaims', ref.namespace, ref.name, ref.uid)}"


def _result(one: _Running) -> Outcome:
    return _stopping(one.ref) if one.done.cancelled() else one.done.result()


def _stopping(ref: ClaimRef) -> UnavailableError:
    return UnavailableError(f"claim {ref}: the driver is stopping; the kubelet asks again")


def _bug(mine: _Running, found: BaseException) -> Error:
    """A driver's own fault on one claim: told, and no other claim suffers."""
    trace = "".join(traceback.format_exception(found))
    _log.error("the driver failed on a claim", what=mine.what, claim=str(mine.ref), trace=trace)
    return Error(f"claim {mine.ref}: {mine.what} failed with {type(found).__name__}; see the driver's log")
