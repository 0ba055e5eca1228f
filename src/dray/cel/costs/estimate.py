"""What a checked expression may cost, before it runs: cel-go's estimate, step by step, because admission goes by its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from dray.cel import ast
from dray.cel.ast import Call, Comprehension, Expr, Ident, ListLiteral, Literal, MapLiteral, Select, Struct
from dray.cel.costs.cost import (
    LIST_COST,
    MAP_COST,
    MAXIMUM,
    NOTHING,
    ONE,
    STRING_FACTOR,
    STRUCT_COST,
    UNKNOWN,
    CallEstimate,
    Range,
    SizedNode,
    SizeHint,
    Sizes,
    fixed,
)
from dray.cel.exact.references import overload_ids
from dray.cel.functions import Overload
from dray.cel.types import BOOL, DOUBLE, DURATION, DYN, INT, TIMESTAMP, UINT, Type

if TYPE_CHECKING:
    from dray.cel.check.checker import Checked

_SCALARS = frozenset({BOOL, DOUBLE, DURATION, INT, TIMESTAMP, UINT})
_ACCUMULATORS = ("__result__", ast.ACCUMULATOR)
_NO_ITEMS = Range(MAXIMUM, 0)
"""Grows with the first union."""


class _Entries(NamedTuple):
    """Sizes of what a list or map holds; a list's key is its index."""

    is_list: bool
    key: Range
    value: Range

    def union(self, other: _Entries | None) -> _Entries | None:
        if other is None:
            return None
        return _Entries(self.is_list, self.key.union(other.key), self.value.union(other.value))


@dataclass(frozen=True, slots=True)
class _Local:
    path: tuple[str, ...]
    size: Range | None = None
    entries: _Entries | None = None


def estimate_cost(checked: Checked, overloads: Mapping[str, Overload], hint: SizeHint | None = None) -> Range:
    """From what the expression costs at least to what it may cost, if what it reads is as large as `hint` says."""
    return _Estimate(checked, overloads, hint).cost(checked.expr)


def is_bounded(
    checked: Checked, overloads: Mapping[str, Overload], hint: SizeHint | None, estimate: Range, limit: int
) -> bool:
    """Whether no run can cost more than the limit. cel-go's estimate alone does not say so: for `startsWith` and `endsWith`
    it looks at the argument but counts the target, and for `join` it counts twice what it estimated."""
    if estimate.max * 2 > limit:
        return limit >= MAXIMUM
    used = {name for found in checked.references.values() if isinstance(found, tuple) for name in found}
    if used.isdisjoint(_UNDERESTIMATED):
        return True
    fixed_up = {name: replace(overloads[name], estimate=_of_target) for name in _UNDERESTIMATED & used}
    return _Estimate(checked, {**overloads, **fixed_up}, hint).cost(checked.expr).max * 2 <= limit


_UNDERESTIMATED = frozenset({"starts_with_string", "ends_with_string"})


def _of_target(_: Sizes, target: SizedNode | None, arguments: Sequence[SizedNode]) -> CallEstimate:
    sizes = [node.size or UNKNOWN for node in (target, *arguments) if node is not None]
    return CallEstimate(Range(0, max(size.max for size in sizes)).scaled(STRING_FACTOR))


