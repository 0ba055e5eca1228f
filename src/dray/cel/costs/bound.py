"""The most work that an expression can do, whatever it is given: where it is small, nothing needs to be counted.

For each expression two numbers are carried up from the leaves: how long its value can be (items or characters), and how
large through and through. Both are upper bounds; what is not known is endless. What one selects from a value is not larger than it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from dray.cel import ast
from dray.cel.ast import Call, Comprehension, Expr, Ident, ListLiteral, Literal, MapLiteral, Select, children
from dray.cel.costs.cost import SizedNode, SizeHint
from dray.cel.types import BOOL, DOUBLE, DURATION, INT, TIMESTAMP, UINT

if TYPE_CHECKING:
    from dray.cel.check.checker import Checked

ENDLESS: Final = 2**62
_SCALARS: Final = frozenset({BOOL, INT, UINT, DOUBLE, DURATION, TIMESTAMP})
_STEPS: Final = (ast.INDEX, ast.OPTIONAL_INDEX, ast.OPTIONAL_SELECT)
_ORDERS: Final = (ast.LESS, ast.LESS_EQUALS, ast.GREATER, ast.GREATER_EQUALS)
_SEARCHES: Final = frozenset(
    {"contains", "indexOf", "lastIndexOf", "split", "replace", "matches", "find", "findAll"}
)
_PAIRS: Final = frozenset(
    {
        "distinct",
        "sort",
        ast.SORT_BY_KEYS,
        "sets.contains",
        "sets.equivalent",
        "sets.intersects",
        ast.MAP_INSERT,
    }
)
_CALL: Final = 32
"""What a function does whatever it is given."""
_COMPILED: Final = 400_000
"""Compiling the largest pattern: seven characters that a selector puts together can be one."""
_PATTERNS: Final = frozenset({"matches", "find", "findAll"})
_MATCH: Final = 8
_ZONE: Final = 500
"""Looking for a time zone."""
_OPAQUE: Final = 8
_SPARE: Final = 64
"""Characters of a number, a time or an address that is written."""


class Value(NamedTuple):
    """At most so long, and so large."""

    length: int
    size: int
    path: tuple[str, ...] = ()
    """Where it lies within a variable, while that is known."""


_ONE: Final = Value(1, 1)


class _Bound:
    def __init__(self, checked: Checked, hint: SizeHint | None) -> None:
        self._checked = checked
        self._hint = hint
        self._locals: dict[str, list[Value]] = {}
        self.work = 0
        self._times = 1

    def _spend(self, work: int) -> None:
        self.work = min(self.work + work * self._times, ENDLESS)

    # Values.

    def value(self, node: Expr) -> Value:
        self._spend(1)
        found = self._value(node)
        if not found.path and self._checked.types.get(node.id) in _SCALARS:
            return _ONE if not isinstance(node, Literal) else found
        return found

    def _value(self, node: Expr) -> Value:
        match node:
            case Literal(value=str() | bytes() as text):
                return Value(len(text), 1 + len(text))
            case Literal():
                return _ONE
            case Ident():
                stack = self._locals.get(node.name)
                return stack[-1] if stack else self._at((node.name.removeprefix("."),))
            case Select():
                return self._selected(self.value(node.operand), node.field)
            case ListLiteral():
                return _of(len(node.items), sum(self.value(item).size for item in node.items))
            case MapLiteral():
                size = sum(self.value(part).size for part in children(node))
                self._spend(min(size, ENDLESS))  # keys are hashed
                return _of(len(node.entries), size)
            case Comprehension():
                return self._fold(node)
            case Call(function=function, arguments=(operand, key)) if function in _STEPS:
                container = self.value(operand)
                self.value(key)
                name = key.value if isinstance(key, Literal) and isinstance(key.value, str) else "@values"
                return self._selected(container, name)
            case Call():
                return self._call(node)
            case _:
                return Value(ENDLESS, ENDLESS)

    def _selected(self, container: Value, name: str) -> Value:
        if container.path:
            return self._at((*container.path, name))
        return Value(container.size, container.size)

    def _at(self, path: tuple[str, ...]) -> Value:
        """A part of a variable. One of unknown type may be a list of texts, all as long as the hint says."""
        most, written = self._most(path), path
        if most is None:
            path = (*path[:-1], "@values")
            most = self._most(path)
        if most is None:
            # A variable that is selected from, like a device, is only as large as what is selected.
            return Value(ENDLESS, ENDLESS, written)
        inner = [self._most((*path, step)) for step in ("@keys", "@values")]
        if inner[0] is None or inner[1] is None:
            return Value(most, _OPAQUE + most * (most + 1), path)
        below = self._at((*path, "@values"))
        return Value(most, 1 + most * (1 + inner[0] + below.size), path)

    def _most(self, path: tuple[str, ...]) -> int | None:
        if self._hint is None:
            return None
        found = self._hint(SizedNode(BOOL, path))
        return None if found is None else found.max

    # Folds.

    def _fold(self, node: Comprehension) -> Value:
        never_runs = isinstance(node.condition, Literal) and node.condition.value is False
        over, initial = self.value(node.iterable), self.value(node.initial)
        if never_runs:
            return self._within({node.accumulator: initial}, node.result)
        item = Value(over.size, over.size)
        before, self._times = self._times, min(self._times * over.length, ENDLESS)
        names = {node.variable: item, node.variable2: item, node.accumulator: _ONE}
        self._within(names, node.condition)
        step = self._within(names, node.step)
        self._times = before
        grown = isinstance(node.initial, ListLiteral | MapLiteral)
        result = _of(over.length, over.length * step.size) if grown else step
        self._spend(result.size if grown else 0)
        return self._within({node.accumulator: result}, node.result)

    def _within(self, names: dict[str, Value], node: Expr) -> Value:
        for name, value in names.items():
            self._locals.setdefault(name, []).append(value)
        found = self.value(node)
        for name in names:
            self._locals[name].pop()
        return found

    # Calls.

    def _call(self, node: Call) -> Value:
        values = [self.value(part) for part in children(node)]
        function = node.function
        if function in (ast.AND, ast.OR, ast.NOT, "size", "type", "hasValue", ast.NOT_STRICTLY_FALSE):
            return _ONE
        if function == ast.CONDITIONAL or function in ("or", "orValue"):
            return Value(max(one.length for one in values), max(one.size for one in values))
        if function in ("dyn", "value", "optional.of", "optional.ofNonZeroValue") and len(values) == 1:
            return values[0]
        if function in (ast.EQUALS, ast.NOT_EQUALS, *_ORDERS):
            self._spend(min(one.size for one in values))
            return _ONE
        if function == "lists.range":
            return self._range(node)
        if function in _PATTERNS and node.target is not None and not isinstance(node.arguments[0], Literal):
            self._spend(_COMPILED)
        if function == "format":
            self._spend(ENDLESS)
            return Value(ENDLESS, ENDLESS)
        return self._walked(function, values)

    def _range(self, node: Call) -> Value:
        count = node.arguments[0].value if isinstance(node.arguments[0], Literal) else ENDLESS
        length = max(count, 0) if count.__class__ is int else ENDLESS
        self._spend(length)
        return Value(length, length + 1)

    def _walked(self, function: str, values: Sequence[Value]) -> Value:
        """Any other function: it walks over its arguments, some over each for each, and gives no more than it got."""
        total = min(sum(one.size for one in values), ENDLESS)
        self._spend(_CALL)
        if function in ("url", "isURL"):
            self._spend(8 * total)
        if function.startswith("get") and len(values) > 1:
            self._spend(_ZONE)
        if function in _SEARCHES:
            product = values[0].size
            for one in values[1:]:
                product = min(product * (one.size + 1), ENDLESS)
            self._spend(
                total + (product >> 4) + (_MATCH * (values[0].length + 1) if function == "findAll" else 0)
            )
            return _of(product, product) if function == "replace" else _of(total + 1, 2 * total)
        if function in _PAIRS:
            self._spend(min(total * max(one.length + 1 for one in values), ENDLESS))
        elif function == "join":
            total = min(total + values[0].length * values[-1].size, ENDLESS)
        self._spend(total)
        if function in (ast.IN, "startsWith", "endsWith"):
            return _ONE
        return Value(2 * total + _SPARE, 4 * total + _SPARE)


def _of(length: int, size: int) -> Value:
    return Value(min(length, ENDLESS), min(size + 1, ENDLESS))


def bound_work(checked: Checked, hint: SizeHint | None) -> int:
    """Steps, each of about as long as a step of the evaluator, that no evaluation exceeds."""
    bound = _Bound(checked, hint)
    bound.value(checked.expr)
    return bound.work
