"""What cel-go makes of expressions in the environment of Kubernetes' device selectors, and the same environment for us.

`tree_cases/declarations.jsonl` holds every function declared there, `tree_cases/cases.jsonl` expressions with cel-go's answers: `parsed`
and `checked` trees as `dumped` writes them, types and references by node, or the error. `tree_cases/dump.go` made both.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from dray.cel import types as t
from dray.cel.ast import (
    Call,
    Comprehension,
    Expr,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    Struct,
)
from dray.cel.check.checker import Checked, Constant, Reference, Variable
from dray.cel.environment import Environment
from dray.cel.functions import Library, Overload
from dray.cel.syntax import macros
from dray.cel.types import StructType, Type
from dray.cel.values import Uint, Value
from tests.cases import read_cases

FOLDER = Path(__file__).parent / "tree_cases"
MACROS = (
    *macros.STANDARD,
    *macros.OPTIONAL,
    *macros.BINDINGS,
    *macros.TWO_VARIABLES,
    *macros.SORT_BY,
)
TYPES = (
    t.BOOL,
    t.BYTES,
    t.DOUBLE,
    t.DURATION,
    t.INT,
    t.list_of(t.A),
    t.map_of(t.A, t.B),
    t.NULL,
    t.STRING,
    t.TIMESTAMP,
    t.TYPE,
    t.UINT,
    t.opaque("optional_type"),
)
DEVICE = t.struct_of("kubernetes.DRADevice")
_QUANTITY = t.struct_of("kubernetes.Quantity")
_FIELDS = {
    "driver": t.STRING,
    "allowMultipleAllocations": t.BOOL,
    "attributes": t.map_of(t.STRING, t.map_of(t.STRING, t.ANY)),
    "capacity": t.map_of(t.STRING, t.map_of(t.STRING, _QUANTITY)),
}


def read(name: str) -> list[Any]:
    return read_cases(FOLDER / f"{name}.jsonl")


@cache
def environment() -> Environment:
    """Signatures only: a call does nothing."""
    overloads = tuple(
        Overload(id_, function, tuple(map(_type, given)), _type(result), _nothing, is_member)
        for function, id_, is_member, given, result in read("declarations")
    )
    library = Library("all", overloads, MACROS, TYPES, mixed_literals_in=("format",))
    return Environment({"device": DEVICE}, (library,), structs=(StructType(DEVICE, _FIELDS),))


def _nothing(*values: Value) -> Value:
    return values


def _type(written: list[Any]) -> Type:
    is_parameter, is_opaque, is_struct, name, parameters = written
    return Type(name, tuple(map(_type, parameters)), is_parameter, is_opaque, is_struct)


def dumped(node: Expr | None) -> Any:
    """A tree in lists: kind, id, position, then what the node is made of."""
    match node:
        case None:
            return None
        case Literal():
            return ["lit", node.id, node.position, _literal(node.value)]
        case Ident():
            return ["id", node.id, node.position, node.name]
        case Select():
            return ["sel", node.id, node.position, dumped(node.operand), node.field, node.is_test]
        case Call():
            arguments = list(map(dumped, node.arguments))
            return ["call", node.id, node.position, node.function, arguments, dumped(node.target)]
        case ListLiteral():
            return ["list", node.id, node.position, list(map(dumped, node.items)), sorted(node.optional)]
        case MapLiteral():
            entries = [
                [e.id, e.position, dumped(e.key), dumped(e.value), e.is_optional] for e in node.entries
            ]
            return ["map", node.id, node.position, entries]
        case Struct():
            fields = [[f.id, f.position, f.name, dumped(f.value), f.is_optional] for f in node.fields]
            return ["struct", node.id, node.position, node.name, fields]
        case Comprehension():
            return _fold(node)


def _fold(node: Comprehension) -> list[Any]:
    head = [
        "fold",
        node.id,
        node.position,
        node.variable,
        node.variable2,
        dumped(node.iterable),
        node.accumulator,
    ]
    return [*head, *map(dumped, (node.initial, node.condition, node.step, node.result))]


def _literal(value: Value) -> list[Any]:
    match value:
        case None:
            return ["null"]
        case bool():
            return ["bool", value]
        case Uint():
            return ["uint", str(int(value))]
        case int():
            return ["int", str(value)]
        case float():
            return ["double", value]
        case str():
            return ["string", value]
        case _:
            return ["bytes", value.hex()]


def types_of(checked: Checked) -> dict[str, str]:
    return {str(number): t.shown(type_) for number, type_ in checked.types.items()}


def references_of(checked: Checked) -> dict[str, Any]:
    return {str(number): _reference(reference) for number, reference in checked.references.items()}


def _reference(reference: Reference) -> Any:
    match reference:
        case Variable():
            return reference.name
        case Constant():
            return reference.value.name
        case _:
            return list(reference)


def without_numbers(message: str) -> str:
    """Cel-go numbers type variables in random order."""
    return re.sub(r"_var\d+", "_var", message)
