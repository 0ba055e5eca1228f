"""How long a question may take. Whoever works long says so as it goes: `charge` for each piece of work, which looks at
the clock now and then and raises once the time is over.

The room has no clock of its own: without one that is handed in nothing ever ends, and the same question always has the
same answer. One budget may be shared by everything that one decision needs, expressions and searches alike.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final, Protocol

from dray.allocation.faults import TimeLimitError

Now = Callable[[], float]
"""Seconds that only ever grow, such as `time.monotonic`."""

LOOK: Final = 256
"""So much work may pass between two looks at the clock. A unit is some operations on one device: about a microsecond."""

FILTER_SECONDS: Final = 10.0
"""After so long kube-scheduler ends the search on a node."""


class Spending(Protocol):
    """What long work asks for, wherever it is done."""

    def charge(self, amount: int = 1) -> None:
        """So much work was done or is about to be; raises once too much was."""
        ...

    def check(self) -> None:
        """Raise if the time is over."""
        ...


class Budget:
    """Ends `seconds` after it was made, or with the one it is a `part` of. Without a clock it never ends."""

    __slots__ = ("_ends", "_now", "_since", "seconds")

    def __init__(self, seconds: float = inf, now: Now | None = None) -> None:
        self.seconds = seconds
        self._now = now
        self._ends = inf if now is None else now() + seconds
        self._since = 0

    def part(self, seconds: float) -> Budget:
        """One for a part of the work, such as one node of many. It names its own limit where that is the one that ends it."""
        if self._now is None:
            return self
        made = Budget(seconds, self._now)
        if self._ends < made._ends:
            made._ends, made.seconds = self._ends, self.seconds
        return made

    @property
    def left(self) -> float:
        """Seconds until it ends."""
        return inf if self._now is None else self._ends - self._now()

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be begun."""
        return self._now is not None and self._now() >= self._ends

    def charge(self, amount: int = 1) -> None:
        """Look at the clock where enough was done since the last look; raises TimeLimitError."""
        self._since += amount
        if self._since >= LOOK:
            self.check()

    def check(self, ahead: float = 0.0) -> None:
        """Look at the clock; raises TimeLimitError, also where what takes `ahead` seconds would not be over in time."""
        self._since = 0
        if self._now is not None and self._now() + ahead >= self._ends:
            raise TimeLimitError(
                f"the search for devices was stopped after {self.seconds:.3g} s: "
                "whether the claims fit here is not known",
                seconds=self.seconds,
            )


UNLIMITED: Final = Budget()
"""One that never ends; what it is charged changes nothing."""
