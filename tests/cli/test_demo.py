"""The whole demonstration as a user calls it: seen, failed and interrupted; nothing is left in any case."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interrupts import interruptible
from tests.up.up_program import dray, dray_apart
from tests.waiting import PATIENCE

STAGES = [
    "1  Devices are registered",
    "2  A class names them",
    "3  A user asks",
    "4  The scheduler allocates",
    "5  The device is prepared and injected",
    "6  The pod ends, and the device is free again",
    "1  A plugin registers",
    "2  The plugin lists its devices, and the Node counts them",
    "3  A user asks, and the scheduler counts",
    "4  The kubelet chooses, and the plugin allocates",
    "5  The pod ends, and the device is free again",
    "1  A claim that nobody can meet",
]


def marked(directory: Path) -> list[str]:
    """Processes that run as containers of a stack below the directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"DRAY_CONTAINER={directory}".encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


@pytest.fixture
def place() -> Iterator[Path]:
    """Where the demonstration has its directory."""
    with tempfile.TemporaryDirectory(prefix="dray-") as found:
        yield Path(found)


def environment(place: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(place), **more}


def test_every_stage_is_shown_with_who_why_and_how_long(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(place))
    shown = dray_apart("demo", "--runtime", "process")
    assert (shown.returncode, shown.stderr) == (0, ""), shown
    assert [line.strip() for line in shown.stdout.splitlines() if re.match(r" +\d  ", line)] == STAGES
    said = " ".join(shown.stdout.split())
    for pattern in (
        r"containers process: plain processes of this machine, not isolated from it",
        r"\+\d+ ms agent found gpu-0 \(SimGPU-80, 80Gi\), gpu-1 \(SimGPU-80, 80Gi\)",
        r"\+\d+ ms controllers made ResourceClaim hello-claim-gpu-",
        r"\+\d+ ms scheduler chose gpu-0 of demo \(2 of 2 devices are as asked for",
        r"\+\d+ ms driver prepared gpu-0 \(NodePrepareResources\)",
        r"environment SIM_RESOURCE_GPU_GPU=gpu-0; device nodes /dev/dray-sim/gpu-0\)",
        r"\| I am process \d+, and see \d+ processes ",
        r"\+\d+ ms driver took gpu-0 back \(NodeUnprepareResources\)",
        r"kubelet wrote example.com/card: 2 into Node demo",  # without a time, where it was before the list was seen
        r"\+\d+ ms kubelet chose card-[01] and called Allocate",
        r"\| variable SIM_RESOURCE_EXAMPLE_COM_CARD=card-[01] ",
        r"\$ dray explain pod/too-big Pod default/too-big does not fit on the one node",
        r"memory is 80Gi ",
        r"What would make it fit",
        r"That was all, in \d+\.\d s; its processes, sockets and files are gone\. Next: dray up ",
    ):
        assert re.search(pattern, said), f"{pattern}\n{shown.stdout}"
    assert "\033" not in shown.stdout
    assert list(place.iterdir()) == [] and marked(place) == []


def stop_with_container(process: subprocess.Popen[str], place: Path) -> None:
    """Halt it while a container runs. The container lives no longer than the demonstration shows it."""
    end = time.monotonic() + 60
    while True:
        assert process.poll() is None and time.monotonic() < end, "no container was seen"
        if marked(place):
            process.send_signal(signal.SIGSTOP)
            if marked(place):
                return
            process.send_signal(signal.SIGCONT)
        time.sleep(0.01)


def test_an_interruption_in_the_middle_leaves_nothing(place: Path) -> None:
    words = [sys.executable, "-m", "dray", "demo", "--runtime", "process", "--keep"]
    with interruptible():
        started = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(place)
        )
    with started as process:
        stop_with_container(process, place)
        (kept,) = place.iterdir()
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130
    assert said == "Interrupted; everything was cleaned up.\n"
    assert marked(kept) == []
    assert (kept / "apiserver").is_dir(), "it was to be kept"
    assert dray("down", "--purge", "--yes", "--data-dir", str(kept)).returncode == 0
    assert not kept.exists()


def test_a_failure_is_told_with_the_stage_and_what_to_do(place: Path) -> None:
    """No file may have more than 4 KiB, and so none of what `make coverage` writes."""
    unmeasured = {key: value for key, value in environment(place).items() if not key.startswith("COVERAGE_")}
    demo = f"ulimit -f 4; exec {sys.executable} -m dray demo --runtime process -o json"
    done = subprocess.run(
        ["bash", "-c", demo],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=unmeasured,
    )
    assert done.returncode == 1, done
    first, *rest = done.stderr.splitlines()
    assert first.startswith("dray: the demonstration failed at the start: ")
    assert "dray doctor" in rest[-1] and "Traceback" not in done.stderr
    failure = json.loads(done.stdout)["failure"]
    assert failure["where"] == "the start" and first.endswith(failure["error"])
    assert list(place.iterdir()) == []
