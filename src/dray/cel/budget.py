"""What a caller lends to evaluations: an amount of work and a time by which to be done, shared by all that get the object.

Every evaluation has a limit of its own as well (`exact.run.WORK_LIMIT`), which depends on nothing but the expression and the
values. A budget depends on the clock, so what it cuts off has no answer: nobody may remember one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

_INTERVAL: Final = 5_000
"""Work between two looks at the clock: about a millisecond."""
STEP_SECONDS: Final = 1e-7
"""What a step takes, about."""


class BudgetSpentError(Exception):
    """The budget is spent. No answer and no error of the expression: it ends whatever the budget was lent to."""


class Charged(Protocol):
    """What evaluations ask of a budget. Both raise `BudgetSpentError`."""

    def charge(self, amount: int) -> None:
        """Take this much work: a step of the evaluator, or what takes about as long."""

    def check(self, ahead: float = 0.0) -> None:
        """Look at the clock now: what takes so many seconds more is to fit."""


class Budget:
    """So much work, and none after `deadline` by `clock`. Without a deadline only the work counts."""

    __slots__ = ("_clock", "_deadline", "_unlooked", "left")

    def __init__(
        self, work: int, deadline: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.left = work
        self._deadline = deadline
        self._clock = clock
        self._unlooked = 0

    def charge(self, amount: int) -> None:
        """See `Charged`."""
        self.left -= amount
        if self.left < 0:
            raise BudgetSpentError("the work of the evaluations is above the limit")
        self._unlooked += amount
        if self._unlooked >= _INTERVAL:
            self._look(amount * STEP_SECONDS)

    def check(self, ahead: float = 0.0) -> None:
        """See `Charged`."""
        self._look(ahead)

    def _look(self, ahead: float) -> None:
        """What is charged is about to be done, and nothing looks at the clock until it is: it must fit."""
        self._unlooked = 0
        if self._deadline is not None and self._clock() + ahead >= self._deadline:
            raise BudgetSpentError("the evaluations took too long")
