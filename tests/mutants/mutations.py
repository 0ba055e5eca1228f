"""What cosmic-ray's operators can change in a file, and which of it is code that runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

from tests.mutants.rooms import SOURCE

_WITH_ARGUMENTS = {"core/VariableReplacer", "core/VariableInserter"}
_LOGS = {"_log", "log", "logger", "_logger"}


@dataclass(frozen=True, order=True)
class Mutant:
    """One change of one place. `occurrence` counts the places of the operator in the file; `text` is the line as it was."""

    room: str
    module: str
    line: int
    column: int
    operator: str
    occurrence: int
    text: str

    @property
    def path(self) -> Path:
        """The file."""
        return SOURCE / "dray" / self.module

    @property
    def key(self) -> str:
        """The name of the mutant in the files beside this one."""
        return f"{self.module}:{self.line}:{self.column}:{self.operator}"

    @property
    def place(self) -> tuple[str, int, int, str]:
        """What counts once, however many changes of one kind there are."""
        return self.module, self.line, self.column, self.family

    @property
    def family(self) -> str:
        """The kind of the change: one operator stands in the place of another, whichever that is."""
        return self.operator.split("_")[0]


def mutants(room: str, path: Path) -> Iterator[Mutant]:
    """Every change of a file that runs, compiles and differs."""
    source = path.read_text()
    lines = source.splitlines()
    idle = Idle(source)
    module = path.relative_to(SOURCE / "dray").as_posix()
    names = [name.removeprefix("core/") for name in sorted(set(plugins.operator_names()) - _WITH_ARGUMENTS)]
    for operator, occurrence, (line, column) in (place for name in names for place in _places(source, name)):
        if not idle.has(line, column):
            yield Mutant(room, module, line, column, operator, occurrence, lines[line - 1].strip())


def located(mutant: Mutant) -> Mutant | None:
    """The mutant where its place is today: the line may have moved. None where it is gone."""
    if not mutant.path.exists():
        return None
    source = mutant.path.read_text()
    lines = source.splitlines()
    same = [
        (abs(line - mutant.line), occurrence, line)
        for _, occurrence, (line, column) in _places(source, mutant.operator)
        if column == mutant.column and lines[line - 1].strip() == mutant.text
    ]
    if not same:
        return None
    _, occurrence, line = min(same)
    return replace(mutant, line=line, occurrence=occurrence)


def mutated(mutant: Mutant) -> str:
    """The text of the file with the change; empty where the place is gone."""
    here = located(mutant)
    if here is None:
        return ""
    try:
        changed: str = mutate_code(here.path.read_text(), _operator(here.operator), here.occurrence) or ""
    except AttributeError:  # cosmic-ray 8.7 cannot replace a dotted name in `except (a.b, c):`
        return ""
    return changed


def is_change(mutant: Mutant) -> bool:
    """Whether the changed file compiles and is another program."""
    text = mutated(mutant)
    try:
        compile(text, "mutant", "exec")
    except SyntaxError:
        return False
    return bool(text) and ast.dump(ast.parse(text)) != ast.dump(ast.parse(mutant.path.read_text()))


@cache
def _nodes(source: str):  # type: ignore[no-untyped-def]  # cosmic-ray has no types
    return list(ast_nodes(get_ast(source)))


def _places(source: str, name: str) -> list[tuple[str, int, tuple[int, int]]]:
    """Where an operator can change the text: its name, the number of the place, line and column."""
    operator = _operator(name)
    positions = [start for node in _nodes(source) for start, _ in operator.mutation_positions(node)]
    return [(name, number, start) for number, start in enumerate(positions)]


def _operator(name: str):  # type: ignore[no-untyped-def]  # cosmic-ray has no types
    return plugins.get_operator(name if "/" in name else f"core/{name}")()


class Idle:
    """The parts of a file that decide nothing when it runs: annotations, arguments of log calls and of declarations."""

    def __init__(self, source: str) -> None:
        self._spans = [span for node in ast.walk(ast.parse(source)) for span in map(_span, _idle(node))]

    def has(self, line: int, column: int) -> bool:
        """Whether the place is in such a part."""
        return any(start <= (line, column) < end for start, end in self._spans)


def _idle(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation:
        yield node.annotation
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns:
        yield node.returns
    if isinstance(node, ast.ClassDef):
        yield from (keyword.value for keyword in node.keywords)
        yield from (one for one in node.decorator_list if isinstance(one, ast.Call))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        owner = node.func.value
        if isinstance(owner, ast.Name) and owner.id in _LOGS:
            yield node
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp | ast.Subscript) and _is_alias(node):
        yield node.value
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        yield node


def _is_alias(node: ast.Assign) -> bool:
    """Whether it names a type, as in `Way = Left | Right`."""
    names = [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]
    leaves = [one for one in ast.walk(node.value) if isinstance(one, ast.Constant) and one.value is not None]
    return (
        node.col_offset == 0 and not leaves and all(name[0].isupper() or name in _BUILTIN for name in names)
    )


_BUILTIN = {"str", "int", "float", "bool", "bytes", "dict", "list", "tuple", "set", "frozenset", "object"}


def _span(node: ast.AST) -> tuple[tuple[int, int], tuple[int, int]]:
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]


def is_in_function(source: str, line: int, column: int) -> bool:
    """Whether the place is in the body of a function, which can be changed without a new import."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            start, end = _span(node.body[0])[0], _span(node)[1]
            if start <= (line, column) < end:
                return True
    return False
