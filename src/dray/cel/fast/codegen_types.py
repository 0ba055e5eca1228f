"""Which types generated code may rely on. The checker's are not enough: where `dyn` meets a type variable, it takes the other
type for granted, and only the run shows what the value is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.cel import ast
from dray.cel import types as t
from dray.cel.ast import Call, Comprehension, Expr, Ident, ListLiteral, Literal, MapLiteral, Select
from dray.cel.exact.references import constant_of, overload_ids
from dray.cel.fast.codegen_folds import FoldShape, shape_of
from dray.cel.library import standard
from dray.cel.types import Type

if TYPE_CHECKING:
    from dray.cel.exact.closures import Compiler

_LIST, _MAP, _OPTIONAL = t.list_of(t.DYN), t.map_of(t.DYN, t.DYN), t.optional_of(t.DYN)
_ALWAYS = {
    **dict.fromkeys(
        (ast.AND, ast.OR, ast.NOT, ast.EQUALS, ast.NOT_EQUALS, ast.IN, ast.NOT_STRICTLY_FALSE), t.BOOL
    ),
    **dict.fromkeys((ast.LESS, ast.LESS_EQUALS, ast.GREATER, ast.GREATER_EQUALS), t.BOOL),
    **dict.fromkeys(("contains", "startsWith", "endsWith", "matches"), t.BOOL),
    **dict.fromkeys((ast.OPTIONAL_INDEX, ast.OPTIONAL_SELECT), _OPTIONAL),
    "size": t.INT,
}
"""What these give, whatever they are given, or they fail."""


class CertainTypes:
    """Types of nodes that no value can belie; dyn where there is doubt. Ask for a node only while its names are entered."""

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler
        self._known: dict[int, Type] = {}
        self._locals: dict[str, list[Type]] = {}

    def enter(self, name: str, type_: Type) -> None:
        """A name of a fold, and what it stands for."""
        self._locals.setdefault(name, []).append(type_)

    def leave(self, name: str) -> None:
        """The last one entered."""
        self._locals[name].pop()

    def of(self, node: Expr) -> Type:
        """The type that generated code may take for granted."""
        if isinstance(node, Literal):
            return t.STRING if node.value.__class__ is str else self._compiler.type(node)
        known = self._known.get(node.id)
        if known is None:
            known = self._known[node.id] = self._find(node)
        return known

    def _find(self, node: Expr) -> Type:
        match node:
            case Ident():
                stack = self._locals.get(node.name)
                return stack[-1] if stack else self._compiler.type(node)
            case Select(is_test=True):
                return t.BOOL
            case Select():
                return self._selected(node.operand, node)
            case ListLiteral():
                return _LIST
            case MapLiteral():
                return _MAP
            case Comprehension():
                return self._fold(node)
            case Call(function=ast.INDEX):
                return self._selected(node.arguments[0], node)
            case Call(function=ast.CONDITIONAL, arguments=(_, chosen, otherwise)):
                first, second = self.of(chosen), self.of(otherwise)
                return first if first == second else t.DYN
            case Call():
                return _ALWAYS.get(node.function) or self._call(node)
            case _:
                return t.DYN

    def _selected(self, operand: Expr, node: Expr) -> Type:
        container = self.of(operand)
        if container.is_struct:
            return self._compiler.type(node)
        if container.name in ("map", "list") and container.parameters:
            return container.parameters[-1]
        return _OPTIONAL if container.name == "optional_type" else t.DYN

    def _fold(self, node: Comprehension) -> Type:
        match shape_of(node):
            case FoldShape.ALL | FoldShape.EXISTS | FoldShape.EXISTS_ONE:
                return t.BOOL
            case FoldShape.MAP:
                return _LIST
            case FoldShape.BIND:
                self.enter(node.accumulator, self.of(node.initial))
                found = self.of(node.result)
                self.leave(node.accumulator)
                return found
        return t.DYN

    def _call(self, node: Call) -> Type:
        names = overload_ids(self._compiler.checked, node)
        if len(names) != 1 or constant_of(self._compiler.checked, node) is not None:
            return t.DYN
        overload = self._compiler.overloads[names[0]]
        arguments = node.arguments if node.target is None else (node.target, *node.arguments)
        if node.function in standard.SELF_CHECKING:
            certain = all(
                self.of(part) == wanted for part, wanted in zip(arguments, overload.parameters, strict=True)
            )
            return overload.result if certain else t.DYN
        return _without_variables(overload.result)


def _without_variables(type_: Type) -> Type:
    if type_.is_parameter:
        return t.DYN
    inner = tuple(map(_without_variables, type_.parameters))
    return Type(type_.name, inner, is_opaque=type_.is_opaque, is_struct=type_.is_struct)
