"""Kubernetes' `find` and `findAll`. (`matches` is a standard function; all three read patterns the same way.)"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dray.cel import types as t
from dray.cel.ast import Call, Expr, Literal, walk
from dray.cel.check.checker import Checked
from dray.cel.costs.actual_cost import of_pattern
from dray.cel.costs.cost import ONE, REGEX_FACTOR, STRING_FACTOR, CallEstimate, Range, SizedNode, Sizes
from dray.cel.faults import EvaluationError, Fault
from dray.cel.functions import Library, Overload
from dray.cel.library import patterns
from dray.cel.values import EvaluationCancelledError, Value

_STRINGS = t.list_of(t.STRING)
_SEARCHES = frozenset({"find", "findAll", "matches"})


def _find(text: str, pattern: str) -> Value:
    try:
        return patterns.find(pattern, text)
    except EvaluationCancelledError:
        raise
    except EvaluationError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


def _find_all(text: str, pattern: str, limit: int = -1) -> Value:
    try:
        return patterns.find_all(pattern, text, limit)
    except EvaluationCancelledError:
        raise
    except EvaluationError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


def _validate(checked: Checked) -> Iterable[Fault]:
    """Patterns that stand in the text are compiled with it. (Those of `matches` are looked at as literals already.)"""
    for node in walk(checked.expr):
        if not isinstance(node, Call) or node.function not in _SEARCHES or node.target is None:
            continue
        pattern = node.arguments[0]
        literal = _literal(pattern)
        if literal is None or (node.function == "matches" and literal is pattern):
            continue
        wrong = patterns.fault(literal.value) if isinstance(literal.value, str) else None
        if wrong is not None:
            yield Fault(wrong, pattern.position)


def _literal(node: Expr) -> Literal | None:
    """The constant, also behind a conversion that leaves it as it is."""
    while isinstance(node, Call) and node.function in ("dyn", "string") and len(node.arguments) == 1:
        node = node.arguments[0]
    return node if isinstance(node, Literal) else None


def _estimate(sizes: Sizes, target: SizedNode | None, arguments: Sequence[SizedNode]) -> CallEstimate | None:
    """A pattern over the target; at worst each character is found by itself."""
    if target is None or not arguments:
        return None
    size = sizes.size(target)
    walked = size.plus(ONE).scaled(STRING_FACTOR)
    cost = walked.times(sizes.size(arguments[0]).scaled(REGEX_FACTOR))
    return CallEstimate(cost, Range(0, size.max))


def _overload(name: str, function: str, parameters: tuple[t.Type, ...], result: t.Type) -> Overload:
    implementation = _find if function == "find" else _find_all
    return Overload(
        name,
        function,
        parameters,
        result,
        implementation,
        is_member=True,
        estimate=_estimate,
        cost=of_pattern,
    )


LIBRARY = Library(
    name="kubernetes.regex",
    validators=(_validate,),
    overloads=(
        _overload("string_find_string", "find", (t.STRING, t.STRING), t.STRING),
        _overload("string_find_all_string", "findAll", (t.STRING, t.STRING), _STRINGS),
        _overload("string_find_all_string_int", "findAll", (t.STRING, t.STRING, t.INT), _STRINGS),
    ),
)
