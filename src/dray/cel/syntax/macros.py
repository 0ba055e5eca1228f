"""Macros: calls that the parser replaces, as cel-go does, node by node: costs are counted on what they become.

A library lists the ones it brings. An expansion gets a `Builder`, the target and the arguments, and returns the new
expression, None to leave the call alone, or raises `CelError`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dray.cel.ast import (
    ACCUMULATOR,
    ADD,
    AND,
    CONDITIONAL,
    EQUALS,
    MAP_INSERT,
    NOT,
    NOT_STRICTLY_FALSE,
    OR,
    SORT_BY_KEYS,
    UNUSED,
    Comprehension,
    Expr,
    Ident,
    Literal,
    MapLiteral,
    Select,
    Struct,
)
from dray.cel.faults import CelError
from dray.cel.syntax.builder import Builder

_OLD_ACCUMULATOR = "__result__"
_SORTED = "@__sortBy_input__"

Expand = Callable[[Builder, Expr, tuple[Expr, ...]], Expr | None]
MacroKey = tuple[str, int, bool]


@dataclass(frozen=True, slots=True)
class Macro:
    """`function` with that many arguments; a member where it follows a target, else `expand` gets a target without meaning."""

    function: str
    arguments: int
    expand: Expand
    is_member: bool = True

    @property
    def key(self) -> MacroKey:
        """What a call must be to be this macro."""
        return (self.function, self.arguments, self.is_member)


def _has(builder: Builder, _: Expr, arguments: tuple[Expr, ...]) -> Expr:
    tested = arguments[0]
    if not isinstance(tested, Select):
        raise CelError("invalid argument to has() macro", position=tested.position)
    return Select(*builder.next(), tested.operand, tested.field, True)


def _name(argument: Expr, message: str) -> str:
    if not isinstance(argument, Ident):
        raise CelError(message, position=argument.position)
    return argument.name


def _iteration_name(argument: Expr, message: str = "argument must be a simple name") -> str:
    name = _name(argument, message)
    if name in (ACCUMULATOR, _OLD_ACCUMULATOR):
        raise CelError("iteration variable overwrites accumulator variable", position=argument.position)
    return name


def _names(arguments: tuple[Expr, ...]) -> tuple[tuple[str, str], tuple[Expr, ...]]:
    """The one or two names a fold goes by, and the arguments after them."""
    return (_iteration_name(arguments[0]), ""), arguments[1:]


def _two_names(arguments: tuple[Expr, ...]) -> tuple[tuple[str, str], tuple[Expr, ...]]:
    first = _name(arguments[0], "argument must be a simple name")
    second = _name(arguments[1], "argument must be a simple name")
    if first == second:
        raise CelError(f"duplicate variable name: {first}", position=arguments[1].position)
    return (_iteration_name(arguments[0]), _iteration_name(arguments[1])), arguments[2:]


Names = Callable[[tuple[Expr, ...]], tuple[tuple[str, str], tuple[Expr, ...]]]


def _fold(
    builder: Builder, target: Expr, names: tuple[str, str], parts: tuple[Expr, Expr, Expr, Expr]
) -> Comprehension:
    initial, condition, step, result = parts
    return Comprehension(*builder.next(), *names, target, ACCUMULATOR, initial, condition, step, result)


def _all(read: Names) -> Expand:
    def expand(builder: Builder, target: Expr, arguments: tuple[Expr, ...]) -> Expr:
        names, (predicate,) = read(arguments)
        initial = builder.literal(True)
        condition = builder.call(NOT_STRICTLY_FALSE, builder.accumulator())
        step = builder.call(AND, builder.accumulator(), predicate)
        return _fold(builder, target, names, (initial, condition, step, builder.accumulator()))

    return expand


def _exists(read: Names) -> Expand:
    def expand(builder: Builder, target: Expr, arguments: tuple[Expr, ...]) -> Expr:
        names, (predicate,) = read(arguments)
        initial = builder.literal(False)
        condition = builder.call(NOT_STRICTLY_FALSE, builder.call(NOT, builder.accumulator()))
        step = builder.call(OR, builder.accumulator(), predicate)
        return _fold(builder, target, names, (initial, condition, step, builder.accumulator()))

    return expand


def _exists_one(read: Names) -> Expand:
    def expand(builder: Builder, target: Expr, arguments: tuple[Expr, ...]) -> Expr:
        names, (predicate,) = read(arguments)
        initial, condition = builder.literal(0), builder.literal(True)
        counted = builder.call(ADD, builder.accumulator(), builder.literal(1))
        step = builder.call(CONDITIONAL, predicate, counted, builder.accumulator())
        result = builder.call(EQUALS, builder.accumulator(), builder.literal(1))
        return _fold(builder, target, names, (initial, condition, step, result))

    return expand


def _if(builder: Builder, condition: tuple[Expr, ...], step: Expr) -> Expr:
    """The step where the condition, if there is one, holds."""
    return builder.call(CONDITIONAL, condition[0], step, builder.accumulator()) if condition else step


def _map(builder: Builder, target: Expr, arguments: tuple[Expr, ...]) -> Expr:
    name = _iteration_name(arguments[0], "argument is not an identifier")
    initial, condition = builder.list(), builder.literal(True)
    added = builder.call(ADD, builder.accumulator(), builder.list(arguments[-1]))
    step = _if(builder, arguments[1:-1], added)
    return _fold(builder, target, (name, ""), (initial, condition, step, builder.accumulator()))


def _filter(builder: Builder, target: Expr, arguments: tuple[Expr, ...]) -> Expr:
    name = _iteration_name(arguments[0], "argument is not an identifier")
    initial, condition = builder.list(), builder.literal(True)
    added = builder.call(ADD, builder.accumulator(), builder.list(arguments[0]))
    step = _if(builder, arguments[1:], added)
    return _fold(builder, target, (name, ""), (initial, condition, step, builder.accumulator()))


def _transform_list(builder: Builder, target: Expr, arguments: tuple[Expr, ...]) -> Expr:
    names, rest = _two_names(arguments)
    added = builder.call(ADD, builder.accumulator(), builder.list(rest[-1]))
    step = _if(builder, rest[:-1], added)
    initial, condition = builder.list(), builder.literal(True)
    return _fold(builder, target, names, (initial, condition, step, builder.accumulator()))


def _transform_map(builder: Builder, target: Expr, arguments: tuple[Expr, ...]) -> Expr:
    names, rest = _two_names(arguments)
    step = builder.call(MAP_INSERT, builder.accumulator(), builder.ident(names[0]), rest[-1])
    return _fold_map(builder, target, names, _if(builder, rest[:-1], step))


def _transform_map_entry(builder: Builder, target: Expr, arguments: tuple[Expr, ...]) -> Expr:
    names, rest = _two_names(arguments)
    step = builder.call(MAP_INSERT, builder.accumulator(), rest[-1])
    return _fold_map(builder, target, names, _if(builder, rest[:-1], step))


def _fold_map(builder: Builder, target: Expr, names: tuple[str, str], step: Expr) -> Expr:
    initial, condition = MapLiteral(*builder.next(), ()), builder.literal(True)
    return _fold(builder, target, names, (initial, condition, step, builder.accumulator()))


def _bound(builder: Builder, over: Expr, name: str, value: Expr, result: Expr) -> Expr:
    """A fold over nothing whose accumulator is the value: how cel-go binds a name."""
    condition, step = builder.literal(False), builder.ident(name)
    return Comprehension(*builder.next(), UNUSED, "", over, name, value, condition, step, result)


def _bind(builder: Builder, target: Expr, arguments: tuple[Expr, ...]) -> Expr | None:
    if not (isinstance(target, Ident) and target.name == "cel"):
        return None
    name = _name(arguments[0], "cel.bind() variable names must be simple identifiers")
    return _bound(builder, builder.list(), name, arguments[1], arguments[2])


def _value(builder: Builder, target: Expr, name: str, result: Expr) -> Expr:
    """The result with the name bound to what the optional holds."""
    over = builder.list()
    return _bound(builder, over, name, builder.call("value", target=builder.copy(target)), result)


def _opt_map(builder: Builder, target: Expr, arguments: tuple[Expr, ...]) -> Expr:
    name = _name(arguments[0], "optMap() variable name must be a simple identifier")
    has = builder.call("hasValue", target=target)
    some = builder.call("optional.of", _value(builder, target, name, arguments[1]))
    return builder.call(CONDITIONAL, has, some, builder.call("optional.none"))


def _opt_flat_map(builder: Builder, target: Expr, arguments: tuple[Expr, ...]) -> Expr:
    name = _name(arguments[0], "optFlatMap() variable name must be a simple identifier")
    has = builder.call("hasValue", target=target)
    some = _value(builder, target, name, arguments[1])
    return builder.call(CONDITIONAL, has, some, builder.call("optional.none"))


def _sort_by(builder: Builder, target: Expr, arguments: tuple[Expr, ...]) -> Expr:
    ident = builder.ident(_SORTED)
    if isinstance(target, Literal | MapLiteral | Struct):
        message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise CelError(message, position=target.position)
    keys = _map(builder, builder.copy(ident), arguments)
    ordered = builder.call(SORT_BY_KEYS, keys, target=builder.copy(ident))
    over, condition = builder.list(), builder.literal(False)
    return Comprehension(*builder.next(), UNUSED, "", over, _SORTED, target, condition, ident, ordered)


# Cel-go's own list also has existsOne with one variable; the environment that Kubernetes makes does not bring it.
STANDARD = (
    Macro("has", 1, _has, is_member=False),
    Macro("all", 2, _all(_names)),
    Macro("exists", 2, _exists(_names)),
    Macro("exists_one", 2, _exists_one(_names)),
    Macro("map", 2, _map),
    Macro("map", 3, _map),
    Macro("filter", 2, _filter),
)
OPTIONAL = (Macro("optMap", 2, _opt_map), Macro("optFlatMap", 2, _opt_flat_map))
BINDINGS = (Macro("bind", 3, _bind),)
TWO_VARIABLES = (
    Macro("all", 3, _all(_two_names)),
    Macro("exists", 3, _exists(_two_names)),
    Macro("existsOne", 3, _exists_one(_two_names)),
    Macro("exists_one", 3, _exists_one(_two_names)),
    Macro("transformList", 3, _transform_list),
    Macro("transformList", 4, _transform_list),
    Macro("transformMap", 3, _transform_map),
    Macro("transformMap", 4, _transform_map),
    Macro("transformMapEntry", 3, _transform_map_entry),
    Macro("transformMapEntry", 4, _transform_map_entry),
)
SORT_BY = (Macro("sortBy", 2, _sort_by),)
