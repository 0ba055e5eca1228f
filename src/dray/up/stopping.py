"""Ending a `dray up` from outside, and removing what it kept. Takes its time; nothing here runs in the process it ends."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Final

from dray.api.core import Pod
from dray.api.kinds import PODS
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.client.requests import DeleteOptions, Selection
from dray.errors import ConflictError, DeniedError, NotFoundError, UnavailableError
from dray.kubelet.runtimes.shim import start_time
from dray.runtime.clock import Clock
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.logs import get_log
from dray.up.place import RunningUp, Supervising, UpPlace, lock_holder
from dray.up.supervisor import STOP_SECONDS

_log = get_log("down")

_LOOK: Final = 0.05
_POD_SECONDS: Final = 45.0
_GRACE: Final = 5
OURS: Final = (
    "agent", "apiserver", "cdi", "controllers", "dashboard", "kubelet", "dashboard.token", "dray.log", "dray.log.1", "dray.log.2", "dray.log.3",
    "kept.json", "scheduler", "supervisor.json", "supervisor.lock", "up.json", "up.lock",
)  # fmt: skip
"""All that a `dray up` makes in its data directory. Nothing else there is ever removed."""


async def stop(place: UpPlace, clock: Clock) -> int | None:
    """Ask it to end and wait until it has; the process that was asked, None where nothing runs.

    The supervisor is asked where there is one, else `dray up` itself, also one that is not ready yet. ConflictError where
    systemd would start it again.
    """
    running = place.read(RunningUp)
    supervisor = place.read(Supervising)
    if supervisor is None and running is not None and running.supervisor == "systemd":
        raise ConflictError(
            "it runs as a service of systemd, which would start it again: `systemctl stop dray`"
        )
    pids = [found.pid for found in (supervisor, running) if found is not None]
    holders = (lock_holder(place.supervisor_lock), lock_holder(place.lock))
    pids += [pid for pid in holders if pid and pid not in pids]
    for pid in pids:
        await _end(pid, clock)
    return pids[0] if pids else None


async def _end(pid: int, clock: Clock) -> None:
    started = start_time(pid)
    if started is None:
        return
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError:
        raise DeniedError(
            f"process {pid} belongs to another user: run `dray down` as that one, or as root"
        ) from None
    end = clock.monotonic() + STOP_SECONDS + 10.0
    while start_time(pid) == started:
        if clock.monotonic() > end:
            raise UnavailableError(
                f"process {pid} was asked to end and does not; `kill -9 {pid}` ends it by force"
            )
        await clock.sleep(_LOOK)


async def delete_pods(place: UpPlace, clock: Clock) -> int:
    """Delete all pods of a `dray up` that runs, so that their devices are given back; how many there were. 45 s at most.

    One that does not answer any more is left to be ended without it.
    """
    running = place.read(RunningUp)
    if running is None:
        return 0
    try:
        return await _delete_all(running, clock)
    except UnavailableError as error:
        _log.warning("its pods were not deleted", error=str(error))
        return 0


async def _delete_all(running: RunningUp, clock: Clock) -> int:
    async with Client(find_access(Path(running.kubeconfig)), clock=clock) as client:
        # Those that wait go first: they would get what the others give back. Some may be bound meanwhile, so it looks again.
        waiting, here = Selection(fields="spec.nodeName="), Selection(fields=f"spec.nodeName={running.node}")
        seen: set[str] = set()
        end = clock.monotonic() + _POD_SECONDS
        while clock.monotonic() < end:
            pods = [*(await client.list(PODS, waiting)).items, *(await client.list(PODS, here)).items]
            if not pods:
                break
            for pod in pods:
                if pod.metadata.deletion_timestamp is None:
                    await _delete(client, pod)
                seen.add(pod.metadata.uid)
            await clock.sleep(_LOOK * 4)
    return len(seen)


async def _delete(client: Client, pod: Pod) -> None:
    name, namespace = pod.metadata.name, pod.metadata.namespace
    try:
        await client.delete(PODS, name, namespace=namespace, options=DeleteOptions(grace_period=_GRACE))
    except NotFoundError:
        return


def purge(place: UpPlace) -> list[str]:
    """Remove what `dray up` made, and the directory if nothing else is in it; gives what is left there.

    ConflictError where something is mounted below it: to remove what is in another file system would be worse.
    """
    if mounted := mounts_below(place.data_dir):
        raise ConflictError(f"{mounted[0]!r} is mounted in the data directory: unmount it, then try again")
    try:
        for name in OURS:
            path = place.data_dir / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        left = sorted(one.name for one in place.data_dir.iterdir()) if place.data_dir.is_dir() else []
        if not left and place.data_dir.is_dir():
            place.data_dir.rmdir()
    except OSError as error:
        raise from_os_error(error, "remove", str(error.filename or place.data_dir)) from error
    return left


def mounts_below(directory: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> list[str]:
    """Mount points inside the directory (itself may be one), deepest last."""
    prefix = f"{directory.resolve()}/"
    try:
        lines = mountinfo.read_text(errors="surrogateescape").splitlines()
    except OSError as error:
        raise from_os_error(error, "read", str(mountinfo)) from error
    points = (line.split(" ")[4] for line in lines)
    return sorted(
        point
        for point in (one.encode(errors="surrogateescape").decode("unicode_escape") for one in points)
        if point.startswith(prefix)
    )
