"""One evaluation that counts: what it has cost, what work it has done, and when it must stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dray.cel.budget import STEP_SECONDS, Charged
from dray.cel.faults import EvaluationError
from dray.cel.sizes import Sizes
from dray.cel.values import EvaluationCancelledError, Value

INTERRUPT_INTERVAL = 100
"""Steps of folds between two looks at whether to stop."""
UNLIMITED = 2**64 - 1
WORK_LIMIT = 4_000_000
"""Work of one evaluation, about half a second of it. What Kubernetes counts reaches its cost limit first; what it does not
count (values within values, texts written, free operators) stops here."""
WORK_MESSAGE = f"operation cancelled: work limit of {WORK_LIMIT} steps exceeded"
_LONG = 20_000
_SETTLED = 5_000
"""Work between two payments to a budget."""


class Run:
    """The variables and the bill of one evaluation. `slots` hold what folds iterate over and carry along.

    There are two meters. `cost` is Kubernetes' number, to the last digit. `work` is what is really done, in steps of the
    evaluator: charged before it is done, so that no call into C takes longer than the evaluation may.
    """

    __slots__ = (
        "_paid",
        "_settle_at",
        "bindings",
        "budget",
        "cost",
        "interrupt",
        "left",
        "limit",
        "sizes",
        "slots",
        "steps",
    )

    def __init__(
        self,
        bindings: Mapping[str, Value],
        slots: int,
        limit: int,
        interrupt: Callable[[], bool] | None = None,
        budget: Charged | None = None,
        work_limit: int = WORK_LIMIT,
    ) -> None:
        self.bindings = bindings
        self.slots: list[Value] = [None] * slots
        self.limit = limit
        self.cost = 0
        self.steps = 0
        self.interrupt = interrupt
        self.budget = budget
        self.left = work_limit
        self.sizes = Sizes(self.spend)
        self._paid = work_limit
        self._settle_at = max(work_limit - _SETTLED, 0) if budget is not None else 0

    def charge(self, amount: int) -> None:
        """Adds to the bill, and cuts the evaluation off when it is above the limit."""
        self.cost += amount
        if self.cost > self.limit:
            raise EvaluationCancelledError("operation cancelled: actual cost limit exceeded")

    def spend(self, work: int) -> None:
        """Work that is about to be done."""
        self.left -= work
        if self.left < self._settle_at:
            self.settle()

    def settle(self) -> None:
        """Pays the budget for what was done since the last time; raises `BudgetSpentError`. Also called at the end."""
        if self.left < 0:
            raise EvaluationCancelledError(WORK_MESSAGE)
        if self.budget is not None:
            owed = self._paid - self.left
            if owed >= _LONG:  # In one call, which nothing ends: it must fit into the time that is left.
                self.budget.check(owed * STEP_SECONDS)
            self.budget.charge(owed)
            self._paid = self.left
            self._settle_at = max(self.left - _SETTLED, 0)

    def step(self, nodes: int = 1) -> None:
        """Each step of a fold passes here, with how many expressions it evaluates at most."""
        self.steps += 1
        self.left -= nodes
        if self.left < self._settle_at:
            self.settle()
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