class _Estimate:
    """One estimate. Sizes and paths are kept by number of node, as they become known from the leaves up."""

    def __init__(self, checked: Checked, overloads: Mapping[str, Overload], hint: SizeHint | None) -> None:
        self._checked = checked
        self._overloads = overloads
        self._hint = hint
        self._paths: dict[int, tuple[str, ...]] = {}
        self._sizes: dict[int, Range] = {}
        self._entries: dict[int, _Entries] = {}
        self._locals: dict[str, list[_Local]] = {}

    # What functions' estimates ask.

    def size(self, node: SizedNode) -> Range:
        """See `Sizes`."""
        if node.size is not None:
            return node.size
        hinted = self._hint(node) if self._hint is not None else None
        return UNKNOWN if hinted is None else hinted

    def items(self, node: SizedNode) -> SizedNode | None:
        """See `Sizes`."""
        if not node.type.parameters:
            return None
        return SizedNode(node.type.parameters[0], (*node.path, "@items") if node.path else ())

    # Costs.

    def cost(self, node: Expr) -> Range:
        """Of the expression and all below it."""
        match node:
            case Literal():
                return NOTHING
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case Struct():
                return self._sum(*(field.value for field in node.fields)).plus(fixed(STRUCT_COST))
            case Comprehension():
                return self._bind(node) if _is_bind(node) else self._fold(node)

    def _sum(self, *nodes: Expr) -> Range:
        total = NOTHING
        for node in nodes:
            total = total.plus(self.cost(node))
        return total

    def _ident(self, node: Ident) -> Range:
        name = node.name.removeprefix(".")
        local = self._local(name)
        self._paths[node.id] = (name,) if local is None else local.path
        return ONE

    def _select(self, node: Select) -> Range:
        below = self.cost(node.operand)
        if node.is_test:
            return below
        self._paths[node.id] = (*self._path(node.operand), node.field)
        kind = self._type(node.operand)
        return below.plus(ONE) if kind.name == "map" or kind.is_struct or kind.is_parameter else below

    def _call(self, node: Call) -> Range:
        if node.function == "dyn" and node.target is None:
            below = self.cost(node.arguments[0])
            self._copy(node, node.arguments[0])
            return below.plus(ONE)
        costs = [self.cost(argument) for argument in node.arguments]
        arguments = [self._sized(argument) for argument in node.arguments]
        candidates = overload_ids(self._checked, node)
        if not candidates:
            return NOTHING
        target_cost, target = NOTHING, None
        if node.target is not None:
            target_cost = self.cost(node.target)
            target = self._sized(node.target)
        total, result_size = _NO_ITEMS, None
        for name in candidates:
            called = self._function(node, name, target, arguments, costs)
            total = total.union(called.cost)
            result_size = _union(result_size, called.result_size)
            result_size = self._indexed(node, name, result_size)
        if result_size is not None:
            self._sizes[node.id] = result_size
        return target_cost.plus(total)

    def _indexed(self, node: Call, overload: str, size: Range | None) -> Range | None:
        if overload in ("index_list", "index_map"):
            entries = self._entries_of(node.arguments[0])
            size = None if entries is None else entries.value
            step = "@items" if overload == "index_list" else "@values"
            self._paths[node.id] = (*self._path(node.arguments[0]), step)
        return self._size(node) if size is None else size

    def _function(
        self, node: Call, name: str, target: SizedNode | None, arguments: list[SizedNode], costs: list[Range]
    ) -> CallEstimate:
        if name in ("logical_and", "logical_or"):
            return CallEstimate(Range(costs[0].min, costs[0].plus(costs[1]).max))
        if name == "conditional":
            return self._conditional(node, costs)
        overload = self._overloads.get(name)
        called = None
        if overload is not None and overload.estimate is not None:
            called = overload.estimate(self, target, arguments)
        if name in ("add_string", "add_bytes", "add_list"):
            self._join_entries(node, *node.arguments)
        below = NOTHING
        for cost in costs:
            below = below.plus(cost)
        if called is None:
            return CallEstimate(below.plus(ONE))
        return CallEstimate(called.cost.plus(below), called.result_size)

    def _conditional(self, node: Call, costs: list[Range]) -> CallEstimate:
        _, chosen, otherwise = node.arguments
        self._join_entries(node, chosen, otherwise)
        size = self._known(chosen).union(self._known(otherwise))
        return CallEstimate(costs[0].plus(costs[1].union(costs[2])), size)

    def _join_entries(self, node: Call, left: Expr, right: Expr) -> None:
        entries = self._entries_of(left)
        if entries is not None and (joined := entries.union(self._entries_of(right))) is not None:
            self._entries[node.id] = joined

    def _list(self, node: ListLiteral) -> Range:
        items = _NO_ITEMS if node.items else NOTHING
        total = NOTHING
        for item in node.items:
            total = total.plus(self.cost(item))
            items = items.union(self._known(item))
        self._entries[node.id] = _Entries(True, ONE, items)
        return total.plus(fixed(LIST_COST))

    def _map(self, node: MapLiteral) -> Range:
        keys = values = _NO_ITEMS if node.entries else NOTHING
        total = NOTHING
        for entry in node.entries:
            total = total.plus(self.cost(entry.key)).plus(self.cost(entry.value))
            keys = keys.union(self._known(entry.key))
            values = values.union(self._known(entry.value))
        self._entries[node.id] = _Entries(False, keys, values)
        return total.plus(fixed(MAP_COST))

    def _bind(self, node: Comprehension) -> Range:
        total = self._sum(node.iterable, node.initial)
        self._push(node.accumulator, self._bound(node.initial))
        total = total.plus(self.cost(node.result))
        self._locals[node.accumulator].pop()
        self._copy(node, node.result)
        return total

    def _fold(self, node: Comprehension) -> Range:
        total = self._sum(node.iterable, node.initial)
        self._push(node.accumulator, self._bound(node.initial))
        for name, local in self._iterated(node).items():
            self._push(name, local)
        once = self._sum(node.condition, node.step)
        self._locals[node.variable].pop()
        if node.variable2:
            self._locals[node.variable2].pop()
        total = total.plus(self.cost(node.result))
        self._locals[node.accumulator].pop()
        count = self._known(node.iterable)
        match node.initial:
            case Literal():
                size = self._size(node.initial)
                if size is not None:
                    self._sizes[node.id] = size
            case ListLiteral() | MapLiteral():
                self._sizes[node.id] = count
                step = self._entries_of(node.step)
                if step is not None:
                    self._entries[node.id] = step
        return total.plus(count.times(once))

    def _iterated(self, node: Comprehension) -> dict[str, _Local]:
        """What the variables of a fold stand for: an item, or index or key and value."""
        entries, path = self._entries_of(node.iterable), self._path(node.iterable)
        is_list = self._type(node.iterable).name == "list" if entries is None else entries.is_list
        key = _Local((*path, "@indices" if is_list else "@keys"), None if entries is None else entries.key)
        value = _Local(
            (*path, "@items" if is_list else "@values"), None if entries is None else entries.value
        )
        if node.variable2:
            return {node.variable: key, node.variable2: value}
        return {node.variable: value if is_list else key}

    # Sizes.

    def _local(self, name: str) -> _Local | None:
        stack = self._locals.get(name)
        return stack[-1] if stack else None

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _bound(self, node: Expr) -> _Local:
        return _Local(self._path(node), self._size(node), self._entries_of(node))

    def _type(self, node: Expr) -> Type:
        return self._checked.types.get(node.id, DYN)

    def _path(self, node: Expr) -> tuple[str, ...]:
        if isinstance(node, Ident) and (local := self._local(node.name)) is not None:
            return local.path
        return self._paths.get(node.id, ())

    def _sized(self, node: Expr) -> SizedNode:
        path = self._path(node)
        if path and path[0] in _ACCUMULATORS:
            path = ()
        return SizedNode(self._type(node), path, node, self._size(node))

    def _known(self, node: Expr) -> Range:
        size = self._size(node)
        return UNKNOWN if size is None else size

    def _size(self, node: Expr) -> Range | None:
        known = self._sizes.get(node.id) or _literal_size(node)
        if known is not None:
            return known
        kind = self._type(node)
        if self._hint is not None:
            hinted = self._hint(SizedNode(kind, self._path(node), node))
            if hinted is not None:
                self._sizes[node.id] = hinted
                return hinted
        if _is_scalar(kind):
            return ONE
        local = self._local(node.name) if isinstance(node, Ident) else None
        return None if local is None else local.size

    def _entries_of(self, node: Expr) -> _Entries | None:
        known = self._entries.get(node.id)
        if known is None and isinstance(node, Ident) and (local := self._local(node.name)) is not None:
            return local.entries
        return known

    def _copy(self, node: Expr, source: Expr) -> None:
        size, entries = self._size(source), self._entries_of(source)
        if size is not None:
            self._sizes[node.id] = size
        if entries is not None:
            self._entries[node.id] = entries


def _union(left: Range | None, right: Range | None) -> Range | None:
    return right if left is None else left if right is None else left.union(right)


def _is_bind(node: Comprehension) -> bool:
    """A fold over nothing that never runs: how `cel.bind` gives a name to a value."""
    return (
        isinstance(node.iterable, ListLiteral)
        and not node.iterable.items
        and isinstance(node.condition, Literal)
        and node.condition.value is False
        and node.accumulator != _ACCUMULATORS[0]
    )


def _literal_size(node: Expr) -> Range | None:
    match node:
        case Literal(value=str() | bytes() as value):
            return fixed(len(value))
        case Literal():
            return ONE
        case ListLiteral():
            return fixed(len(node.items))
        case MapLiteral():
            return fixed(len(node.entries))
        case _:
            return None


def _is_scalar(kind: Type) -> bool:
    if kind.name == "optional_type" and kind.parameters:
        return _is_scalar(kind.parameters[0])
    return kind in _SCALARS
