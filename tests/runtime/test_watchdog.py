from __future__ import annotations

import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dray.runtime.clock import FakeClock
from dray.runtime.quarantine import DEATHS, Quarantine
from dray.runtime.watchdog import watchdog

POD = "pods/default/a/0b7a5a29"
PROGRAM = """
import asyncio, ctypes, os, signal, sys, threading, time
from pathlib import Path
from dray.runtime.clock import SystemClock
from dray.runtime.forked import Limits, run_forked
from dray.runtime.quarantine import Quarantine
from dray.runtime.watchdog import watchdog

def burn(seconds):
    ends = time.process_time() + seconds
    while time.process_time() < ends:
        pass

async def work(kind):
    if kind == "python":
        while True:
            pass
    if kind == "C that holds the interpreter":
        pow(3, 10**10)
    if kind == "a wait":
        ctypes.PyDLL(None).usleep(900_000)
    if kind == "turns":
        for _ in range(30):
            burn(0.05)
            await asyncio.sleep(0)
            await asyncio.sleep(0.05)
    if kind == "a copy":
        copy = asyncio.create_task(run_forked(lambda: burn(0.9) or b"", Limits()))
        await copy

async def main():
    with Quarantine(Path(sys.argv[1]), SystemClock()) as quarantine:
        with watchdog(0.4):
            await asyncio.sleep(0)
            await quarantine.steps("pods/default/a/0b7a5a29", work(sys.argv[2]))
    burn(0.6)

asyncio.run(main())
"""


def run(directory: Path, kind: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, str(directory), kind]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("kind", ["python", "C that holds the interpreter"])
def test_a_busy_hang_is_an_end_that_counts_for_what_was_handled(tmp_path: Path, kind: str) -> None:
    for _ in range(DEATHS):
        done = run(tmp_path, kind)
        assert done.returncode == -signal.SIGPROF
        assert "in work" in done.stderr, "it says where"
    with Quarantine(tmp_path, FakeClock(datetime.now(UTC))) as quarantine:
        assert quarantine.why(POD)


@pytest.mark.parametrize("kind", ["a wait", "turns", "a copy"])
def test_who_waits_or_turns_is_left_alone(tmp_path: Path, kind: str) -> None:
    done = run(tmp_path, kind)
    assert (done.returncode, done.stderr) == (0, "")


async def test_it_ends_with_its_body() -> None:
    with watchdog():
        assert 0 < signal.getitimer(signal.ITIMER_PROF)[0] < 61
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
