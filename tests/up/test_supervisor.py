"""The supervisor: starts again what dies, ends what it started, and tells how it goes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dray.errors import ConflictError
from dray.runtime.backoff import BackoffPolicy
from dray.runtime.clock import SystemClock
from dray.runtime.tasks import running
from dray.up.place import Supervising, UpPlace
from dray.up.supervisor import SupervisorOptions, run_supervisor
from tests.waiting import until, wait_until

QUICK = BackoffPolicy(first=0.01, limit=0.02)


class WaitsNoted(SystemClock):
    """How long the supervisor meant to wait; it waits less. The fourth life, a line of `lives`, takes an hour."""

    def __init__(self, lives: Path) -> None:
        self.pauses: list[float] = []
        self._lives = lives

    def monotonic(self) -> float:
        return 3600.0 if self._lives.exists() and len(self._lives.read_text()) // 2 >= 4 else 0.0

    async def sleep(self, seconds: float) -> None:
        if seconds != 5.0:  # the log's
            self.pauses.append(seconds)
        await super().sleep(min(seconds, 0.01) if seconds != 5.0 else seconds)


def script(text: str) -> tuple[str, ...]:
    return "sh", "-c", text


@asynccontextmanager
async def supervised(place: UpPlace, *command: str) -> AsyncIterator[None]:
    options = SupervisorOptions(place, command, QUICK)
    async with running(run_supervisor(options), name="supervisor", stop_timeout=30):
        yield


async def wait_record(place: UpPlace, restarts: int = 0) -> Supervising:
    found: list[Supervising] = []

    async def is_there() -> bool:
        known = place.read(Supervising)
        if known is not None and known.child and known.restarts >= restarts:
            found.append(known)
        return bool(found)

    await until(is_there)
    return found[0]


async def test_what_dies_is_started_again_and_counted(short: Path) -> None:
    place, lives = UpPlace(short), short / "lives"

    async def wait_life(number: int) -> Supervising:
        """It is only killed once it has written its line."""
        record = await wait_record(place, number)
        await wait_until(lambda: lives.exists() and lives.read_text() == "1\n" * (number + 1))
        return record

    async with supervised(place, *script(f"echo ${{DRAY_SUPERVISED}} >> {lives}; exec sleep 1000")):
        first = await wait_life(0)
        assert (first.pid, first.restarts, first.last) == (os.getpid(), 0, "")
        os.kill(first.child, signal.SIGKILL)
        second = await wait_life(1)
        assert second.child != first.child and second.last == "signal SIGKILL"
        os.kill(second.child, signal.SIGTERM)
        third = await wait_life(2)
        assert third.last == "signal SIGTERM"
    assert not place.supervisor_file.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(third.child, 0)
    assert lives.read_text() == "1\n1\n1\n"


async def test_an_end_with_success_was_asked_for(short: Path) -> None:
    place = UpPlace(short)
    await asyncio.wait_for(run_supervisor(SupervisorOptions(place, script("exit 0"), QUICK)), 60)
    assert not place.supervisor_file.exists()


async def test_it_waits_longer_each_time_and_starts_over_after_a_steady_run(short: Path) -> None:
    lives = short / "lives"
    # Three short lives, one that counts as steady, and two short ones.
    text = f"echo x >> {lives}; n=$(wc -l < {lives}); [ $n = 7 ] && exit 0; exit 3"
    clock = WaitsNoted(lives)
    pauses = BackoffPolicy(first=1.0, limit=30.0, jitter=0.0)
    options = SupervisorOptions(UpPlace(short / "up"), script(text), pauses, steady=60)
    await asyncio.wait_for(run_supervisor(options, clock), 60)
    assert clock.pauses == [1.0, 2.0, 4.0, 1.0, 2.0, 4.0]


async def test_a_second_supervisor_is_refused(short: Path) -> None:
    place = UpPlace(short)
    async with supervised(place, *script("exec sleep 1000")):
        known = await wait_record(place)
        with pytest.raises(ConflictError, match=r"a supervisor runs already.*`dray down`"):
            await run_supervisor(SupervisorOptions(place, script("exit 0"), QUICK))
        assert place.read(Supervising) == known


async def test_the_child_is_asked_to_end_and_waited_for(short: Path) -> None:
    place = UpPlace(short)
    text = (
        "import signal, sys, time, pathlib\n"
        f"signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.3), pathlib.Path('{short}/ended').touch(), sys.exit(0)))\n"
        f"pathlib.Path('{short}/began').touch()\n"
        "time.sleep(1000)\n"
    )
    async with supervised(place, sys.executable, "-c", text):
        await until(lambda: asyncio.to_thread((short / "began").exists))
    assert (short / "ended").exists()
