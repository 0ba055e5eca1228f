"""A checked tree to a Python function: the fast way. It may raise wherever it likes, for the closures then decide.

CEL has no side effects, so a second evaluation is safe, and the code needs no bookkeeping of errors: `&&` is `and`. Where
the checker knows a type, Python's own operation is used; where it does not, the kind is asked for in place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dray.cel import ast, equality
from dray.cel import types as t
from dray.cel.ast import Call, Comprehension, Expr, Ident, ListLiteral, Literal, MapLiteral, Select, walk
from dray.cel.exact.references import constant_of
from dray.cel.exact.run import Run, is_error
from dray.cel.fast import shortcuts
from dray.cel.fast.codegen_calls import UnsupportedError, call
from dray.cel.fast.codegen_folds import FoldShape, fold, shape_of
from dray.cel.fast.codegen_operators import OPERATORS
from dray.cel.fast.codegen_types import CertainTypes
from dray.cel.faults import EvaluationError
from dray.cel.types import Type
from dray.cel.values import MISSING, Optional, Value, make_map

if TYPE_CHECKING:
    from dray.cel.exact.closures import Compiler

Exact = Callable[[Mapping[str, Value]], Value]
"""The slow way, by bindings; raises `EvaluationError`."""
Fast = Callable[..., Value]
"""The fast way, by bindings; it may be given another slow way to leave errors to."""

_FOLDING_LIMIT = 10_000
_FOLDING_WORK = 20_000


class Writer:
    """Writes the code of one tree. Constants become globals `k0`, …; values used twice become locals."""

    def __init__(self, compiler: Compiler) -> None:
        self.compiler = compiler
        self.types = CertainTypes(compiler)
        self.globals: dict[str, Any] = {
            "__builtins__": {"any": any, "all": all, "sum": sum, "enumerate": enumerate}
        }
        self.globals |= {kind.__name__: kind for kind in (str, int, bool, float, bytes, dict)}
        self.globals |= {
            name: getattr(shortcuts, name)
            for name in ("fail", "present", "find_or", "follow", "iterate", "entries")
        }
        self.globals |= {
            "index": equality.index,
            "contains": equality.contains,
            "equal": equality.equal,
            "equals": equality.equals,
            "differs": equality.differs,
        }
        self.globals |= {
            "make_map": make_map,
            "MISSING": MISSING,
            "Optional": Optional,
            "FAILURES": shortcuts.FAILURES,
        }
        self.variables: dict[str, str] = {}
        self.lines: list[str] = []
        self.root: Expr | None = None
        self.locals: dict[str, list[str]] = {}
        self._names = 0
        self._uses: dict[tuple[str, ...], int] = {}
        self._places: dict[tuple[str, ...], str] = {}
        self.is_straight = True
        self.allows_names = True

    # Names.

    def name(self, prefix: str) -> str:
        """A new local."""
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, value: Value) -> str:
        """A global that holds the value."""
        name = self.name("k")
        self.globals[name] = value
        return name

    def type(self, node: Expr) -> Type:
        """What the code may rely on."""
        return self.types.of(node)

    def _variable(self, name: str) -> str:
        stack = self.locals.get(name)
        if stack:
            return stack[-1]
        return self.variables.setdefault(name.removeprefix("."), f"v{len(self.variables)}")

    def enter(self, name: str, local: str, type_: Type) -> None:
        """A name of a fold: the local it becomes, and what it holds."""
        self.locals.setdefault(name, []).append(local)
        self.types.enter(name, type_)

    def leave(self, name: str) -> None:
        """The last one entered."""
        self.locals[name].pop()
        self.types.leave(name)

    def named(self, source: str) -> tuple[str, str]:
        """(first use, later uses) of a value that is needed more than once."""
        if source.isidentifier():
            return source, source
        if not self.allows_names:
            raise UnsupportedError
        name = self.name("t")
        return f"({name} := {source})", name

    # Whole.

    def write(self, root: Expr) -> str:
        """The expression's code; `lines` must run before it."""
        for node in walk(root):
            place = self._place(node)
            if place is not None:
                self._uses[place] = self._uses.get(place, 0) + 1
        while isinstance(root, Comprehension) and shape_of(root) is FoldShape.BIND:
            bound = self.name("b")
            self.lines.append(f"{bound} = {self.value(root.initial)}")
            self.enter(root.accumulator, bound, self.type(root.initial))
            root = root.result
        self.root = root
        return self.value(root)

    def _place(self, node: Expr) -> tuple[str, ...] | None:
        """Variable and constant keys of a map within a variable."""
        if self.compiler.type(node).name != "map" or not isinstance(node, Select | Call):
            return None
        keys: list[str] = []
        while True:
            match node:
                case Select(is_test=False):
                    keys.append(node.field)
                    node = node.operand
                case Call(function=ast.INDEX, arguments=(operand, Literal(value=str() as key))):
                    keys.append(key)
                    node = operand
                case Ident() if constant_of(self.compiler.checked, node) is None and not self.locals.get(
                    node.name
                ):
                    return (node.name.removeprefix("."), *reversed(keys))
                case _:
                    return None

    # Values.

    def value(self, node: Expr) -> str:
        """Code for the value."""
        folded = self._folded(node)
        if folded is not None:
            return folded
        place = self._place(node)
        if place is not None and self._uses.get(place, 0) > 1:
            return self._shared(node, place)
        return self._value(node)

    def _shared(self, node: Expr, place: tuple[str, ...]) -> str:
        """The first use that always comes first keeps the value; otherwise it is looked up before everything."""
        known = self._places.get(place)
        if known is not None:
            return known
        name = self._places[place] = self.name("m")
        if self.is_straight and self.allows_names:
            return f"({name} := {self._value(node)})"
        # A line of its own runs before all names that are kept on the way.
        uses, self._uses = self._uses, {}
        self.lines.append(f"{name} = {self._value(node)}")
        self._uses = uses
        return name

    def _value(self, node: Expr) -> str:
        match node:
            case Ident():
                return self._variable(node.name)
            case Select():
                return self._selection(node)
            case Call() if node.function in _STEPS:
                return self._selection(node)
            case Call() if node.function in OPERATORS:
                return OPERATORS[node.function](self, node)
            case Call():
                return call(self, node)
            case ListLiteral() if not node.optional:
                return f"({''.join(self.value(item) + ', ' for item in node.items)})"
            case MapLiteral() if not any(entry.is_optional for entry in node.entries):
                pairs = (f"({self.value(entry.key)}, {self.value(entry.value)})" for entry in node.entries)
                return f"make_map([{', '.join(pairs)}])"
            case Comprehension():
                return fold(self, node)
            case _:
                raise UnsupportedError

    def _folded(self, node: Expr) -> str | None:
        """A constant, or what is made of constants only: it is computed here, once, unless that takes long."""
        if isinstance(node, Literal):
            plain = node.value is None or node.value.__class__ in (bool, int, str, bytes)
            return repr(node.value) if plain else self.constant(node.value)
        value = self.compiler.constant(node)
        if value is MISSING and isinstance(node, Call) and self._is_closed(node):
            run = Run({}, self.compiler.slots, _FOLDING_LIMIT, work_limit=_FOLDING_WORK)
            try:
                value = self.compiler.code(node)(run)
            except EvaluationError:
                return None  # Too much to be done now.
            if is_error(value):
                return "fail()"
        return None if value is MISSING else self.constant(value)

    def _is_closed(self, node: Expr) -> bool:
        return not any(
            isinstance(part, Comprehension)
            or (isinstance(part, Ident) and constant_of(self.compiler.checked, part) is None)
            for part in walk(node)
        )

    def boolean(self, node: Expr) -> str:
        """Code for a bool; raises if the value is none."""
        source = self.value(node)
        if self.type(node) == t.BOOL:
            return source
        first, again = self.named(source)
        return f"({again} if {first}.__class__ is bool else fail())"

    def later(self, write: Callable[[Expr], str], node: Expr) -> str:
        """Code that may not run."""
        before, self.is_straight = self.is_straight, False
        source = write(node)
        self.is_straight = before
        return source

    # Selections.

    def _selection(self, node: Select | Call) -> str:
        """`.field` and `[key]`. From the first question mark on, the whole chain is followed at once."""
        root, qualifiers = _chain(node)
        if self.type(root).name == "optional_type" or any(may_miss for _, may_miss in qualifiers):
            if isinstance(node, Select) and node.is_test:
                raise UnsupportedError
            source = self.value(root)
            steps = "".join(f"({self.value(key)}, {may_miss}), " for key, may_miss in qualifiers)
            return f"follow({source}, ({steps}))"
        if isinstance(node, Select) and node.is_test:
            return self._test(node)
        operand, key = _step(node)
        container, kind, source = self.value(operand), self.type(operand), self.value(key)
        if (kind.name == "map" and self.type(key) in _PLAIN_KEYS) or kind.is_struct:
            return f"{container}[{source}]"
        if kind.name == "list" and source.isdecimal():
            return f"{container}[{source}]"
        return f"index({container}, {source})"

    def _test(self, node: Select) -> str:
        container = self.value(node.operand)
        if self.type(node.operand).name != "map":
            return f"present({container}, {node.field!r})"
        first, again = self.named(container)
        return (
            f"({node.field!r} in {again} if {first}.__class__ is dict else present({again}, {node.field!r}))"
        )


