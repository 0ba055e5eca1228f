"""How folds are written: which macro one came from, for the shapes that have a Python expression of their own."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from dray.cel import ast
from dray.cel import types as t
from dray.cel.ast import Call, Comprehension, Expr, Ident, ListLiteral, Literal
from dray.cel.fast.codegen_calls import UnsupportedError
from dray.cel.types import Type

if TYPE_CHECKING:
    from dray.cel.fast.codegen import Writer


class FoldShape(Enum):
    """`MAP` is also `filter` and `transformList`."""

    ALL = auto()
    EXISTS = auto()
    EXISTS_ONE = auto()
    MAP = auto()
    BIND = auto()


def shape_of(node: Comprehension) -> FoldShape | None:
    """None for a fold that no known macro makes."""
    match node.condition:
        case Literal(value=False):
            is_bind = isinstance(node.iterable, ListLiteral) and not node.iterable.items
            return FoldShape.BIND if is_bind else None
        case Literal(value=True):
            return _counting_or_collecting(node)
        case Call(function=ast.NOT_STRICTLY_FALSE):
            return _deciding(node)
    return None


def _is_accumulator(node: Comprehension, part: Expr) -> bool:
    return isinstance(part, Ident) and part.name == node.accumulator


def _deciding(node: Comprehension) -> FoldShape | None:
    if not _is_accumulator(node, node.result):
        return None
    match node.initial, node.step:
        case Literal(value=True), Call(function=ast.AND, arguments=(first, _)) if _is_accumulator(
            node, first
        ):
            return FoldShape.ALL
        case Literal(value=False), Call(function=ast.OR, arguments=(first, _)) if _is_accumulator(
            node, first
        ):
            return FoldShape.EXISTS
    return None


def _counting_or_collecting(node: Comprehension) -> FoldShape | None:
    match node.initial:
        case Literal(value=0):
            return (
                FoldShape.EXISTS_ONE
                if isinstance(node.step, Call) and node.step.function == ast.CONDITIONAL
                else None
            )
        case ListLiteral(items=()) if _is_accumulator(node, node.result):
            return FoldShape.MAP if _adds_one(node, node.step) else None
    return None


def _adds_one(node: Comprehension, step: Expr) -> bool:
    match step:
        case Call(function=ast.CONDITIONAL, arguments=(_, chosen, otherwise)):
            return _is_accumulator(node, otherwise) and _adds_one(node, chosen)
        case Call(function=ast.ADD, arguments=(first, ListLiteral(items=(_,), optional=optional))):
            return _is_accumulator(node, first) and not optional
    return False


def fold(writer: Writer, node: Comprehension) -> str:
    """A fold as an expression."""
    shape = shape_of(node)
    if shape is FoldShape.BIND:
        return _bind(writer, node)
    if shape is None:
        raise UnsupportedError
    over = _range(writer, node)
    names = {variable: writer.name("i") for variable in (node.variable, node.variable2) if variable}
    for variable, type_ in zip(names, _entry_types(writer.type(node.iterable), len(names)), strict=True):
        writer.enter(variable, names[variable], type_)
    before, writer.is_straight = writer.is_straight, False
    source = _folding(writer, node, shape, f"for {', '.join(names.values())} in {over}")
    writer.is_straight = before
    for variable in names:
        writer.leave(variable)
    return source


def _entry_types(over: Type, count: int) -> tuple[Type, ...]:
    """Of an item, or of a key; or of index or key and value."""
    match over.name, over.parameters:
        case "list", (item,):
            return (item,) if count == 1 else (t.INT, item)
        case "map", (key, value):
            return (key,) if count == 1 else (key, value)
    return (t.DYN,) * count


def _range(writer: Writer, node: Comprehension) -> str:
    before, writer.allows_names = writer.allows_names, False
    over = writer.value(node.iterable)
    writer.allows_names = before
    kind = writer.type(node.iterable).name
    if node.variable2:
        pairs = {"map": f"{over}.items()", "list": f"enumerate({over})"}
        return pairs.get(kind, f"entries({over})")
    return over if kind in ("map", "list") else f"iterate({over})"


def _folding(writer: Writer, node: Comprehension, shape: FoldShape, loop: str) -> str:
    match shape, node.step:
        case ((FoldShape.ALL | FoldShape.EXISTS), Call(arguments=(_, predicate))):
            return f"{'all' if shape is FoldShape.ALL else 'any'}({writer.boolean(predicate)} {loop})"
        case FoldShape.EXISTS_ONE, Call(arguments=(predicate, _, _)):
            return f"(sum(1 {loop} if {writer.boolean(predicate)}) == 1)"
        case FoldShape.MAP, Call(
            function=ast.CONDITIONAL, arguments=(predicate, Call(arguments=(_, added)), _)
        ):
            assert isinstance(added, ListLiteral)
            test = writer.boolean(predicate)
            return f"[{writer.value(added.items[0])} {loop} if {test}]"
        case FoldShape.MAP, Call(arguments=(_, ListLiteral(items=(item,)))):
            return f"[{writer.value(item)} {loop}]"
    raise UnsupportedError


def _bind(writer: Writer, node: Comprehension) -> str:
    if not writer.allows_names:
        raise UnsupportedError
    initial, name = writer.value(node.initial), writer.name("b")
    writer.enter(node.accumulator, name, writer.type(node.initial))
    result = writer.value(node.result)
    writer.leave(node.accumulator)
    return f"({name} := {initial}, {result})[1]"
