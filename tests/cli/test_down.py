"""`dray up --detach`, `dray status` and `dray down`, as a user types them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.up.choice import free_port
from dray.up.place import RunningUp, Supervising, UpPlace
from tests.up.up_program import dray, dray_apart
from tests.waiting import block_until


@pytest.fixture
def place() -> Iterator[UpPlace]:
    directory = Path(tempfile.mkdtemp(prefix="dray-"))
    made = UpPlace(directory / "up")
    try:
        yield made
    finally:
        dray("down", "--purge", "--yes", "--data-dir", str(made.data_dir))
        shutil.rmtree(directory)


def test_in_the_background_killed_and_ended(place: UpPlace) -> None:
    flag = ("--data-dir", str(place.data_dir))
    listen = ("--listen", f"127.0.0.1:{free_port()}")
    begun = dray_apart("up", "--detach", *flag, *listen, "--runtime", "process", "--no-dashboard")
    assert begun.returncode == 0, begun.stderr
    assert "runs on this machine" in begun.stdout and "`dray down` ends it" in begun.stdout
    known, supervisor = place.read(RunningUp), place.read(Supervising)
    assert known is not None and supervisor is not None
    assert known.supervisor == "dray" and supervisor.child == known.pid
    assert os.getsid(supervisor.pid) == supervisor.pid, "it has a session of its own"
    assert "msg=ready" in place.log.read_text() and place.log.stat().st_mode & 0o777 == 0o600

    again = dray("up", "--detach", *flag)
    assert again.returncode == 1 and f"process {known.pid}" in again.stderr
    here = dray("up", *flag)
    assert here.returncode == 1 and f"a supervisor (process {supervisor.pid})" in here.stderr

    os.kill(known.pid, signal.SIGKILL)
    block_until(
        lambda: (found := place.read(RunningUp)) is not None and found.pid != known.pid, "it to come back"
    )
    status = json.loads(dray("status", *flag, "-o", "json").stdout)
    assert status["supervisor"]["restarts"] == 1 and status["running"]["server"] == known.server

    refused = dray("down", "--purge", *flag)
    assert refused.returncode == 2 and "--yes" in refused.stderr
    assert place.read(RunningUp) is not None

    ended = dray("down", *flag)
    assert ended.returncode == 0 and f"process {supervisor.pid} ended" in ended.stdout
    assert place.read(RunningUp) is None and place.read(Supervising) is None
    assert dray("status", *flag).returncode == 1

    twice = dray("down", *flag)
    assert twice.returncode == 0 and "does not run" in twice.stdout
    purged = dray("down", "--purge", "--yes", *flag)
    assert purged.returncode == 0 and f"Removed {place.data_dir}." in purged.stdout
    assert not place.data_dir.exists()


def test_one_that_cannot_start_shows_its_last_words_and_leaves_nothing_running(place: UpPlace) -> None:
    place.make()
    config = place.data_dir / "bad.yaml"
    config.write_text("nonsense: true\n")
    flag = ("--data-dir", str(place.data_dir))
    failed = dray("up", "--detach", *flag, "--config", str(config), "--listen", f"127.0.0.1:{free_port()}")
    assert failed.returncode == 1
    assert "it did not start" in failed.stderr and "nonsense: unknown field" in failed.stderr
    assert str(place.log) in failed.stderr
    assert place.read(Supervising) is None and place.read(RunningUp) is None
