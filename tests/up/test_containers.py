"""The containers that a `dray up` leaves running."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dray.errors import ConflictError
from dray.kubelet.runtimes.contract import ContainerConfig, PodIdentity, SandboxConfig
from dray.processes.kubelet import open_runtime
from dray.runtime.clock import SystemClock
from dray.runtime.files.filelock import FileLock
from dray.up.containers import Left, count_containers, end_containers
from dray.up.parts import kubelet_options
from dray.up.place import UpPlace


async def start(place: UpPlace, name: str, seconds: str) -> None:
    pod = PodIdentity(f"uid-{name}", "default", name)
    logs = place.pod_logs / name
    async with open_runtime(kubelet_options(place, "process"), SystemClock()) as runtime:
        sandbox = await runtime.run_sandbox(SandboxConfig(pod, name, logs))
        container = ContainerConfig(pod, "main", "none", logs / "0.log", command=("sleep", seconds))
        await runtime.start(await runtime.create(sandbox, container))


async def test_nothing_ever_ran(short: Path) -> None:
    place = UpPlace(short / "up")
    assert await count_containers(place, "process") == await end_containers(place, "process") == Left(0, 0)
    assert not place.data_dir.exists()


async def test_they_are_counted_ended_and_forgotten(short: Path) -> None:
    place = UpPlace(short / "up")
    await start(place, "one", "1000")
    await start(place, "two", "1000")
    assert await count_containers(place, "process") == Left(2, 2)
    assert await end_containers(place, "process") == Left(2, 2)
    assert await count_containers(place, "process") == Left(2, 0)
    await start(place, "three", "1000")
    assert await end_containers(place, "process", forget=True) == Left(3, 1)
    assert await count_containers(place, "process") == Left(0, 0)


async def test_a_kubelet_that_runs_keeps_its_own(short: Path) -> None:
    place = UpPlace(short / "up")
    await start(place, "one", "1000")
    lock = FileLock(place.kubelet_state / "lock")
    lock.acquire()
    try:
        with pytest.raises(ConflictError, match=str(os.getpid()) + "|this process"):
            await end_containers(place, "process")
    finally:
        lock.release()
    assert await end_containers(place, "process", forget=True) == Left(1, 1)
