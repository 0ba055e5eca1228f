"""A compiled expression: evaluated many times, told apart by what it reads, and never dearer than its limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from dray.cel.ast import Call, Expr, Literal, walk
from dray.cel.budget import STEP_SECONDS, Charged
from dray.cel.check.checker import check
from dray.cel.costs.bound import bound_work
from dray.cel.costs.cost import Range, SizeHint
from dray.cel.costs.estimate import estimate_cost, is_bounded
from dray.cel.environment import Environment
from dray.cel.exact.closures import Compiler
from dray.cel.exact.run import UNLIMITED, WORK_LIMIT, Run, is_error
from dray.cel.fast.codegen import generate
from dray.cel.faults import CelError, EvaluationError
from dray.cel.library import patterns
from dray.cel.reads import Read, find_reads
from dray.cel.syntax.parser import parse
from dray.cel.types import Type
from dray.cel.values import EvaluationCancelledError, Value

FAST_WORK: Final = 1_000_000
"""The most work of the fast way, which does not count and takes a tenth of the time: some 10 ms."""
FAST_NODES: Final = 3000
"""The most expressions of the fast way, whose source Python has to compile."""
NODE_LIMIT: Final = 10_000
"""The most expressions in an expression, once its macros are expanded."""
PROGRAM_LIMIT: Final = 60_000
"""The most instructions of all patterns in an expression: 50 ms of compiling."""
_PATTERN_CALLS: Final = frozenset({"matches", "find", "findAll"})
_UNCHECKED: Final = 20_000
"""Work that is done without a look at whether there is time for it: 2 ms."""
_BYTES_OF_NODE: Final = 2000
_BYTES_OF_PATTERN: Final = 64 << 10


class Program:
    """Made by `compile_expression`. Has no state of its own that an evaluation could change, so it may be shared.

    There is a fast way and an exact one, with the same outcomes. The exact one counts costs and work; the fast one does not,
    and is taken only where neither limit can be reached.
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
        tree = parse(text, options=environment.parse_options)
        nodes = _check_size(tree)
        checked = check(tree, environment)
        self.work = min(bound_work(checked, size_hint), WORK_LIMIT)
        """The most that an evaluation can do: what a budget is charged for the fast way."""
        self.expr = checked.expr
        self.result_type: Type = checked.result_type
        compiler = Compiler(checked, environment.overloads)
        self._code = compiler.code(checked.expr)
        self._slots = compiler.slots
        self.estimated_cost: Range = estimate_cost(checked, environment.overloads, size_hint)
        self.reads: frozenset[Read] = find_reads(checked.expr)
        matches = sum(isinstance(node, Call) and node.function == "matches" for node in walk(checked.expr))
        self.size = len(text) + nodes * _BYTES_OF_NODE + matches * _BYTES_OF_PATTERN
        """The memory it needs, in bytes, about."""
        self.variables: tuple[str, ...] = tuple(sorted({read.path[0] for read in self.reads}))
        self.evaluate: Callable[[Mapping[str, Value]], Value] = self.evaluate_exactly
        """Gives the value for these variables, or raises `EvaluationError`."""
        self._by_values: Callable[..., Value] | None = None
        self._by_bindings: Callable[..., Value] | None = None
        is_small = nodes <= FAST_NODES and (self.work <= FAST_WORK or cost_limit == UNLIMITED)
        if is_small and is_bounded(
            checked, environment.overloads, size_hint, self.estimated_cost, cost_limit
        ):
            self._by_bindings, self._names, self._by_values = generate(compiler, self.evaluate_exactly)
            if self._by_bindings is not None:
                self.evaluate = self._by_bindings

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

    def evaluate_within(self, bindings: Mapping[str, Value], budget: Charged) -> Value:
        """As `evaluate`, paid for from the budget: the fast way in advance, at a tenth of the price, as it takes a tenth of
        the time. Raises `BudgetSpentError` where that is not enough."""
        if self._by_bindings is None:
            return self.evaluate_exactly(bindings, budget)
        work = 1 + self.work // 10
        if work > _UNCHECKED:
            budget.check(work * STEP_SECONDS)
        budget.charge(work)
        return self._by_bindings(bindings, lambda again: self.evaluate_exactly(again, budget))

    def evaluate_exactly(self, bindings: Mapping[str, Value], budget: Charged | None = None) -> Value:
        """As `evaluate`, always with counted costs, and paid for from the budget."""
        return self.finish(Run(bindings, self._slots, self.cost_limit, budget=budget))

    def evaluate_with_cost(
        self, bindings: Mapping[str, Value], interrupt: Callable[[], bool] | None = None
    ) -> tuple[Value, int]:
        """The value and what it cost; raises `EvaluationError`. `interrupt` is asked now and then whether to give up."""
        run = self.start(bindings, interrupt)
        return self.finish(run), run.cost

    def start(
        self,
        bindings: Mapping[str, Value],
        interrupt: Callable[[], bool] | None = None,
        budget: Charged | None = None,
    ) -> Run:
        """An evaluation to be finished: its `cost` can be read even where it fails."""
        return Run(bindings, self._slots, self.cost_limit, interrupt, budget)

    def finish(self, run: Run) -> Value:
        """The value of an evaluation that was started."""
        try:
            value = self._code(run)
            run.settle()
        except RecursionError:
            raise EvaluationCancelledError("operation cancelled: expression is nested too deeply") from None
        if is_error(value):
            raise value
        return value


def _check_size(tree: Expr) -> int:
    """How many expressions there are; refuses more than can be compiled quickly, patterns included."""
    nodes = instructions = 0
    for node in walk(tree):
        nodes += 1
        if nodes > NODE_LIMIT:
            raise CelError(f"expression is too large: limit {NODE_LIMIT} nodes", position=-1)
        if isinstance(node, Call) and node.function in _PATTERN_CALLS:
            instructions += sum(patterns.program_size(text) for text in _texts(node))
            if instructions > PROGRAM_LIMIT:
                message = f"regular expressions are too large: limit {PROGRAM_LIMIT} instructions in all"
                raise CelError(message, position=node.position)
    return nodes


def _texts(node: Call) -> Iterator[str]:
    """The texts that stand in a call and may be its pattern, also within conversions."""
    for argument in node.arguments:
        part = argument
        while isinstance(part, Call) and len(part.arguments) == 1 and part.target is None:
            part = part.arguments[0]
        if isinstance(part, Literal) and isinstance(part.value, str):
            yield part.value


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
