"""The supervisor of `dray up --detach`: starts it again when it dies, and keeps its log short. It knows nothing else."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from dray.errors import ConflictError
from dray.kubelet.runtimes.shim import boot_id, start_time
from dray.runtime.backoff import Backoff, BackoffPolicy
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.files.filelock import FileLock
from dray.runtime.logs import get_log
from dray.runtime.tasks import running
from dray.up.log import keep_short
from dray.up.notify import SUPERVISED
from dray.up.place import Supervising, UpPlace

_log = get_log("supervisor")

STOP_SECONDS: Final = 75.0
"""After so long it is ended by force: the agent finishes calls that run, and that may take a minute."""
_PAUSES: Final = BackoffPolicy(first=1.0, limit=30.0)
_STEADY: Final = 60.0


@dataclass(frozen=True, slots=True)
class SupervisorOptions:
    """`command` is what runs; its output goes where ours goes."""

    place: UpPlace
    command: Sequence[str]
    pauses: BackoffPolicy = _PAUSES
    steady: float = _STEADY


async def run_supervisor(options: SupervisorOptions, clock: Clock | None = None) -> None:
    """Until cancelled, or until the command ends with success: somebody asked it to. ConflictError where one runs already."""
    clock, place = clock or SystemClock(), options.place
    place.make()
    lock = FileLock(place.supervisor_lock)
    try:
        lock.acquire()
    except ConflictError as error:
        raise ConflictError(f"a supervisor runs already: {error}; `dray down` stops it") from None
    try:
        async with running(keep_short(place.log, clock), name="log"):
            await _Supervisor(options, clock).run()
    finally:
        place.remove(Supervising)
        lock.release()


class _Supervisor:
    def __init__(self, options: SupervisorOptions, clock: Clock) -> None:
        self._options, self._clock = options, clock
        pid = os.getpid()
        self._record = Supervising(pid=pid, start_time=start_time(pid) or 0, boot=boot_id())

    async def run(self) -> None:
        backoff = Backoff(self._options.pauses)
        while True:
            started = self._clock.monotonic()
            code = await self._run_once()
            if code == 0:
                _log.info("it ended, and is not started again")
                return
            self._tell(child=0, restarts=self._record.restarts + 1, last=_told(code))
            if self._clock.monotonic() - started >= self._options.steady:
                backoff.reset()
            pause = backoff.next()
            _log.warning("dray up died and is started again", how=_told(code), pause_s=round(pause, 1))
            await self._clock.sleep(pause)

    async def _run_once(self) -> int:
        environment = {**os.environ, SUPERVISED: "1"}
        child = await asyncio.create_subprocess_exec(*self._options.command, stdin=DEVNULL, env=environment)
        try:
            self._tell(child=child.pid)
            return await child.wait()
        finally:
            await _end(child)

    def _tell(self, *, child: int, restarts: int | None = None, last: str | None = None) -> None:
        known = self._record
        self._record = msgspec.structs.replace(
            known,
            child=child,
            restarts=known.restarts if restarts is None else restarts,
            last=known.last if last is None else last,
        )
        self._options.place.write(self._record)


async def _end(child: Process) -> None:
    """As we were asked to end: gently, then by force."""
    if child.returncode is not None:
        return
    child.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(child.wait(), STOP_SECONDS)
    except TimeoutError:
        _log.error("dray up does not end, killed", waited_s=STOP_SECONDS)
        child.kill()
        await asyncio.wait_for(child.wait(), STOP_SECONDS)


def _told(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"signal {signal.Signals(-code).name}"
