"""The containers that a `dray up` left running: counted, or ended without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dray.kubelet.runtimes.contract import State
from dray.processes.kubelet import open_runtime
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.files.filelock import FileLock
from dray.up.parts import kubelet_options
from dray.up.place import UpPlace

GRACE: Final = 5.0


@dataclass(frozen=True, slots=True)
class Left:
    """How many there are, and how many of them run."""

    containers: int
    running: int


async def count_containers(place: UpPlace, runtime: str, clock: Clock | None = None) -> Left:
    """Only while no kubelet uses the directory."""
    if not (place.kubelet_state / "containers").is_dir():
        return Left(0, 0)
    async with open_runtime(kubelet_options(place, runtime), clock or SystemClock()) as found:
        containers = await found.containers()
    return Left(len(containers), sum(one.state is State.RUNNING for one in containers))


async def end_containers(
    place: UpPlace, runtime: str, *, forget: bool = False, clock: Clock | None = None
) -> Left:
    """End all that run, asked first and by force after 5 s; what there was. `forget`: nothing of them is kept.

    A kubelet that starts later finds them ended, as after a reboot. ConflictError while one runs.
    """
    if not (place.kubelet_state / "containers").is_dir():
        return Left(0, 0)
    lock = FileLock(place.kubelet_state / "lock")
    lock.acquire()
    try:
        async with open_runtime(kubelet_options(place, runtime), clock or SystemClock()) as found:
            containers = await found.containers()
            runs = [one for one in containers if one.state is State.RUNNING]
            for one in runs:
                await found.stop(one.id, GRACE)
            for sandbox in await found.sandboxes():
                await found.stop_sandbox(sandbox.id)
                if forget:
                    await found.remove_sandbox(sandbox.id)
    finally:
        lock.release()
    return Left(len(containers), len(runs))
