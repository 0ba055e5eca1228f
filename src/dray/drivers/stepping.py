"""What the managers of host state share: they are asked for one step at a time, and say what it came to."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from dray.drivers.contract import Problem
from dray.drivers.failures import Apply
from dray.errors import ConflictError
from dray.hardware.change import CreateMdev, HostChange
from dray.hardware.change.executor import Applied
from dray.runtime.logs import Log

T = TypeVar("T", bound=Hashable)

ROUNDS = 6
"""Looks and plans in one step. Two suffice where nobody else changes the host; one more sees that all is done."""

LOOK_AGAIN = 60.0
"""Seconds to the next step where a device in use is in the way: that it is free again makes no event on the host."""

MayTake = Callable[[str], bool]
"""Asked for a device (an mdev's UUID, a PCI address) right before it is removed or changed, in the thread of the step.

True: nobody has it, and from now on nobody gets it before the step is over. This closes the gap between the look at what
is held and the change. False keeps the device as it is, and it is asked again after a while.
"""


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did, and what is left. All of it is logged already, each thing once until it changes.

    `unplaced` are entries of the configuration that nothing on this machine matches: no error. `again_in` is when to
    take the next step though nothing is noticed, in seconds; None: not needed.
    """

    changed: tuple[HostChange, ...] = ()
    problems: tuple[Problem, ...] = ()
    unplaced: tuple[str, ...] = ()
    again_in: float | None = None


def asking_first(apply: Apply, may_take: MayTake | None) -> Apply:
    """`apply`, but what takes a device from whoever may have it is asked for first; ConflictError where it is refused."""

    def apply_if_free(change: HostChange) -> Applied:
        if may_take is not None and not isinstance(change, CreateMdev) and not may_take(change.device):
            raise ConflictError(
                f"{change.device} has just been handed out: it is left as it is until it is free"
            )
        return apply(change)

    return apply_if_free


def again_in(next_try: float | None, now: float, *waits: float | None) -> float | None:
    """Seconds to the next step: when a failure may be tried again, or the shortest of `waits`."""
    tries = [*waits, None if next_try is None else max(0.0, next_try - now)]
    return min((seconds for seconds in tries if seconds is not None), default=None)


class Said:
    """What the log has: a thing is said when it comes, and again only when it was away in between."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._last: dict[str, frozenset[Hashable]] = {}

    def news(self, topic: str, items: Iterable[T]) -> list[T]:
        """Those that were not there at the last call for this topic, in their order."""
        now = list(dict.fromkeys(items))
        before = self._last.get(topic, frozenset())
        self._last[topic] = frozenset(now)
        return [item for item in now if item not in before]

    def problems(self, problems: Iterable[Problem]) -> None:
        """One warning for each that is new."""
        for problem in self.news("problem", problems):
            self.log.warning("problem", path=problem.path, what=problem.message)
