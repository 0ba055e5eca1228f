"""`dray bench up`: the whole stack in one process with a fleet of 1,000 hollow nodes of eight GPUs each.

How long until all slices are there, how long until 1,000 pods with a claim each, created at once, run or know why not, and
what the process takes of the machine: memory, and processor time when all is quiet. There is no peer: nobody else runs
all of it in one process.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from dray.bench.agent_process import cpu_seconds, memory_of
from dray.bench.left_out import LeftOut
from dray.bench.measure import Figure
from dray.bench.up_load import Settled, settle_pods
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.errors import UnavailableError
from dray.testing.kubernetes.part import last_lines
from dray.up.place import RunningUp, UpPlace

Say = Callable[[str], None]

_PATIENCE: Final = 300.0
_LOOK: Final = 0.05
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything. `impossible` of the pods ask for more GPUs than any node has.

    Seconds: `rest`, until the last Events are written; `idle`, in which the quiet process is watched.
    """

    profile: str = "1000x8"
    pods: int = 1000
    impossible: int = 50
    rest: float = 30.0
    idle: float = 20.0


def figures(*, sizes: Sizes | None = None, say: Say = lambda _: None) -> Iterator[Figure | LeftOut]:
    """All figures; `say` hears of the progress."""
    wanted = sizes or Sizes()
    with TemporaryDirectory(prefix="dray-up-") as directory:
        place = UpPlace(Path(directory))
        say(f"starting dray up --sim {wanted.profile}")
        started = time.perf_counter()
        with _started(place, wanted.profile) as process:
            running = _wait_ready(place, process)
            ready = time.perf_counter() - started
            yield Figure(f"{wanted.profile}: start until all slices are there", "s", ready)
            yield Figure(f"{wanted.profile}: memory when ready", "MiB", memory_of(running.pid).rss)
            yield from asyncio.run(_measure(running, wanted, say))


async def _measure(running: RunningUp, wanted: Sizes, say: Say) -> list[Figure]:
    """Under load, and when it is quiet again."""
    say(f"{wanted.pods} pods with a claim each, at once")
    before = cpu_seconds(running.pid)
    async with Client(find_access(Path(running.kubeconfig))) as client:
        settled = await settle_pods(client, wanted.pods, wanted.impossible, _PATIENCE)
    found = list(_of_load(wanted, settled, cpu_seconds(running.pid) - before))
    found.append(Figure(f"{wanted.profile}: memory with the pods", "MiB", memory_of(running.pid).rss))
    say(f"{wanted.rest + wanted.idle:g} s of quiet")
    await asyncio.sleep(wanted.rest)
    before = cpu_seconds(running.pid)
    await asyncio.sleep(wanted.idle)
    share = (cpu_seconds(running.pid) - before) / wanted.idle * 100
    return [*found, Figure(f"{wanted.profile}: CPU when quiet, of one core", "%", share)]


def _of_load(wanted: Sizes, settled: Settled, spent: float) -> Iterator[Figure]:
    name = f"{wanted.profile}: {wanted.pods} pods, {wanted.impossible} impossible"
    yield Figure(f"{name}: all run or are explained", "s", settled.seconds)
    yield Figure(f"{name}: running", "pods", settled.running, higher_is_better=True)
    yield Figure(f"{name}: explained", "pods", settled.explained)
    yield Figure(f"{name}: CPU of all parts together", "ms/pod", spent / wanted.pods * 1e3)


@contextmanager
def _started(place: UpPlace, profile: str) -> Iterator[subprocess.Popen[bytes]]:
    words = ["up", "--data-dir", str(place.data_dir), "--sim", profile]
    words += ["--runtime", "process", "--listen", "127.0.0.1:0"]
    with place.log.open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", "dray", *words], stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_ready(place: UpPlace, process: subprocess.Popen[bytes]) -> RunningUp:
    end = time.monotonic() + _PATIENCE
    while (found := place.read(RunningUp)) is None:
        if process.poll() is not None or time.monotonic() > end:
            raise UnavailableError(f"`dray up` is not ready; its log ends: {last_lines(place.log, _SHOWN)}")
        time.sleep(_LOOK)
    return found
