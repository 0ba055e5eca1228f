"""The ledger's process is killed: what it answered for is held."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dray.inventory.holds import Holds
from dray.runtime.clock import FakeClock
from tests.campaign import campaign, seeded
from tests.processes.fault_points import ANY, DIES, Target

PROGRAM = """
import asyncio, os, sys, time
from pathlib import Path
from dray.dra.parcels import ClaimRef
from dray.inventory.holds import Holds
from dray.inventory.ledger import KubeletLook
from dray.runtime.clock import SystemClock
from tests.inventory.conftest import gpu
from tests.processes.fault_points import FaultPoints

async def main() -> None:
    FaultPoints(Path(sys.argv[1] + ".target")).watch_effects()
    with Holds(Path(sys.argv[1]), SystemClock()) as holds:
        holds.looked(KubeletLook(time.monotonic()), [])
        door = holds.claim_door("gpu")
        for number in range(100_000):
            if number % 2:
                await holds.take_plugin("example.com/gpu", [gpu(number)])
            else:
                await door.take(ClaimRef("default", "c", str(number)), [gpu(number)])
            os.write(1, b"%d\\n" % number)

asyncio.run(main())
"""


def check_wreck(path: Path, answered: int) -> None:
    """All that was answered for is held, and at most what was asked for last."""
    with Holds(path, FakeClock()) as holds:
        held = {hold.device for hold in holds.current.holds}
    assert held >= {f"gpu-{number}" for number in range(answered + 1)}
    assert len(held) <= answered + 2
    assert not list(path.parent.glob("holds.corrupt-*"))


def start(path: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", PROGRAM, str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": "."})


def test_what_was_answered_survives_a_kill_at_any_moment(tmp_path: Path) -> None:
    rng = seeded(6)
    for round_ in range(campaign(1, 60)):
        path = tmp_path / f"{round_}" / "holds"
        with start(path) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(rng.randrange(1, 60))]
            process.send_signal(signal.SIGKILL)
            answered = int((lines + process.stdout.readlines())[-1])
        check_wreck(path, answered)


@pytest.mark.parametrize("place", ["before os.rename holds", ANY])
def test_what_was_answered_survives_a_kill_at_each_step(tmp_path: Path, place: str) -> None:
    for count in range(2, 2 + campaign(1, 20)):
        path = tmp_path / f"{count}" / "holds"
        path.parent.mkdir()
        Target(place, count * 3).write(path.with_name("holds.target"))
        with start(path) as process:
            assert process.stdout is not None
            lines = process.stdout.read().splitlines()
        assert lines[-1].decode().startswith(DIES)
        answered = [int(line) for line in lines if line.isdigit()]
        check_wreck(path, answered[-1] if answered else -1)
