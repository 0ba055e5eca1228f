"""How calls of functions are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dray.cel import ast
from dray.cel import types as t
from dray.cel.ast import Call, Expr, Literal
from dray.cel.exact.calls import pick_overload
from dray.cel.exact.references import overload_ids
from dray.cel.fast import shortcuts
from dray.cel.library import standard
from dray.cel.types import Type
from dray.cel.values import Value

if TYPE_CHECKING:
    from dray.cel.exact.closures import Compiler
    from dray.cel.fast.codegen import Writer

_MAY_MISS = (ast.OPTIONAL_INDEX, ast.OPTIONAL_SELECT)
_CLASSES = {t.STRING: "str", t.INT: "int", t.BOOL: "bool", t.DOUBLE: "float", t.BYTES: "bytes"}


class UnsupportedError(Exception):
    """No code for this; the closures do it alone."""


def call(writer: Writer, node: Call) -> str:
    """A call of any function but the operators."""
    if node.function in ("or", "orValue") and node.target is not None and len(node.arguments) == 1:
        return _alternative(writer, node)
    return _function(writer, node)


def _function(writer: Writer, node: Call) -> str:
    arguments = _arguments(writer, node)
    if node.function == "matches" and isinstance(arguments[1], Literal):
        return _matches(writer, arguments[0], arguments[1].value)
    sources = [writer.value(argument) for argument in arguments]
    overloads = [writer.compiler.overloads[name] for name in overload_ids(writer.compiler.checked, node)]
    if not overloads:
        raise UnsupportedError
    if node.function in standard.SELF_CHECKING:
        return f"{writer.constant(overloads[0].implementation)}({', '.join(sources)})"
    doubts = [
        position
        for position, (argument, wanted) in enumerate(zip(arguments, overloads[0].parameters, strict=True))
        if not _is_certain(writer.type(argument), wanted)
    ]
    if len(overloads) == 1 and not doubts:
        return f"{writer.constant(overloads[0].implementation)}({', '.join(sources)})"
    if len(overloads) == 1 and doubts == [0]:
        test = _kind_test(writer, overloads[0].parameters[0])
        if test is not None:
            first, again = writer.named(sources[0])
            call = f"{writer.constant(overloads[0].implementation)}({', '.join([again, *sources[1:]])})"
            return f"({call} if {first}{test} else fail())"
    return f"{writer.constant(_dispatcher(writer.compiler, node))}({', '.join(sources)})"


def _arguments(writer: Writer, node: Call) -> list[Expr]:
    return list(node.arguments) if node.target is None else [node.target, *node.arguments]


def _kind_test(writer: Writer, wanted: Type) -> str | None:
    if wanted in _CLASSES:
        return f".__class__ is {_CLASSES[wanted]}"
    if wanted.is_opaque and not wanted.parameters:
        return f".cel_type is {writer.constant(wanted)}"
    return None


def _matches(writer: Writer, text: Expr, pattern: Value) -> str:
    implementation = writer.compiler.overloads["matches_string"].implementation
    return f"{writer.constant(shortcuts.remembering(lambda value: implementation(value, pattern)))}({writer.value(text)})"


def _alternative(writer: Writer, node: Call) -> str:
    """`or` and `orValue`."""
    assert node.target is not None
    optional, otherwise = node.target, node.arguments[0]
    if node.function == "orValue" and isinstance(optional, Call) and optional.function in _MAY_MISS:
        operand, key = optional.arguments
        if writer.type(operand).name == "map":
            first, again = writer.named(f"find_or({writer.value(operand)}, {writer.value(key)})")
            return f"({again} if {first} is not MISSING else {writer.later(writer.value, otherwise)})"
    first, again = writer.named(writer.value(optional))
    other = writer.later(writer.value, otherwise)
    content = f"{again}.content" if node.function == "orValue" else again
    return f"({content} if {first}.content is not MISSING else {other})"


def _is_certain(found: Type, wanted: Type) -> bool:
    """Whether a value of the one type needs no look before it is passed as the other."""
    if wanted.is_parameter or wanted in (t.DYN, t.ANY):
        return True
    if found.name != wanted.name or len(found.parameters) != len(wanted.parameters):
        return False
    return all(map(_is_certain, found.parameters, wanted.parameters))


def _dispatcher(compiler: Compiler, node: Call) -> Callable[..., Value]:
    pick = pick_overload(compiler, node)

    def dispatch(*values: Value) -> Value:
        return pick(values).implementation(*values)

    return dispatch
