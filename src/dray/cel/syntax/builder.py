"""Makes the nodes of a tree: numbers them, and copies what a macro needs twice."""

from __future__ import annotations

import msgspec

from dray.cel.ast import (
    ACCUMULATOR,
    Call,
    Comprehension,
    Entry,
    Expr,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    Struct,
    StructField,
)
from dray.cel.faults import CelError
from dray.cel.values import Value

COPY_LIMIT = 50_000
"""Nodes an expression may get by copying. Each optMap doubles what it is called on, so a chain of them would not end."""


class Builder:
    """The parser is one. `place` is the position that the nodes of a macro get: that of its call."""

    __slots__ = ("_copies", "number", "place")

    def __init__(self) -> None:
        self.number = 0
        self.place = 0
        self._copies = 0

    def next(self) -> tuple[int, int]:
        """Number and position of a macro's next node."""
        self.number += 1
        return self.number, self.place

    def literal(self, value: Value) -> Literal:
        """A constant."""
        return Literal(*self.next(), value)

    def ident(self, name: str) -> Ident:
        """A name."""
        return Ident(*self.next(), name)

    def accumulator(self) -> Ident:
        """The value that a fold carries."""
        return Ident(*self.next(), ACCUMULATOR)

    def list(self, *items: Expr) -> ListLiteral:
        """A list."""
        return ListLiteral(*self.next(), items)

    def call(self, function: str, *arguments: Expr, target: Expr | None = None) -> Call:
        """A call."""
        return Call(*self.next(), function, arguments, target)

    def copy(self, node: Expr) -> Expr:
        """The same expression with new numbers."""
        self._copies += 1
        if self._copies > COPY_LIMIT:
            message = f"expression is too large once its macros are expanded: limit {COPY_LIMIT} copied nodes"
            raise CelError(message, position=self.place)
        self.number += 1
        fresh = self.number
        match node:
            case Literal() | Ident():
                return msgspec.structs.replace(node, id=fresh)
            case Select():
                return msgspec.structs.replace(node, id=fresh, operand=self.copy(node.operand))
            case Call():
                arguments = self._copies_of(node.arguments)
                target = None if node.target is None else self.copy(node.target)
                return Call(fresh, node.position, node.function, arguments, target)
            case ListLiteral():
                return ListLiteral(fresh, node.position, self._copies_of(node.items), node.optional)
            case MapLiteral():
                return MapLiteral(fresh, node.position, tuple(map(self._copy_entry, node.entries)))
            case Struct():
                return Struct(fresh, node.position, node.name, tuple(map(self._copy_field, node.fields)))
            case Comprehension():
                return self._copy_fold(node, fresh)

    def _copies_of(self, nodes: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(map(self.copy, nodes))

    def _copy_entry(self, entry: Entry) -> Entry:
        return Entry(*self.next(), self.copy(entry.key), self.copy(entry.value), entry.is_optional)

    def _copy_field(self, field: StructField) -> StructField:
        return StructField(*self.next(), field.name, self.copy(field.value), field.is_optional)

    def _copy_fold(self, node: Comprehension, fresh: int) -> Comprehension:
        return msgspec.structs.replace(
            node,
            id=fresh,
            iterable=self.copy(node.iterable),
            initial=self.copy(node.initial),
            condition=self.copy(node.condition),
            step=self.copy(node.step),
            result=self.copy(node.result),
        )
