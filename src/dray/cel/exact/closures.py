"""A checked tree to closures that count what they cost: exact, and the reference for everything faster.

Which steps cost what is cel-go's: its interpreter is followed node by node. An attribute is a name, or any expression, with
the selections and indexes that follow it; it costs 1 and each of those 1 more. Where one is a branch of `?:`, or an index,
its own 1 is not counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dray.cel import ast
from dray.cel.ast import Call, Comprehension, Expr, Ident, ListLiteral, Literal, MapLiteral, Select, Struct
from dray.cel.costs.cost import LIST_COST, MAP_COST
from dray.cel.equality import contains
from dray.cel.exact.attributes import (
    Attribute,
    Qualifier,
    attribute_code,
    constant_qualifier,
    dynamic_qualifier,
    test_code,
)
from dray.cel.exact.calls import call_code, fold_conversion, is_conversion, is_set
from dray.cel.exact.folds import Fold, fold_code, growing_list_code, growing_map_code
from dray.cel.exact.references import constant_of, overload_ids
from dray.cel.exact.run import Code, Run, is_error, no_overload
from dray.cel.faults import CelError, EvaluationError
from dray.cel.functions import Overload
from dray.cel.sizes import WALKED
from dray.cel.types import DYN, Type
from dray.cel.values import MISSING, Optional, Value, make_map, text_of, type_name

if TYPE_CHECKING:
    from dray.cel.check.checker import Checked

_ATTRIBUTES = (ast.INDEX, ast.OPTIONAL_INDEX, ast.OPTIONAL_SELECT)


class Compiler:
    """Makes the closures of one tree. `slots` is how many a `Run` needs, once it is done."""

    def __init__(self, checked: Checked, overloads: Mapping[str, Overload]) -> None:
        self.checked = checked
        self.overloads = overloads
        self.slots = 0
        self._scopes: dict[str, list[Code]] = {}
        self._growing: dict[str, str] = {}

    # Constants.

    def constant(self, node: Expr) -> Value:
        """Its value where cel-go knows it when the program is made, else MISSING. Such a node costs nothing."""
        match node:
            case Literal():
                return node.value
            case Ident() | Select():
                found = constant_of(self.checked, node)
                return MISSING if found is None else found
            case ListLiteral() if not node.optional:
                items = tuple(self.constant(item) for item in node.items)
                return MISSING if any(item is MISSING for item in items) else items
            case MapLiteral() if not any(entry.is_optional for entry in node.entries):
                pairs = [(self.constant(entry.key), self.constant(entry.value)) for entry in node.entries]
                known = not any(part is MISSING for pair in pairs for part in pair)
                return make_map(pairs) if known else MISSING
            case Call() if is_conversion(node):
                value = self.constant(node.arguments[0])
                return MISSING if value is MISSING else self._converted(node, value)
            case Call(function=ast.IN) if overload_ids(self.checked, node) == ("in_list",):
                return False if self.constant(node.arguments[1]) == () else MISSING
            case _:
                return MISSING

    def _converted(self, node: Call, value: Value) -> Value:
        try:
            return fold_conversion(self, node, value)
        except EvaluationError as error:
            raise CelError(f"program instantiation failed: {error}", position=node.position) from None

    # Code.

    def code(self, node: Expr) -> Code:
        """The closure of an expression."""
        value = self.constant(node)
        if value is not MISSING:
            return lambda _: value
        attribute = self._attribute(node)
        if attribute is not None:
            return attribute_code(attribute)
        match node:
            case Select():
                return test_code(
                    self._attribute_of(node.operand), constant_qualifier(node.field, is_optional=False)
                )
            case Call(function=ast.AND):
                return self._logic(node, False)
            case Call(function=ast.OR):
                return self._logic(node, True)
            case Call():
                return self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case Comprehension():
                return self._fold(node)
            case Struct() | _:
                raise CelError(f"unknown type: {getattr(node, 'name', '')}", position=node.position)

    def type(self, node: Expr) -> Type:
        """As the checker found it."""
        return self.checked.types.get(node.id, DYN)

    def _call(self, node: Call) -> Code:
        if node.function in (ast.ADD, ast.MAP_INSERT):
            first = node.arguments[0]
            if isinstance(first, Ident) and self._growing.get(first.name) == node.function:
                rest = [self.code(argument) for argument in node.arguments[1:]]
                grow = growing_list_code if node.function == ast.ADD else growing_map_code
                return grow(self.code(first), rest)
        if node.function in ("or", "orValue") and node.target is not None and len(node.arguments) == 1:
            return _alternative(
                self.code(node.target), self.code(node.arguments[0]), node.function == "orValue"
            )
        if node.function == ast.IN and overload_ids(self.checked, node) == ("in_list",):
            items = self.constant(node.arguments[1])
            if items is not MISSING and is_set(items):
                return _member_code(self.code(node.arguments[0]), items)
        return call_code(self, node)

    # Attributes.

    def _attribute(self, node: Expr) -> Attribute | None:
        """The node as an attribute; None where it is none. A test (`has`) is not one."""
        match node:
            case Ident():
                return Attribute(self._variable(node.name))
            case Select(is_test=False):
                return self._attribute_of(node.operand).followed_by(
                    constant_qualifier(node.field, is_optional=False)
                )
            case Call() if node.function in _ATTRIBUTES:
                operand, key = node.arguments
                return self._attribute_of(operand).followed_by(
                    self._qualifier(key, node.function != ast.INDEX)
                )
            case Call(function=ast.CONDITIONAL):
                condition, chosen, otherwise = node.arguments
                code = _conditional(self.code(condition), self._uncounted(chosen), self._uncounted(otherwise))
                return Attribute(code, is_conditional=True)
            case _:
                return None

    def _attribute_of(self, node: Expr) -> Attribute:
        if self.constant(node) is MISSING:
            attribute = self._attribute(node)
            if attribute is not None:
                return attribute
        return Attribute(self.code(node))

    def _uncounted(self, node: Expr) -> Code:
        """Its closure, without the 1 that an attribute costs itself."""
        if self.constant(node) is MISSING:
            attribute = self._attribute(node)
            if attribute is not None:
                return attribute.resolve
        return self.code(node)

    def _qualifier(self, key: Expr, is_optional: bool) -> Qualifier:
        value = self.constant(key)
        if value is not MISSING:
            return constant_qualifier(value, is_optional=is_optional)
        return dynamic_qualifier(self._uncounted(key), is_optional=is_optional)

    def _variable(self, name: str) -> Code:
        scope = self._scopes.get(name)
        if scope:
            return scope[-1]
        name = name.removeprefix(".")

        def look_up(run: Run) -> Value:
            value = run.bindings.get(name, MISSING)
            return EvaluationError(f"no such attribute(s): {name}") if value is MISSING else value

        return look_up

    # The rest.

    def _logic(self, node: Call, decisive: bool) -> Code:
        """`&&` or `||`: one decisive operand settles it, whatever the other is."""
        left, right = (self.code(argument) for argument in node.arguments)

        def decide(run: Run) -> Value:
            first = left(run)
            if first is decisive:
                return decisive
            second = right(run)
            if second is decisive:
                return decisive
            for value in (first, second):
                if value.__class__ is not bool:
                    return value if is_error(value) else no_overload()
            return not decisive

        return decide

    def _list(self, node: ListLiteral) -> Code:
        parts = [(self.code(item), position in node.optional) for position, item in enumerate(node.items)]

        def build(run: Run) -> Value:
            found: list[Value] = []
            for code, is_optional in parts:
                value = code(run)
                if is_error(value):
                    found, failed = [], value
                    break
                if is_optional:
                    if value.__class__ is not Optional:
                        message = f"cannot initialize optional list element from non-optional value {text_of(value)}"
                        found, failed = [], EvaluationError(message)
                        break
                    if not value.has_value:
                        continue
                    value = value.content
                found.append(value)
            else:
                failed = None
            run.charge(LIST_COST)
            return tuple(found) if failed is None else failed

        return build

    def _map(self, node: MapLiteral) -> Code:
        parts = [(self.code(entry.key), self.code(entry.value), entry.is_optional) for entry in node.entries]

        def build(run: Run) -> Value:
            pairs: list[tuple[Value, Value]] = []
            failed = _fill(run, parts, pairs)
            run.charge(MAP_COST)
            if failed is not None:
                return failed
            run.spend(sum(run.sizes.of(key) for key, _ in pairs))
            try:
                return make_map(pairs)
            except EvaluationError as error:
                return error

        return build

    def _fold(self, node: Comprehension) -> Code:
        initial, iterable = self.code(node.initial), self.code(node.iterable)
        fold = Fold(self.slots, initial, iterable, node.variable2 != "")
        self.slots += 3
        grows = {ListLiteral: ast.ADD, MapLiteral: ast.MAP_INSERT}.get(type(node.initial), "")
        is_growing = bool(grows) and self.constant(node.initial) in ((), {})
        before = self._growing.get(node.accumulator, "")
        self._growing[node.accumulator] = grows if is_growing else ""
        self._enter(node.accumulator, fold.accumulator)
        for name, code in ((node.variable, fold.first), (node.variable2, fold.second)):
            self._enter(name, code)
        condition, step = self.code(node.condition), self.code(node.step)
        self._scopes[node.variable].pop()
        self._scopes[node.variable2].pop()
        result = self.code(node.result)
        self._scopes[node.accumulator].pop()
        self._growing[node.accumulator] = before
        nodes = _count(node.condition) + _count(node.step)
        return fold_code(fold, condition, step, result, grows if is_growing else "", nodes)

    def _enter(self, name: str, code: Code) -> None:
        self._scopes.setdefault(name, []).append(code)


def _count(node: Expr) -> int:
    """The expressions that one evaluation runs through, but for the steps of folds within it, which count themselves."""
    count, waiting = 0, [node]
    while waiting:
        part = waiting.pop()
        count += 1
        if isinstance(part, Comprehension):
            waiting += (part.iterable, part.initial, part.result)
        else:
            waiting += ast.children(part)
    return count


def _conditional(condition: Code, chosen: Code, otherwise: Code) -> Code:
    def choose(run: Run) -> Value:
        value = condition(run)
        if value is True:
            return chosen(run)
        if value is False:
            return otherwise(run)
        return value if is_error(value) else no_overload()

    return choose


def _alternative(optional: Code, otherwise: Code, is_unwrapped: bool) -> Code:
    """`or` and `orValue`: the other side runs only if there is no value, and the call itself is free."""

    def pick(run: Run) -> Value:
        value = optional(run)
        if value.__class__ is not Optional:
            return value
        if not value.has_value:
            return otherwise(run)
        return value.content if is_unwrapped else value

    return pick


def _member_code(code: Code, items: tuple[Value, ...]) -> Code:
    """`in` a constant list of plain values is free, as cel-go makes a set of it. Here a set is made of the strings; others
    are compared one by one, which is work."""
    texts = frozenset(item for item in items if item.__class__ is str)

    def look(run: Run) -> Value:
        value = code(run)
        if value.__class__ is str:
            run.spend(1 + (len(value) >> WALKED))
            return value in texts
        if is_error(value):
            return value
        run.spend(len(items))
        return contains(value, items)

    return look


def _fill(run: Run, parts: list[tuple[Code, Code, bool]], pairs: list[tuple[Value, Value]]) -> Value:
    """Adds the entries of a map; the error if there is one, else None."""
    for key_code, value_code, is_optional in parts:
        key = key_code(run)
        if is_error(key):
            return key
        value = value_code(run)
        if is_error(value):
            return value
        if is_optional:
            if value.__class__ is not Optional:
                return EvaluationError(
                    f"cannot initialize optional entry '{text_of(key)}' from non-optional value {type_name(value)}"
                )
            if not value.has_value:
                run.spend(len(pairs) * run.sizes.of(key))
                pairs[:] = [
                    pair for pair in pairs if pair[0].__class__ is not key.__class__ or pair[0] != key
                ]
                continue
            value = value.content
        pairs.append((key, value))
    return None
