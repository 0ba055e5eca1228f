"""What generated code calls where a plain Python operation would not do. All raise where the exact way must decide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

from dray.cel.equality import find, find_item, index
from dray.cel.faults import EvaluationError
from dray.cel.values import MISSING, NONE, Optional, Value, is_list, is_map

MEMO_SIZE = 1024
MEMO_LENGTH = 64

FAILURES = (
    EvaluationError,
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    ValueError,
    ArithmeticError,
    RecursionError,
)
"""What may come out of generated code: then the closures are asked."""


def fail(*_: object) -> NoReturn:
    """Not decided here."""
    raise EvaluationError("undecided")


def present(container: Value, key: Value) -> bool:
    """What `has` asks for."""
    return find_item(container, key) is not MISSING


def find_or(container: Any, key: Value) -> Value:
    """What is under the key, or MISSING."""
    return find(container, key) if is_map(container) else find_item(container, key)


def follow(value: Value, qualifiers: Sequence[tuple[Value, bool]]) -> Value:
    """A chain of selections in which some may be missing."""
    is_optional = value.__class__ is Optional
    if is_optional:
        if value.content is MISSING:
            return value
        value = value.content
    for key, may_miss in qualifiers:
        is_optional = is_optional or may_miss
        value = find_item(value, key) if is_optional else index(value, key)
        if value is MISSING:
            return NONE
    return Optional(value) if is_optional else value


def iterate(over: Value) -> Iterable[Value]:
    """Items of a list, keys of a map."""
    if is_list(over) or is_map(over):
        items: Iterable[Value] = over
        return items
    raise EvaluationError("not iterable")


def entries(over: Value) -> Iterator[tuple[Value, Value]]:
    """Indexes and items of a list, keys and values of a map."""
    if is_map(over):
        return iter(over.items())
    if is_list(over):
        return iter(enumerate(over))
    raise EvaluationError("not iterable")


def remembering(function: Callable[[Value], Value]) -> Callable[[Value], Value]:
    """The function with a bounded memory of short strings it was asked about: patterns run long, and names repeat."""
    known: dict[str, Value] = {}

    def ask(value: Value) -> Value:
        if value.__class__ is not str:
            return function(value)
        try:
            return known[value]
        except KeyError:
            answer = function(value)
        if len(known) >= MEMO_SIZE:
            known.clear()
        if len(value) <= MEMO_LENGTH:
            known[value] = answer
        return answer

    return ask
