"""Processes killed with -9 at every step of preparing and giving back, several at once on one directory, and random lives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.campaign import LONG, campaign, seeds

ROOT = Path(__file__).parents[2]
STEPS = {
    "started",
    "taken",
    "host changed",
    "completed",
    "host restored",
    "given back",
    "forgotten",
}
KILLED = 9


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """In memory: what counts here is the order of things, not the disk."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as made:
        yield Path(made)


def run(what: str, directory: Path, count: int, seed: int) -> Any:
    argv = [sys.executable, "-m", "tests.dra.prepare_kills", what, str(directory), str(count), str(seed)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_killed_at_every_step(directory: Path) -> None:
    stride = campaign(8, 1)
    outcome = run("every_point", directory, stride, 5)
    assert outcome["faults"] == []
    assert set(outcome["points"]) >= STEPS | {
        "before os.rename prepared-claims",
        "before os.rename prepared-claims.recent",
        "before os.rename N_a.json",
        "before os.rename kNs.test.dray.internal-claim_N.yaml",
    }
    assert outcome["kills"] >= (69 if LONG else 8)


@pytest.mark.parametrize("seed", seeds(1, 25))
def test_random_lives(directory: Path, seed: int) -> None:
    outcome = run("random_lives", directory, campaign(25, 200), seed)
    assert outcome["faults"] == []
    assert outcome["kills"] > 0


@pytest.mark.parametrize("seed", seeds(2, 40))
def test_several_processes_at_once(directory: Path, seed: int) -> None:
    count = campaign(12, 60)
    outcome = run("together", directory, count, seed)
    assert outcome["ends"][1:] == [0, 0]
    assert outcome["ends"][0] in ((0, KILLED) if seed % 2 else (0,))
    assert outcome["same"]
    assert set(outcome["given"].values()) == {1}
    assert len(outcome["given"]) == outcome["held"] == count * 3 // 4
    assert outcome["phases"] == ["PrepareCompleted"]
    assert outcome["leaks"] == {}
