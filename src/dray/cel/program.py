"""A compiled expression: evaluated many times, told apart by what it reads, and never dearer than its limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dray.cel.check.checker import check
from dray.cel.costs.cost import Range, SizeHint
from dray.cel.costs.estimate import estimate_cost, is_bounded
from dray.cel.environment import Environment
from dray.cel.exact.closures import Compiler
from dray.cel.exact.run import UNLIMITED, Run, is_error
from dray.cel.fast.codegen import generate
from dray.cel.faults import CelError, EvaluationError
from dray.cel.reads import Read, find_reads
from dray.cel.syntax.parser import parse
from dray.cel.types import Type
from dray.cel.values import EvaluationCancelledError, Value


class Program:
    """Made by `compile_expression`. Has no state of its own that an evaluation could change, so it may be shared.

    There is a fast way and an exact one, with the same outcomes. The exact one counts costs; the fast one does not, and is
    taken only where the estimate says that the limit cannot be reached.
    """

    def __init__(
        self,
        text: str,
        environment: Environment,
        cost_limit: int = UNLIMITED,
        size_hint: SizeHint | None = None,
    ) -> None:
        self.text = text
        self.cost_limit = cost_limit
        checked = check(parse(text, options=environment.parse_options), environment)
        self.expr = checked.expr
        self.result_type: Type = checked.result_type
        compiler = Compiler(checked, environment.overloads)
        self._code = compiler.code(checked.expr)
        self._slots = compiler.slots
        self.estimated_cost: Range = estimate_cost(checked, environment.overloads, size_hint)
        self.reads: frozenset[Read] = find_reads(checked.expr)
        self.variables: tuple[str, ...] = tuple(sorted({read.path[0] for read in self.reads}))
        self.evaluate: Callable[[Mapping[str, Value]], Value] = self.evaluate_exactly
        """Gives the value for these variables, or raises `EvaluationError`."""
        self._by_values: Callable[..., Value] | None = None
        if is_bounded(checked, environment.overloads, size_hint, self.estimated_cost, cost_limit):
            by_bindings, self._names, self._by_values = generate(compiler, self.evaluate_exactly)
            if by_bindings is not None:
                self.evaluate = by_bindings

    @property
    def is_fast(self) -> bool:
        """Whether there is a fast way."""
        return self._by_values is not None

    def of_variable(self, name: str) -> Callable[[Value], Value]:
        """`evaluate` for an expression with one variable: the function takes its value, and saves the mapping."""
        if self._by_values is not None and self._names == (name,):
            return self._by_values
        evaluate = self.evaluate
        return lambda value: evaluate({name: value})

    def evaluate_exactly(self, bindings: Mapping[str, Value]) -> Value:
        """As `evaluate`, always with counted costs."""
        return self.finish(Run(bindings, self._slots, self.cost_limit))

    def evaluate_with_cost(
        self, bindings: Mapping[str, Value], interrupt: Callable[[], bool] | None = None
    ) -> tuple[Value, int]:
        """The value and what it cost; raises `EvaluationError`. `interrupt` is asked now and then whether to give up."""
        run = self.start(bindings, interrupt)
        return self.finish(run), run.cost

    def start(self, bindings: Mapping[str, Value], interrupt: Callable[[], bool] | None = None) -> Run:
        """An evaluation to be finished: its `cost` can be read even where it fails."""
        return Run(bindings, self._slots, self.cost_limit, interrupt)

    def finish(self, run: Run) -> Value:
        """The value of an evaluation that was started."""
        try:
            value = self._code(run)
        except RecursionError:
            raise EvaluationCancelledError("operation cancelled: expression is nested too deeply") from None
        if is_error(value):
            raise value
        return value


def compile_expression(
    text: str, environment: Environment, cost_limit: int = UNLIMITED, size_hint: SizeHint | None = None
) -> Program:
    """Raises `CelError` if the text is no expression of this environment, or a constant in it cannot be converted.

    `size_hint` tells how large the variables can be; without it, costs that depend on them are unknown.
    """
    try:
        return Program(text, environment, cost_limit, size_hint)
    except RecursionError:
        raise CelError("expression is nested too deeply", position=-1) from None


__all__ = ["EvaluationError", "Program", "Read", "compile_expression"]
