"""Why a pod was refused, for its Event: as often as there is time for it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from dray.allocation.budget import Budget
from dray.runtime.clock import Clock
from dray.scheduler.claims.reasons import why_nowhere
from dray.scheduler.decision import Refused

_EXPLAINED: Final = 1000
"""Pods whose last reason is remembered."""


class Reasons:
    """Explanations cost a look at all devices: they get a tenth of the time, and between them the last one is said again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next = 0.0
        self._last: OrderedDict[str, str] = OrderedDict()

    def of(self, refused: Refused, budget: Budget) -> str:
        """Why the nodes that are short of devices are; "" where it is not known (yet)."""
        uid = refused.pod.metadata.uid
        started = self._clock.monotonic()
        if refused.asked is None or not refused.short:
            return ""
        if started >= self._next:
            self._last[uid] = why_nowhere(refused.asked, refused.short, budget)
            ended = self._clock.monotonic()
            self._next = ended + 9 * (ended - started)
            while len(self._last) > _EXPLAINED:
                self._last.popitem(last=False)
        return self._last.get(uid, "")
