"""The tree of an expression, after macros were expanded. Frozen; every node has a number of its own within its tree.

Operators are calls under cel-go's names (`_&&_`, `_[_]`, `_?_:_`, …), so that checking, costs and evaluation have one
table of functions. A macro becomes the comprehension that cel-go makes of it: costs are counted on that form.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from dray.cel.values import Value

AND = "_&&_"
OR = "_||_"
NOT = "!_"
NEGATE = "-_"
CONDITIONAL = "_?_:_"
EQUALS = "_==_"
NOT_EQUALS = "_!=_"
LESS = "_<_"
LESS_EQUALS = "_<=_"
GREATER = "_>_"
GREATER_EQUALS = "_>=_"
ADD = "_+_"
SUBTRACT = "_-_"
MULTIPLY = "_*_"
DIVIDE = "_/_"
MODULO = "_%_"
IN = "@in"
INDEX = "_[_]"
OPTIONAL_INDEX = "_[?_]"
OPTIONAL_SELECT = "_?._"
NOT_STRICTLY_FALSE = "@not_strictly_false"
MAP_INSERT = "cel.@mapInsert"
SORT_BY_KEYS = "@sortByAssociatedKeys"
ACCUMULATOR = "@result"
"""The name of the value that a macro's fold carries; no text can name it."""
UNUSED = "#unused"
"""The variable of a fold that never turns: cel.bind and what is like it."""


class Node(msgspec.Struct, frozen=True, gc=False):
    """`id` is unique in the tree; `position` is an offset in characters into the text: of the operator or bracket, where
    the expression has one."""

    id: int
    position: int


class Literal(Node, frozen=True, gc=False):
    """A constant: bool, int, `Uint`, float, str, bytes or None."""

    value: Value


class Ident(Node, frozen=True, gc=False):
    """A name; with a leading dot it is looked up at the root."""

    name: str


class Select(Node, frozen=True, gc=False):
    """`operand.field`, or with `is_test` the test that `has()` makes."""

    operand: Expr
    field: str
    is_test: bool = False


class Call(Node, frozen=True, gc=False):
    """`function(arguments)`, or with a target `target.function(arguments)`."""

    function: str
    arguments: tuple[Expr, ...]
    target: Expr | None = None


class ListLiteral(Node, frozen=True, gc=False):
    """`[a, ?b]`; `optional` are the positions with a question mark."""

    items: tuple[Expr, ...]
    optional: frozenset[int] = frozenset()


class Entry(Node, frozen=True, gc=False):
    """`key: value` of a map, or `?key: value`."""

    key: Expr
    value: Expr
    is_optional: bool = False


class MapLiteral(Node, frozen=True, gc=False):
    """`{key: value}`."""

    entries: tuple[Entry, ...]


class StructField(Node, frozen=True, gc=False):
    """`name: value` of a message."""

    name: str
    value: Expr
    is_optional: bool = False


class Struct(Node, frozen=True, gc=False):
    """`Name{field: value}`. Kubernetes' environment has no such types; it is parsed to say so."""

    name: str
    fields: tuple[StructField, ...]


class Comprehension(Node, frozen=True, gc=False):
    """A fold: for each item of `iterable`, while `condition`, `accumulator` becomes `step`; then `result`.

    `variable2` is set in the two-variable form: then `variable` is the index or key.
    """

    variable: str
    variable2: str
    iterable: Expr
    accumulator: str
    initial: Expr
    condition: Expr
    step: Expr
    result: Expr


Expr = Literal | Ident | Select | Call | ListLiteral | MapLiteral | Struct | Comprehension


def children(node: Expr) -> tuple[Expr, ...]:
    """The expressions directly below, in the order of the text."""
    match node:
        case Select(operand=operand):
            return (operand,)
        case Call(target=target, arguments=arguments):
            return (*(() if target is None else (target,)), *arguments)
        case ListLiteral(items=items):
            return items
        case MapLiteral(entries=entries):
            return tuple(part for entry in entries for part in (entry.key, entry.value))
        case Struct(fields=fields):
            return tuple(field.value for field in fields)
        case Comprehension():
            return (node.iterable, node.initial, node.condition, node.step, node.result)
        case _:
            return ()


def walk(root: Expr) -> Iterator[Expr]:
    """Every expression of the tree, a parent before its children, in the order of the text. Needs no stack of calls."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(children(node)))


def qualified_name(node: Expr) -> str | None:
    """`a.b.c` where the expression is a name with selections only."""
    fields: list[str] = []
    while isinstance(node, Select):
        if node.is_test:
            return None
        fields.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join([node.name, *reversed(fields)]) if fields else node.name
