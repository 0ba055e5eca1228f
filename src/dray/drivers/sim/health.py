"""Scripted faults: which of them are there now, and when that changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dray.api.taints import DeviceTaint
from dray.drivers.contract import Health, Problem
from dray.drivers.sim.config import SimFault
from dray.errors import Error, NotFoundError
from dray.hardware.facts import problem_of, showable
from dray.hardware.host_root import Place

_NO_REASON = "simulated fault"
_REASON_LENGTH = 200
_FILE_LIMIT = 1 << 16
MAX_TAINTS = 8
"""Half of what a ResourceSlice has room for: others taint a device too."""
_LEAST_WAIT = 0.001
"""Seconds. Without it a rest that rounding left could be too short to move any clock on."""


@dataclass(slots=True)
class Faults:
    """What one look found. `reasons` has the devices that are not healthy; `again_in` is as in `Discovery`."""

    reasons: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    taints: dict[str, list[DeviceTaint]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    again_in: float | None = None

    def add(self, fault: SimFault, reason: str) -> None:
        """Of several faults of one device the first tells the reason; one that takes it away counts in any place."""
        if fault.gone:
            self.gone.add(fault.device)
        elif not fault.taints or fault.health == Health.UNHEALTHY:
            self.reasons.setdefault(fault.device, reason)
        known = self.taints.setdefault(fault.device, []) if fault.taints else []
        known += [DeviceTaint(key=one.key, value=one.value, effect=one.effect) for one in fault.taints]

    def taints_of(self, *device_ids: str) -> tuple[DeviceTaint, ...]:
        """Of a partition with its device: those of both. Of one key and effect the first counts."""
        found: dict[tuple[str, str], DeviceTaint] = {}
        for device_id in device_ids:
            for taint in self.taints.get(device_id, ()):
                found.setdefault((taint.key, taint.effect), taint)
        return tuple(found.values())[:MAX_TAINTS]

    def look_again(self, seconds: float | None) -> None:
        """The soonest counts."""
        if seconds is not None:
            wait = max(seconds, _LEAST_WAIT)
            self.again_in = wait if self.again_in is None else min(self.again_in, wait)


def look(faults: Iterable[SimFault], root: Place, elapsed: float) -> Faults:
    """All faults `elapsed` seconds after the start."""
    found = Faults()
    for fault in faults:
        if fault.while_file:
            _look_at_file(fault, root, found)
        else:
            is_there, change = phase(fault, elapsed)
            found.look_again(change)
            if is_there:
                found.add(fault, fault.reason or _NO_REASON)
    return found


def phase(fault: SimFault, elapsed: float) -> tuple[bool, float | None]:
    """Whether a fault by time is there, and the seconds until that changes; None: never."""
    since = elapsed - (fault.after_seconds or 0.0)
    if since < 0:
        return False, -since
    if fault.for_seconds is None:
        return True, None
    if fault.every_seconds is not None:
        since %= fault.every_seconds
    if since < fault.for_seconds:
        return True, fault.for_seconds - since
    return False, None if fault.every_seconds is None else fault.every_seconds - since


def _look_at_file(fault: SimFault, root: Place, found: Faults) -> None:
    path = fault.while_file
    try:
        text = _first_line(root.read_text(path, _FILE_LIMIT))
    except NotFoundError:
        return
    except Error as error:  # it is there, or nobody can tell: both are a fault
        problem = problem_of(error, path)
        found.problems.append(problem)
        text = problem.message
    found.add(fault, text or fault.reason or f"{path} exists")


def _first_line(text: str) -> str:
    return showable(text.partition("\n")[0].strip())[:_REASON_LENGTH]
