"""cel-go's `format`: reads the template; at run time with values, and before that with types where they stand in the text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from dray.cel import types as t
from dray.cel.ast import Call, Expr, ListLiteral, Literal, MapLiteral, walk
from dray.cel.check.checker import Checked
from dray.cel.exact.references import overload_ids
from dray.cel.faults import EvaluationError, Fault
from dray.cel.library.format_clauses import RULES, SIZE_LIMIT, clause, misused
from dray.cel.quoting import quote_start
from dray.cel.types import Type
from dray.cel.values import INT_MAX, EvaluationCancelledError, Value

OVERLOAD = "string_format"
_UNREADABLE = "could not parse formatting clause: "
_PRECISION = "error while parsing precision: "
_CONVERSION = f'{_PRECISION}error while converting precision to integer: strconv.Atoi: parsing "'
_PERCENTS = re.compile(r"%+")
_NUMBER = re.compile(r"[0-9]*")
_ACCEPTED: dict[str, tuple[Type, ...]] = {
    "s": (
        t.list_of(t.A),
        t.map_of(t.A, t.B),
        t.INT,
        t.UINT,
        t.DOUBLE,
        t.BOOL,
        t.STRING,
        t.TIMESTAMP,
        t.BYTES,
        t.DURATION,
        t.TYPE,
        t.NULL,
    ),
    "d": (t.INT, t.UINT),
    "f": (t.DOUBLE, t.STRING),
    "e": (t.DOUBLE, t.STRING),
    "b": (t.INT, t.UINT, t.BOOL),
    "x": (t.INT, t.UINT, t.STRING, t.BYTES),
    "X": (t.INT, t.UINT, t.STRING, t.BYTES),
    "o": (t.INT, t.UINT),
}


class _Clause(NamedTuple):
    verb: str
    precision: int | None
    argument: int


def format_text(template: str, arguments: Sequence[Value]) -> str:
    """The template with its clauses replaced; raises `EvaluationError`."""
    parts: list[str] = []
    size = 0
    for part in _read(template, len(arguments), len(arguments)):
        if isinstance(part, str):
            parts.append(part)
            continue
        try:
            parts.append(clause(part.verb, part.precision)(arguments[part.argument]))
        except EvaluationError as error:
            raise error.__class__(_during(error)) from None
        size += len(parts[-1])
        if size > SIZE_LIMIT:
            raise EvaluationCancelledError("operation cancelled: text is too long")
    return "".join(parts)


def _during(error: EvaluationError) -> str:
    return str(error) if error.__class__ is not EvaluationError else f"error during formatting: {error}"


def _read(template: str, count: int, known: int | None) -> Iterator[str | _Clause]:
    """Text and clauses in turn. `known` is the number of arguments where they are looked at before the clause is."""
    at, argument = 0, 0
    while at < len(template):
        end = _end_of_plain(template, at)
        if end > at:
            yield template[at:end].replace("%%", "%")
            at = end
            continue
        if known is not None and argument >= known:
            raise EvaluationError(f"index {argument} out of range")
        if at + 1 >= len(template):
            raise EvaluationError("unexpected end of string")
        if argument >= count:
            raise EvaluationError(f"index {argument} out of range")
        at, verb, precision = _read_clause(template, at + 1)
        yield _Clause(verb, precision, argument)
        argument += 1


def _end_of_plain(template: str, at: int) -> int:
    """Where the next clause begins: at a sign that has none of its own before it."""
    for found in _PERCENTS.finditer(template, at):
        if (found.end() - found.start()) % 2:
            return found.end() - 1
    return len(template)


def _read_clause(template: str, at: int) -> tuple[int, str, int | None]:
    precision = None
    if template[at] == ".":
        digits = _NUMBER.match(template, at + 1)
        assert digits is not None
        at = digits.end()
        if at >= len(template):
            raise EvaluationError(f"{_UNREADABLE}{_PRECISION}could not find end of precision specifier")
        precision = _precision(digits[0])
    verb = template[at]
    if verb not in RULES:
        shown = chr(verb.encode(errors="replace")[0])
        raise EvaluationError(f'{_UNREADABLE}unrecognized formatting clause "{shown}"')
    return at + 1, verb, precision


def _precision(digits: str) -> int:
    if not digits:
        raise EvaluationError(f'{_UNREADABLE}{_CONVERSION}": invalid syntax')
    number = int(digits[:40]) if len(digits.lstrip("0")) < 40 else INT_MAX + 1
    if number > INT_MAX:
        raise EvaluationError(f"{_UNREADABLE}{_CONVERSION}{quote_start(digits)[1:]}: value out of range")
    return number


def validate(checked: Checked) -> Iterable[Fault]:
    """Tries the calls whose template and list of arguments stand in the text."""
    for node in walk(checked.expr):
        if not isinstance(node, Call) or node.target is None or OVERLOAD not in overload_ids(checked, node):
            continue
        template = node.target.value if isinstance(node.target, Literal) else None
        if (
            isinstance(template, str)
            and len(node.arguments) == 1
            and isinstance(node.arguments[0], ListLiteral)
        ):
            yield from _validate(checked, node, template, node.arguments[0].items)


def _validate(checked: Checked, node: Call, template: str, items: tuple[Expr, ...]) -> Iterable[Fault]:
    used = 0
    try:
        for part in _read(template, len(items), None):
            if isinstance(part, str):
                continue
            used += 1
            wrong = _unfit(checked, part.verb, items[part.argument])
            if wrong is not None:
                unfit = misused(part.verb, checked.types[wrong.id].name)
                yield Fault(_during(unfit), wrong.position)
                return
    except EvaluationError as error:
        yield Fault(str(error), node.position)
        return
    if len(items) > used:
        message = f"too many arguments supplied to string.format (expected {used}, got {len(items)})"
        yield Fault(message, node.position)


def _unfit(checked: Checked, verb: str, node: Expr) -> Expr | None:
    """The part of an argument that the clause cannot write."""
    kind = checked.types[node.id]
    if kind != t.DYN and not any(kind.name == accepted.name for accepted in _ACCEPTED[verb]):
        return node
    if verb != "s":
        return None
    within: tuple[Expr, ...] = ()
    if isinstance(node, ListLiteral):
        within = node.items
    elif isinstance(node, MapLiteral):
        within = tuple(part for entry in node.entries for part in (entry.key, entry.value))
    return next((found for part in within if (found := _unfit(checked, verb, part)) is not None), None)
