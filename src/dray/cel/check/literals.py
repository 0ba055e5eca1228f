"""What is tried before an expression is accepted: durations, timestamps and patterns that stand in its text, and lists of one
type. Libraries add their own (`Library.validators`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dray.cel.ast import Call, Expr, ListLiteral, Literal, MapLiteral, children, walk
from dray.cel.check.overloads import unwrap_optional
from dray.cel.faults import EvaluationError, Fault
from dray.cel.functions import Overload
from dray.cel.types import Type, shown
from dray.cel.values import Value

if TYPE_CHECKING:
    from dray.cel.check.checker import Checked
    from dray.cel.environment import Environment

_TRIED = frozenset(["duration", "timestamp", "matches"])


def literal_faults(checked: Checked, environment: Environment) -> list[Fault]:
    """Every literal that would fail whenever it is reached."""
    faults: list[Fault] = []
    if environment.options.validates_literals:
        faults += _bad_literals(checked, environment)
    if environment.options.homogeneous_literals:
        faults += _mixed(checked, environment)
    for library in environment.libraries:
        for validator in library.validators:
            faults += validator(checked)
    return faults


def _bad_literals(checked: Checked, environment: Environment) -> Iterator[Fault]:
    for node in walk(checked.expr):
        if not isinstance(node, Call) or node.function not in _TRIED or not node.arguments:
            continue
        literal = node.arguments[0]
        overloads = checked.references.get(node.id)
        if isinstance(literal, Literal) and isinstance(overloads, tuple):
            values = ("", literal.value) if node.function == "matches" else (literal.value,)
            if not _works(environment.overloads[overloads[0]], values):
                yield Fault(f"invalid {node.function} argument", literal.position)


def _works(overload: Overload, values: tuple[Value, ...]) -> bool:
    """Whether the call can be made. Cel-go tries the first argument as the pattern, also of `matches(text, pattern)`."""
    try:
        overload.implementation(*values)
    except EvaluationError:
        return False
    return True


def _mixed(checked: Checked, environment: Environment) -> Iterator[Fault]:
    """Lists and maps whose values differ in type, but for those below a function that wants them."""
    exempt = frozenset(name for library in environment.libraries for name in library.mixed_literals_in)
    waiting: list[Expr] = [checked.expr]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Call) and node.function in exempt:
            continue
        waiting.extend(reversed(children(node)))
        if isinstance(node, ListLiteral):
            yield from _differing_items(node, checked.types)
        elif isinstance(node, MapLiteral):
            yield from _differing_entries(node, checked.types)


def _differing_items(node: ListLiteral, types: dict[int, Type]) -> Iterator[Fault]:
    first: Type | None = None
    for index, item in enumerate(node.items):
        type_ = types[item.id]
        if index in node.optional:
            type_ = unwrap_optional(type_)[0]
        if first is None:
            first = type_
        elif type_ != first:
            yield _mismatch(item, first, type_)
            return


def _differing_entries(node: MapLiteral, types: dict[int, Type]) -> Iterator[Fault]:
    first: tuple[Type, Type] | None = None
    for entry in node.entries:
        key, value = types[entry.key.id], types[entry.value.id]
        if entry.is_optional:
            value = unwrap_optional(value)[0]
        if first is None:
            first = (key, value)
            continue
        if key != first[0]:
            yield _mismatch(entry.key, first[0], key)
        if value != first[1]:
            yield _mismatch(entry.value, first[1], value)


def _mismatch(node: Expr, wanted: Type, found: Type) -> Fault:
    return Fault(f"expected type '{shown(wanted)}' but found '{shown(found)}'", node.position)
