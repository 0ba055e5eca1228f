"""One evaluation that counts: what it has cost, and when it must stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dray.cel.faults import EvaluationError
from dray.cel.values import EvaluationCancelledError, Value

INTERRUPT_INTERVAL = 100
"""Steps of folds between two looks at whether to stop."""
UNLIMITED = 2**64 - 1


class Run:
    """The variables and the bill of one evaluation. `slots` hold what folds iterate over and carry along."""

    __slots__ = ("bindings", "cost", "interrupt", "limit", "slots", "steps")

    def __init__(
        self,
        bindings: Mapping[str, Value],
        slots: int,
        limit: int,
        interrupt: Callable[[], bool] | None = None,
    ) -> None:
        self.bindings = bindings
        self.slots: list[Value] = [None] * slots
        self.limit = limit
        self.cost = 0
        self.steps = 0
        self.interrupt = interrupt

    def charge(self, amount: int) -> None:
        """Adds to the bill, and cuts the evaluation off when it is above the limit."""
        self.cost += amount
        if self.cost > self.limit:
            raise EvaluationCancelledError("operation cancelled: actual cost limit exceeded")

    def step(self) -> None:
        """Each step of a fold passes here."""
        self.steps += 1
        if self.interrupt is not None and self.steps % INTERRUPT_INTERVAL == 0 and self.interrupt():
            raise EvaluationCancelledError("operation interrupted")


Code = Callable[[Run], Value]
"""An expression that is ready to run. An error is returned, not raised: it is a value until nobody absorbs it."""


def is_error(value: Value) -> bool:
    """Whether the outcome is an error."""
    return value.__class__ is EvaluationError


def no_overload() -> EvaluationError:
    """cel-go's error where a value has another type than an operator needs."""
    return EvaluationError("no such overload")
