"""Gives every expression of a tree its type, finds the overloads that calls may mean, and names every fault at once.

Names are resolved on the way: `a.b.c` becomes one `Ident` where a variable is called so, and `optional.of(x)` a call without
a target. Each node's check calls the next directly: one call a level, so that any tree the parser lets through fits the stack.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from dray.cel import types as t
from dray.cel.ast import (
    AND,
    OPTIONAL_SELECT,
    OR,
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
    qualified_name,
)
from dray.cel.check.literals import literal_faults
from dray.cel.check.overloads import Substitutions, is_dynamic, most_general, unwrap_optional
from dray.cel.environment import Declared, Environment
from dray.cel.faults import CelError, Fault
from dray.cel.types import Type, shown, signature
from dray.cel.values import Uint

TYPE_SIZE_LIMIT = 2000
"""How much a type may be made of: names bound to maps of themselves would double it without end."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A name that stands for a value given at evaluation, or for the variable of a comprehension."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A name that stands for a type."""

    value: Type


Reference = tuple[str, ...] | Variable | Constant
"""For a call, the ids of the overloads it may mean; the value's types at run time choose."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A tree that passed, with names resolved. Both tables go by the nodes' ids; no type has variables left."""

    expr: Expr
    types: dict[int, Type]
    references: dict[int, Reference]

    @property
    def result_type(self) -> Type:
        """Of the whole expression."""
        return self.types[self.expr.id]


def check(expr: Expr, environment: Environment) -> Checked:
    """Raises `CelError` with all faults."""
    checker = _Checker(environment)
    try:
        resolved = checker.check(expr)
    except RecursionError:
        raise CelError("expression is nested too deeply", position=-1) from None
    if checker.faults:
        raise CelError.of(checker.faults)
    checked = Checked(resolved, checker.final_types(), checker.references)
    if faults := literal_faults(checked, environment):
        raise CelError.of(faults)
    return checked


class _Checker:
    """`_local` holds the variables of the comprehensions around the node that is checked."""

    def __init__(self, environment: Environment) -> None:
        self.faults: list[Fault] = []
        self.references: dict[int, Reference] = {}
        self._environment = environment
        self._types: dict[int, Type] = {}
        self._local: dict[str, Type] = {}
        self._known = Substitutions()
        self._sizes: dict[Type, int] = {}

    def final_types(self) -> dict[int, Type]:
        return {number: self._known.final(type_) for number, type_ in self._types.items()}

    def check(self, node: Expr) -> Expr:
        return _CHECKS[type(node)](self, node)

    # Names

    def literal(self, node: Literal) -> Expr:
        self._types[node.id] = _LITERALS[type(node.value)]
        return node

    def ident(self, node: Ident) -> Expr:
        declared = self._lookup(node.name)
        if declared is None:
            self._undeclared(node, node.name)
            return node
        return self._resolved(node, declared)

    def _lookup(self, name: str) -> Declared | None:
        for full in self._environment.resolve(name):
            if full in self._local:
                return Declared(full, self._local[full])
            if (declared := self._environment.declared(full)) is not None:
                return declared
        return None

    def _resolved(self, node: Ident | Select, declared: Declared) -> Expr:
        constant = declared.constant
        self._types[node.id] = declared.type
        self.references[node.id] = Variable(declared.name) if constant is None else Constant(constant)
        if isinstance(node, Ident) and node.name == declared.name:
            return node
        return Ident(node.id, node.position, declared.name)

    # Selections

    def select(self, node: Select) -> Expr:
        name = qualified_name(node)
        if name is not None and (declared := self._lookup(name)) is not None:
            return self._resolved(node, declared)
        operand = _CHECKS[type(node.operand)](self, node.operand)
        found = self._selected(node, operand, node.field)
        self._types[node.id] = t.BOOL if node.is_test else self._known.applied(found)
        return Select(node.id, node.position, operand, node.field, node.is_test)

    def _selected(self, node: Expr, operand: Expr, field: str, *, is_optional: bool = False) -> Type:
        held, was_optional = unwrap_optional(self._known.applied(self._types[operand.id]))
        found = t.DYN
        if held.name == "map":
            found = held.parameters[1]
        elif held.is_struct:
            found = self._field(node, held, field)
        elif held.is_parameter:
            self._known.assignable(t.DYN, held)
        elif not is_dynamic(held) and held != t.ERROR:
            self._fault(node, f"type '{shown(held)}' does not support field selection")
        return t.optional_of(found) if is_optional or was_optional else found

    def _field(self, node: Expr | StructField, struct: Type, field: str) -> Type:
        found = self._environment.field(struct, field)
        if found is not None:
            return found
        is_known = self._environment.has_fields(struct)
        message = (
            f"undefined field '{field}'" if is_known else f"unexpected failed resolution of '{struct.name}'"
        )
        self._fault(node, message)
        return t.ERROR

    # Calls

    def call(self, node: Call) -> Expr:
        if node.function == OPTIONAL_SELECT and node.target is None:
            return self._optional_select(node)
        arguments: list[Expr] = []
        for argument in node.arguments:
            arguments.append(_CHECKS[type(argument)](self, argument))  # noqa: PERF401 one call a level
        target, function = node.target, None
        if target is None:
            function = self._environment.function(node.function)
        elif (prefix := qualified_name(target)) is not None:
            function = self._environment.function(f"{prefix}.{node.function}")
        if target is not None and function is None:
            target = _CHECKS[type(target)](self, target)
            return self._called(node, node.function, target, tuple(arguments))
        return self._called(node, function or node.function, None, tuple(arguments))

    def _called(self, node: Call, function: str, target: Expr | None, arguments: tuple[Expr, ...]) -> Expr:
        if (full := self._environment.function(function)) is None:
            self._undeclared(node, function)
        else:
            self._resolve(node, full, target, arguments)
        return Call(node.id, node.position, function, arguments, target)

    def _optional_select(self, node: Call) -> Expr:
        operand, field = node.arguments
        checked = _CHECKS[type(operand)](self, operand)
        assert isinstance(field, Literal)
        found = self._selected(node, checked, field.value, is_optional=True)
        self._set(node, self._known.applied(found))
        self.references[node.id] = ("select_optional_field",)
        return msgspec.structs.replace(node, arguments=(checked, field))

    def _resolve(self, node: Call, function: str, target: Expr | None, arguments: tuple[Expr, ...]) -> None:
        given = arguments if target is None else (target, *arguments)
        passed = tuple([self._types[argument.id] for argument in given])
        if function in (AND, OR):
            self._logical(node, arguments, passed)
            return
        candidates = self._environment.candidates(function, is_member=target is not None, count=len(given))
        resolution = self._known.resolve(candidates, passed)
        if resolution is None:
            applied = signature(tuple(map(self._known.shown, passed)), is_member=target is not None)
            self._fault(node, f"found no matching overload for '{function}' applied to '{applied}'")
            self._types[node.id] = t.ERROR
            return
        self._set(node, resolution.result)
        self.references[node.id] = resolution.ids

    def _logical(self, node: Call, arguments: tuple[Expr, ...], passed: tuple[Type, ...]) -> None:
        wrong = [
            (argument, type_)
            for argument, type_ in zip(arguments, passed, strict=True)
            if not self._known.assignable(type_, t.BOOL)
        ]
        for argument, type_ in wrong:
            self._mismatch(argument, t.BOOL, type_)
        self._types[node.id] = t.ERROR if wrong else t.BOOL
        if not wrong:
            self.references[node.id] = ("logical_and" if node.function == AND else "logical_or",)

    # Lists, maps and messages

    def list(self, node: ListLiteral) -> Expr:
        items: list[Expr] = []
        joined: Type | None = None
        for index, unchecked in enumerate(node.items):
            item = _CHECKS[type(unchecked)](self, unchecked)
            items.append(item)
            type_ = self._types[item.id]
            if index in node.optional:
                type_ = self._held(item, type_)
            joined = self._joined(joined, type_)
        self._set(node, t.list_of(joined or self._known.fresh()))
        return ListLiteral(node.id, node.position, tuple(items), node.optional)

    def map(self, node: MapLiteral) -> Expr:
        keys: Type | None = None
        values: Type | None = None
        entries: list[Entry] = []
        for entry in node.entries:
            key = _CHECKS[type(entry.key)](self, entry.key)
            keys = self._joined(keys, self._types[key.id])
            value = _CHECKS[type(entry.value)](self, entry.value)
            type_ = self._types[value.id]
            values = self._joined(values, self._held(value, type_) if entry.is_optional else type_)
            entries.append(Entry(entry.id, entry.position, key, value, entry.is_optional))
        self._set(node, t.map_of(keys or self._known.fresh(), values or self._known.fresh()))
        return MapLiteral(node.id, node.position, tuple(entries))

    def struct(self, node: Struct) -> Expr:
        declared = self._lookup(node.name)
        if declared is None:
            self._undeclared(node, node.name)
            return node
        made = declared.constant or t.ERROR
        if declared.constant is None:
            self._fault(node, f"'{declared.type.name}' is not a type")
        elif not made.is_struct:
            self._fault(node, f"'{made.name}' is not a message type")
            made = t.ERROR
        self._types[node.id] = made
        self.references[node.id] = Variable(declared.name)
        if made == t.ERROR:
            made = t.struct_of(declared.name)
        fields = [self._initialised(field, made) for field in node.fields]
        return Struct(node.id, node.position, declared.name, tuple(fields))

    def _initialised(self, field: StructField, struct: Type) -> StructField:
        value = _CHECKS[type(field.value)](self, field.value)
        wanted = self._field(field, struct, field.name)
        type_ = self._types[value.id]
        given = self._held(value, type_) if field.is_optional else type_
        if not self._known.assignable(wanted, given):
            expected = f"expected type of field '{field.name}' is '{shown(wanted)}'"
            self._fault(field, f"{expected} but provided type is '{shown(given)}'")
        return msgspec.structs.replace(field, value=value)

    def _held(self, node: Expr, type_: Type) -> Type:
        """What is in an optional, where one must stand."""
        held, was_optional = unwrap_optional(type_)
        if not was_optional and not is_dynamic(held):
            self._mismatch(node, t.optional_of(held), held)
        return held

    def _joined(self, before: Type | None, type_: Type) -> Type:
        """The type that covers the items so far and this one. That they are of one type is looked at later."""
        if before is None:
            return type_
        return most_general(before, type_) if self._known.assignable(before, type_) else t.DYN

    # Comprehensions

    def comprehension(self, node: Comprehension) -> Expr:
        iterable = _CHECKS[type(node.iterable)](self, node.iterable)
        initial = _CHECKS[type(node.initial)](self, node.initial)
        carried = self._types[initial.id]
        first, second = self._iterated(node, iterable)
        outer = self._local
        inner = {**outer, node.accumulator: carried}
        self._local = {**inner, node.variable: first}
        if node.variable2:
            self._local[node.variable2] = second
        condition = _CHECKS[type(node.condition)](self, node.condition)
        self._assert(condition, t.BOOL)
        step = _CHECKS[type(node.step)](self, node.step)
        self._assert(step, carried)
        self._local = inner
        result = _CHECKS[type(node.result)](self, node.result)
        self._local = outer
        self._set(node, self._known.applied(self._types[result.id]))
        return msgspec.structs.replace(
            node, iterable=iterable, initial=initial, condition=condition, step=step, result=result
        )

    def _iterated(self, node: Comprehension, iterable: Expr) -> tuple[Type, Type]:
        """The types of the fold's variable, or of both."""
        over = self._known.applied(self._types[iterable.id])
        if over.name == "list":
            item = over.parameters[0]
            return (t.INT, item) if node.variable2 else (item, item)
        if over.name == "map":
            return over.parameters[0], over.parameters[1]
        if over.is_parameter or over in (t.DYN, t.ERROR):
            self._known.assignable(t.DYN, over)
            return t.DYN, t.DYN
        message = f"expression of type '{shown(over)}' cannot be range of a comprehension"
        self._fault(iterable, f"{message} (must be list, map, or dynamic)")
        return t.ERROR, t.ERROR

    # Faults

    def _set(self, node: Expr, type_: Type) -> None:
        if type_.parameters and self._size(type_) > TYPE_SIZE_LIMIT:
            raise CelError("type of the expression is too large", position=node.position)
        self._types[node.id] = type_

    def _size(self, type_: Type) -> int:
        size = self._sizes.get(type_)
        if size is None:
            size = 1
            for parameter in type_.parameters:
                size += self._size(parameter)
            self._sizes[type_] = size
        return size

    def _assert(self, node: Expr, wanted: Type) -> None:
        if not self._known.assignable(wanted, self._types[node.id]):
            self._mismatch(node, wanted, self._types[node.id])

    def _mismatch(self, node: Expr, wanted: Type, found: Type) -> None:
        self._fault(node, f"expected type '{shown(wanted)}' but found '{shown(found)}'")

    def _undeclared(self, node: Expr, name: str) -> None:
        self._types[node.id] = t.ERROR
        container = self._environment.options.container
        self._fault(node, f"undeclared reference to '{name}' (in container '{container}')")

    def _fault(self, node: Expr | StructField, message: str) -> None:
        self.faults.append(Fault(message, node.position))


_LITERALS: dict[type, Type] = {
    bool: t.BOOL,
    int: t.INT,
    Uint: t.UINT,
    float: t.DOUBLE,
    str: t.STRING,
    bytes: t.BYTES,
    type(None): t.NULL,
}
_CHECKS: dict[type, Callable[[_Checker, Any], Expr]] = {
    Literal: _Checker.literal,
    Ident: _Checker.ident,
    Select: _Checker.select,
    Call: _Checker.call,
    ListLiteral: _Checker.list,
    MapLiteral: _Checker.map,
    Struct: _Checker.struct,
    Comprehension: _Checker.comprehension,
}
