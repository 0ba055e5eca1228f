"""Calls of functions: which overload fits the values at run time, and what the call costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dray.cel import ast
from dray.cel.ast import Call, Expr
from dray.cel.exact.references import overload_ids
from dray.cel.exact.run import Code, Run, is_error
from dray.cel.exact.work import Work, work_of
from dray.cel.faults import CelError, EvaluationError
from dray.cel.functions import ActualCost, Implementation, Overload
from dray.cel.library import patterns, standard
from dray.cel.library.costs import searched
from dray.cel.types import ANY, DYN, STRING, Type
from dray.cel.values import EvaluationCancelledError, Opaque, Uint, Value, is_list, is_map, type_name

if TYPE_CHECKING:
    from dray.cel.exact.closures import Compiler

_CONVERSIONS = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
_PLAIN = frozenset({bool, int, Uint, float, str})
_PATTERNS = frozenset({"matches", "find", "findAll"})
"""With a pattern that stands in the text cel-go makes another call of them, which an error in the text ends at once."""
_BLIND_TO_ITEMS = frozenset({"flatten", "sort", ast.SORT_BY_KEYS})
"""Have one implementation in cel-go, which is not told apart by what a list holds."""

Pick = Callable[[Sequence[Value]], Overload]
"""The overload for these values; raises `EvaluationError` if none fits."""


def is_conversion(node: Call) -> bool:
    """Whether the call is made when the program is, if its argument is constant."""
    return node.target is None and node.function in _CONVERSIONS and len(node.arguments) == 1


def fold_conversion(compiler: Compiler, node: Call, value: Value) -> Value:
    """The call with that constant."""
    return pick_overload(compiler, node)([value]).implementation(value)


def is_set(items: Value) -> bool:
    """Whether cel-go makes a set of a constant list."""
    return all(item.__class__ in _PLAIN for item in items)


def is_assignable(wanted: Type, value: Value) -> bool:
    """Whether a value may be passed for a parameter. Of a list or map only the first entry is looked at, as in cel-go."""
    if wanted.is_parameter or wanted in (DYN, ANY):
        return True
    if wanted.name != type_name(value):
        return False
    if is_list(value) and value:
        return is_assignable(wanted.parameters[0], value[0])
    if is_map(value) and value:
        key = next(iter(value))
        return is_assignable(wanted.parameters[0], key) and is_assignable(wanted.parameters[1], value[key])
    return True


def _fits(overload: Overload, values: Sequence[Value]) -> bool:
    if len(overload.parameters) != len(values):
        return False
    if overload.function in _BLIND_TO_ITEMS:
        return all(
            wanted.name == type_name(value) for wanted, value in zip(overload.parameters, values, strict=True)
        )
    return all(map(is_assignable, overload.parameters, values))


def pick_overload(compiler: Compiler, node: Call) -> Pick:
    """How the overload of a call is found: at once where one is left and it looks at its arguments itself."""
    names = overload_ids(compiler.checked, node)
    candidates = [compiler.overloads[name] for name in names]
    if node.function in standard.SELF_CHECKING:
        return lambda _: candidates[0]
    if len(candidates) > 1:
        candidates = [
            overload for overload in compiler.overloads.values() if overload.function == node.function
        ]

    def pick(values: Sequence[Value]) -> Overload:
        for overload in candidates:
            if _fits(overload, values):
                return overload
        raise EvaluationError(f"no such overload: {node.function}({', '.join(map(type_name, values))})")

    return pick


def call_code(compiler: Compiler, node: Call) -> Code:
    """The closure of a call to a function that needs all its arguments."""
    target = () if node.target is None else (node.target,)
    codes = [compiler.code(argument) for argument in (*target, *node.arguments)]
    if node.function == ast.NOT_STRICTLY_FALSE:
        return _not_strictly_false(codes[0])
    pick = pick_overload(compiler, node)
    candidates = [compiler.overloads[name] for name in overload_ids(compiler.checked, node)]
    price = _Price(candidates)
    has_pattern = node.function in _PATTERNS and _has_pattern(compiler, node, (*target, *node.arguments)[1])
    is_cheap = node.function in standard.SELF_CHECKING and all(
        overload.cost is None for overload in candidates
    )
    work = work_of(node.function, has_pattern=has_pattern)
    if len(codes) == 2 and is_cheap and not has_pattern:
        return _cheap_operator(codes[0], codes[1], candidates[0].implementation, work)
    is_one = (
        len(candidates) == 1 or node.function in standard.SELF_CHECKING or node.function in _BLIND_TO_ITEMS
    )
    if len(codes) > 2 or has_pattern or not is_one:
        return _call_until_error(codes, pick, price, work)
    return _call(codes, pick, price, work)


def _has_pattern(compiler: Compiler, node: Call, pattern: Expr) -> bool:
    """Whether the pattern is constant; then it is tried at once."""
    text = compiler.constant(pattern)
    if text.__class__ is not str:
        return False
    fault = patterns.fault(text)
    if fault is not None:
        raise CelError(f"program instantiation failed: {fault}", position=node.position)
    return True


class _Price:
    """What a call costs. Where the checker left several overloads, cel-go goes by the function's name or counts 1."""

    def __init__(self, candidates: list[Overload]) -> None:
        self._by_name = candidates[0].function in _COUNTED_BY_NAME
        self._walks = any(overload.cost is searched for overload in candidates)
        self._sole = candidates[0] if len(candidates) == 1 or self._by_name else None
        is_standard = candidates[0].id in standard.IDS
        self._costly = next(
            (overload for overload in candidates if is_standard and overload.cost is not None), None
        )
        if len(candidates) > 1 and candidates[0].function in ("containsIP", "containsCIDR"):
            # Only a string that is known to be one is counted as parsed.
            self._by_name = False
            self._sole = next(overload for overload in candidates if overload.parameters[1] != STRING)

    def of_failure(self, run: Run, values: Sequence[Value], error: Value) -> int:
        """Of a call that was not made."""
        self.spend_on_counting(run, values)
        return self.of(None, values, error)

    def spend_on_counting(self, run: Run, values: Sequence[Value]) -> None:
        """Counting may itself walk over all that is in the first value."""
        if self._walks:
            run.spend(_COUNTED * run.sizes.of(values[0]))

    def of(self, overload: Overload | None, values: Sequence[Value], result: Value) -> int:
        """Of a call that was made, or that failed: then errors stand among the values, or as the result."""
        if self._sole is not None:
            chosen = overload if self._by_name and overload is not None else self._sole
            return self._count(chosen, values, result)
        overload = overload if self._costly is None else self._costly
        if overload is None or (overload.function == ast.IN and not is_list(values[1])):
            return 1
        # Not cel-go's number, but what takes long must not be cheap.
        real = self._count(overload, values, result)
        return real if real > _LONG else 1

    @staticmethod
    def _count(overload: Overload, values: Sequence[Value], result: Value) -> int:
        if overload.cost is None or (overload.function == ast.EQUALS and isinstance(values[0], Opaque)):
            return 1
        if is_error(result) and overload.id not in standard.IDS:
            return _cost_of_failure(overload.cost, values, result)
        return overload.cost(values, result)


