"""A host made of files with two cards, and what a manager needs there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from dray.drivers.mdev.manager import MdevManager
from dray.errors import HardwareError
from dray.hardware.change import CreateMdev, HostChange
from dray.hardware.change.executor import Applied, Audit, Executor
from dray.hardware.host_root import HostRoot
from dray.runtime.clock import SystemClock
from dray.testing.host import Host, MdevParent, MdevType

TYPES = {"nvidia-222": MdevType(3, "GRID T4-1B"), "nvidia-223": MdevType(2, "GRID T4-2B")}
THEIRS = "00000000-0000-4000-8000-000000000001"


class Time(SystemClock):
    """Moves when told."""

    seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds


class Hands:
    """An executor for the host; creations on a card in `refused` fail so many times.

    As with a kernel all counts are right when a write returns: a card of files shows them a moment after the device.
    """

    def __init__(self, host: Host, audit: Audit = lambda entry: None) -> None:
        self._host = host
        self._executor = Executor(host.root, audit, isolate=False)
        self.refused: Counter[str] = Counter()

    def apply(self, change: HostChange) -> Applied:
        if isinstance(change, CreateMdev) and self.refused[change.parent] > 0:
            self.refused[change.parent] -= 1
            raise HardwareError("the driver is ill")
        applied = self._executor.apply(change)
        self._host.settle()
        return applied


def new_manager(host: Host, state: Path) -> MdevManager:
    """As another process would have it, once it is entered."""
    return MdevManager(HostRoot(host.root), state, Hands(host).apply)


def types(host: Host, parents: list[MdevParent]) -> list[list[str]]:
    """What is on each card now."""
    host.settle()
    return [sorted(mdev.type_id for mdev in parent.mdevs.values()) for parent in parents]
