"""Which parts of the variables an expression looks at: two inputs that agree in these give the same outcome."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dray.cel import ast
from dray.cel.ast import Call, Comprehension, Expr, Ident, Literal, Select, children

Path = tuple[str, ...]


class Read(NamedTuple):
    """A place, as a variable's name and the keys that lead there: all below it is read, or with `is_test` only whether there
    is something. A place of one step is the whole variable."""

    path: Path
    is_test: bool = False


def find_reads(expr: Expr) -> frozenset[Read]:
    """Every place that may be read. What lies below another one that is read is left out."""
    finder = _Finder()
    finder.use(expr)
    whole = {read.path for read in finder.reads if not read.is_test}
    return frozenset(read for read in finder.reads if not _is_covered(read, whole))


def _is_covered(read: Read, whole: Iterable[Path]) -> bool:
    return any(
        read.path[: len(path)] == path
        and (len(path) < len(read.path) or (read.is_test and path == read.path))
        for path in whole
    )


class _Finder:
    """`_locals` are the names of folds, with the place they stand for, or None for a value of their own."""

    def __init__(self) -> None:
        self.reads: set[Read] = set()
        self._locals: dict[str, list[Path | None]] = {}

    def use(self, node: Expr) -> None:
        """All of what the expression gives is looked at."""
        place = self._place(node)
        if place is not None:
            self.reads.add(Read(place))

    def _place(self, node: Expr) -> Path | None:
        """The place an expression stands for, not yet read; None where it has a value of its own, made of what was read."""
        match node:
            case Ident():
                stack = self._locals.get(node.name)
                return stack[-1] if stack else (node.name.removeprefix("."),)
            case Select():
                return self._step(node.operand, node.field, node.is_test)
            case Call(
                function=ast.INDEX | ast.OPTIONAL_INDEX | ast.OPTIONAL_SELECT, arguments=(operand, key)
            ):
                if isinstance(key, Literal) and isinstance(key.value, str):
                    return self._step(operand, key.value, False)
            case Call(function=ast.IN, arguments=(key, container)):
                if isinstance(key, Literal) and isinstance(key.value, str):
                    return self._step(container, key.value, True)
            case Comprehension():
                self._fold(node)
                return None
        for child in children(node):
            self.use(child)
        return None

    def _step(self, operand: Expr, key: str, is_test: bool) -> Path | None:
        place = self._place(operand)
        if place is None:
            return None
        if is_test:
            self.reads.add(Read((*place, key), True))
            return None
        return (*place, key)

    def _fold(self, node: Comprehension) -> None:
        self.use(node.iterable)
        # What a name is bound to is read where and as far as the name is used.
        bound = self._place(node.initial)
        never_runs = isinstance(node.condition, Literal) and node.condition.value is False
        if bound is not None and not never_runs:
            self.reads.add(Read(bound))
        self._locals.setdefault(node.accumulator, []).append(bound)
        if not never_runs:
            for name in (node.variable, node.variable2):
                self._locals.setdefault(name, []).append(None)
            self.use(node.condition)
            self.use(node.step)
            for name in (node.variable, node.variable2):
                self._locals[name].pop()
        self.use(node.result)
        self._locals[node.accumulator].pop()
