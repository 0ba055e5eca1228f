"""Is that process still the one we know? By pid, start time and boot, so that a reused number never counts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec

from dray.kubelet.runtimes.shim import boot_id, start_time

_PF_EXITING = 0x4


class Identity(msgspec.Struct, frozen=True):
    """One process, for all time. `start` is in clock ticks since the boot."""

    pid: int
    start: int
    boot: str

    @property
    def is_of_this_boot(self) -> bool:
        """False: it is gone with the whole machine."""
        return self.boot == boot_id()

    @property
    def is_alive(self) -> bool:
        """False also for one that only waits to be reaped."""
        return self.is_of_this_boot and start_time(self.pid) == self.start

    @property
    def is_at_work(self) -> bool:
        """Alive, and not on its way out: one that was killed closes its files a moment before it is gone."""
        return self.is_alive and not _is_leaving(self.pid)


def _is_leaving(pid: int) -> bool:
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return bool(int(fields[6]) & _PF_EXITING)


def open_process(process: Identity) -> int | None:
    """A pidfd of exactly this process, readable when it ended; None when it is gone."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    # Looked at after opening: if it is ours now, the descriptor is its, whatever the number means later.
    if process.is_alive:
        return descriptor
    os.close(descriptor)
    return None


def send(process: Identity, number: signal.Signals) -> bool:
    """Signal exactly this process; False when it is gone."""
    descriptor = open_process(process)
    if descriptor is None:
        return False
    try:
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


async def wait_ended(process: Identity, seconds: float) -> bool:
    """Whether it ended within this time."""
    descriptor = open_process(process)
    if descriptor is None:
        return True
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        async with asyncio.timeout(seconds):
            await ended.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    return True


def find_marked(mark: str) -> Iterator[Identity]:
    """All processes that have this `NAME=value` in the environment they were started with, as far as we may look."""
    wanted = mark.encode()
    boot = boot_id()
    for name in sorted(os.listdir("/proc")):  # noqa: PTH208
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError):
            with open(f"/proc/{name}/environ", "rb") as file:  # noqa: PTH123
                is_marked = wanted in file.read().split(b"\0")
            if is_marked and (start := start_time(int(name))) is not None:
                yield Identity(int(name), start, boot)
