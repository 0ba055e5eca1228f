"""How operators are written: `&&`, `==`, `<`, `in` and their like."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dray.cel import ast
from dray.cel import types as t
from dray.cel.ast import Call, Expr, Literal
from dray.cel.exact.references import overload_ids

if TYPE_CHECKING:
    from dray.cel.fast.codegen import Writer

_ORDERED = {t.INT, t.UINT, t.STRING, t.BYTES, t.DURATION, t.TIMESTAMP, t.BOOL}
_SYMBOLS = {ast.LESS: "<", ast.LESS_EQUALS: "<=", ast.GREATER: ">", ast.GREATER_EQUALS: ">="}
_CLASSES = {t.STRING: "str", t.INT: "int", t.BOOL: "bool"}


def _terms(node: Call) -> list[Expr]:
    """The operands of nested `&&` (or `||`), from the left."""
    terms: list[Expr] = []
    waiting: list[Expr] = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Call) and part.function == node.function:
            waiting.extend(reversed(part.arguments))
        else:
            terms.append(part)
    return terms


def logic(writer: Writer, node: Call) -> str:
    """`&&` and `||`, as one chain."""
    terms = _terms(node)
    first = writer.boolean(terms[0])
    if node is writer.root and node.function == ast.AND:
        # What a later term finds kept, an earlier one has kept: nothing comes after the chain.
        rest = [writer.boolean(term) for term in terms[1:]]
    else:
        rest = [writer.later(writer.boolean, term) for term in terms[1:]]
    return f"({(' and ' if node.function == ast.AND else ' or ').join([first, *rest])})"


def negation(writer: Writer, node: Call) -> str:
    """`!`."""
    return f"(not {writer.boolean(node.arguments[0])})"


def conditional(writer: Writer, node: Call) -> str:
    """`?:`."""
    test, chosen, otherwise = node.arguments
    condition = writer.boolean(test)
    branches = [writer.later(writer.value, branch) for branch in (chosen, otherwise)]
    return f"({branches[0]} if {condition} else {branches[1]})"


def equality(writer: Writer, node: Call) -> str:
    """`==` and `!=`."""
    left, right = node.arguments
    kind, other = writer.type(left), writer.type(right)
    symbol, otherwise = ("==", "equals") if node.function == ast.EQUALS else ("!=", "differs")
    if kind == other and kind in _ORDERED:
        return f"({writer.value(left)} {symbol} {writer.value(right)})"
    if isinstance(right, Literal) and right.value is None:
        return f"({writer.value(left)} {'is' if symbol == '==' else 'is not'} None)"
    if isinstance(right, Literal) and other in _CLASSES:
        first, again = writer.named(writer.value(left))
        constant = writer.value(right)
        test = f"{first}.__class__ is {_CLASSES[other]}"
        return f"({again} {symbol} {constant} if {test} else {otherwise}({again}, {constant}))"
    if isinstance(left, Literal) and left.value.__class__ is str:
        return f"({writer.value(left)} {symbol} {writer.value(right)})"
    return f"{otherwise}({writer.value(left)}, {writer.value(right)})"


def order(writer: Writer, node: Call) -> str:
    """`<` and its like."""
    left, right = node.arguments
    kind, other, symbol = writer.type(left), writer.type(right), _SYMBOLS[node.function]
    if kind == other and kind in _ORDERED:
        return f"({writer.value(left)} {symbol} {writer.value(right)})"
    if isinstance(right, Literal) and right.value.__class__ in (int, str) and other in _CLASSES:
        first, again = writer.named(writer.value(left))
        return f"({again} {symbol} {writer.value(right)} if {first}.__class__ is {_CLASSES[other]} else {_ordered(writer, node)}({again}, {writer.value(right)}))"
    return f"{_ordered(writer, node)}({writer.value(left)}, {writer.value(right)})"


def _ordered(writer: Writer, node: Call) -> str:
    name = overload_ids(writer.compiler.checked, node)[0]
    return writer.constant(writer.compiler.overloads[name].implementation)


def member(writer: Writer, node: Call) -> str:
    """`in`."""
    item, container = node.arguments
    kind = writer.type(container)
    if kind.name == "map" and writer.type(item) == t.STRING:
        return f"({writer.value(item)} in {writer.value(container)})"
    items = writer.compiler.constant(container)
    if isinstance(items, tuple) and items:
        if all(part.__class__ is str for part in items):
            return f"({writer.value(item)} in {writer.constant(frozenset(items))})"
        if all(part.__class__ is int for part in items):
            return _among(writer, item, items)
    return f"contains({writer.value(item)}, {writer.value(container)})"


def _among(writer: Writer, item: Expr, numbers: tuple[int, ...]) -> str:
    among = writer.constant(frozenset(numbers))
    if writer.type(item) == t.INT:
        return f"({writer.value(item)} in {among})"
    first, again = writer.named(writer.value(item))
    return (
        f"({again} in {among} if {first}.__class__ is int else contains({again}, {writer.constant(numbers)}))"
    )


OPERATORS: dict[str, Callable[[Writer, Call], str]] = {
    ast.AND: logic,
    ast.OR: logic,
    ast.NOT: negation,
    ast.CONDITIONAL: conditional,
    ast.EQUALS: equality,
    ast.NOT_EQUALS: equality,
    ast.IN: member,
    **dict.fromkeys(_SYMBOLS, order),
}