def _cost_of_failure(cost: ActualCost, values: Sequence[Value], result: Value) -> int:
    """As if errors were values of size 1; 1 where a function wants to look into them."""
    try:
        return cost(values, result)
    except (TypeError, AttributeError, IndexError, ValueError):
        return 1


_LONG = 1000
_COUNTED = 4
"""Steps of work for a value that is counted."""
_COUNTED_BY_NAME = frozenset(
    {
        *(
            "isSorted",
            "sum",
            "max",
            "min",
            "indexOf",
            "lastIndexOf",
            "lowerAscii",
            "upperAscii",
            "substring",
            "trim",
        ),
        *(
            "replace",
            "split",
            "join",
            "find",
            "findAll",
            "url",
            "cidr",
            "ip",
            "isIP",
            "isCIDR",
            "ip.isCanonical",
        ),
        *("containsIP", "containsCIDR", "quantity", "isQuantity", "semver", "isSemver", "validate"),
    }
)
"""Functions whose cost Kubernetes counts whatever the overload."""


def _made(overload: Overload, values: Sequence[Value]) -> Value:
    try:
        return overload.implementation(*values)
    except EvaluationCancelledError:
        raise
    except EvaluationError as error:
        return error.with_traceback(None)


def _finished(run: Run, pick: Pick, price: _Price, work: Work, values: Sequence[Value]) -> Value:
    """The call itself. Standard functions are paid for in advance: their cost does not depend on the result, and they may
    take long. The work of every function is."""
    try:
        overload = pick(values)
    except EvaluationError as error:
        run.charge(price.of_failure(run, values, error))
        return error.with_traceback(None)
    if overload.id in standard.IDS:
        run.charge(price.of(overload, values, None))
        run.spend(work(run, values))
        return _made(overload, values)
    run.spend(work(run, values))
    result = _made(overload, values)
    price.spend_on_counting(run, values)
    run.charge(price.of(overload, values, result))
    return result


def _cheap_operator(first: Code, second: Code, operation: Implementation, work: Work) -> Code:
    """A standard operator that costs 1 whatever it is given."""

    def call(run: Run) -> Value:
        left, right = first(run), second(run)
        run.charge(1)
        if left.__class__ is EvaluationError:
            return left
        if right.__class__ is EvaluationError:
            return right
        if left.__class__ is not int:
            run.spend(work(run, (left, right)))
        try:
            return operation(left, right)
        except EvaluationCancelledError:
            raise
        except EvaluationError as error:
            return error.with_traceback(None)

    return call


def _call(codes: list[Code], pick: Pick, price: _Price, work: Work) -> Code:
    """Every argument is evaluated, and the call paid for, even if one is an error."""

    def call(run: Run) -> Value:
        values = [code(run) for code in codes]
        for value in values:
            if value.__class__ is EvaluationError:
                run.charge(price.of_failure(run, values, value))
                return value
        return _finished(run, pick, price, work, values)

    return call


def _call_until_error(codes: list[Code], pick: Pick, price: _Price, work: Work) -> Code:
    """The first error ends it, and the call is paid for only if that was the last argument."""

    def call(run: Run) -> Value:
        values: list[Value] = []
        for code in codes:
            value = code(run)
            values.append(value)
            if is_error(value):
                if len(values) == len(codes):
                    run.charge(price.of_failure(run, values, value))
                return value
        return _finished(run, pick, price, work, values)

    return call


def _not_strictly_false(code: Code) -> Code:
    def test(run: Run) -> Value:
        value = code(run)
        run.charge(1)
        return value if value.__class__ is bool else True

    return test