_STEPS = (ast.INDEX, ast.OPTIONAL_INDEX, ast.OPTIONAL_SELECT)
_PLAIN_KEYS = (t.STRING, t.INT, t.UINT)


def _step(node: Select | Call) -> tuple[Expr, Expr]:
    """What is selected from, and the key."""
    if isinstance(node, Select):
        return node.operand, Literal(node.id, node.position, node.field)
    return node.arguments[0], node.arguments[1]


def _chain(node: Expr) -> tuple[Expr, list[tuple[Expr, bool]]]:
    """The root of a chain of selections, and its keys with whether they may be missing."""
    keys: list[tuple[Expr, bool]] = []
    while isinstance(node, Select) or (isinstance(node, Call) and node.function in _STEPS):
        may_miss = isinstance(node, Call) and node.function != ast.INDEX
        node, key = _step(node)
        keys.append((key, may_miss))
    return node, keys[::-1]


_DEEP = 100
"""Brackets within each other from which on a `MemoryError` is Python's word for "nested too deeply": it says so at some 195,
and of 201 that they are too many. Below that there is no memory left, which whoever set the limit must hear."""


def _depth(source: str) -> int:
    """How deep brackets are within each other, those in texts included."""
    depth = deepest = 0
    for character in source:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    return deepest


def generate(
    compiler: Compiler, exact: Exact
) -> tuple[Fast | None, tuple[str, ...], Callable[..., Value] | None]:
    """(by bindings, names of the variables, by the variables' values in that order); no functions if there is no fast way."""
    writer = Writer(compiler)
    try:
        result = writer.write(compiler.checked.expr)
    except (UnsupportedError, RecursionError):
        return None, (), None
    names = tuple(writer.variables)
    values = [writer.variables[name] for name in names]
    body = "".join(f"        {line}\n" for line in (*writer.lines, f"return {result}"))
    taken = "".join(f"        {writer.variables[name]} = bindings[{name!r}]\n" for name in names)
    given = ", ".join(f"{name!r}: {writer.variables[name]}" for name in names)
    source = (
        f"def by_bindings(bindings, exact=exact):\n    try:\n{taken}{body}    except FAILURES:\n        return exact(bindings)\n"
        f"def by_values({', '.join(values)}):\n    try:\n{body}    except FAILURES:\n        return exact({{{given}}})\n"
    )
    space = {**writer.globals, "exact": exact}
    try:
        exec(compile(source, "<cel>", "exec"), space)  # noqa: S102 the source is ours, made of checked nodes
    except (SyntaxError, RecursionError):
        return None, (), None
    except MemoryError:
        if _depth(source) < _DEEP:
            raise
        return None, (), None
    return space["by_bindings"], names, space["by_values"]
