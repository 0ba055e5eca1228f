"""The house rules that a tool can hold (docs/house.md); the import contract is import-linter's."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path("src/dray")
FILES = [path for path in sorted(SOURCE.rglob("*.py")) if "wire/gen" not in path.as_posix()]
ROOMS = sorted(path for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__")
PURE = ("api", "cel", "hardware", "cdi", "allocation")
CATCH_EVERYTHING = {
    "runtime/forked.py",
    "runtime/quarantine.py",
    "runtime/workqueue.py",
    "wire/transport/dispatch.py",
    "wire/transport/http2.py",
}
BANNED = {"utils", "util", "common", "helpers", "helper", "base", "misc", "shared", "stuff"}


def _is_async(path: Path, node: ast.AST) -> bool:
    """Pure rooms have none."""
    return path.relative_to(SOURCE).parts[0] in PURE or path.match("drivers/*/prepare.py")


def _is_loose_task(path: Path, node: ast.Call) -> bool:
    """Tasks are created in `runtime/` or in a group."""
    if path.relative_to(SOURCE).parts[0] == "runtime" or not isinstance(node.func, ast.Attribute):
        return False
    owner = node.func.value
    name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
    return node.func.attr in ("create_task", "ensure_future") and not name.endswith("group")


def _swallows(path: Path, node: ast.ExceptHandler) -> bool:
    """Only the workqueue and the gRPC adaptor catch everything. A forked copy must never return to its caller's code, and the
    quarantine passes on what work that it watches was waiting for.

    A handler that cleans up and raises again catches nothing.
    """
    if path.relative_to(SOURCE).as_posix() in CATCH_EVERYTHING:
        return False
    named = isinstance(node.type, ast.Name) and node.type.id not in ("Exception", "BaseException")
    last = node.body[-1]
    return not (named or isinstance(node.type, ast.Tuple | ast.Attribute)) and not (
        isinstance(last, ast.Raise) and last.exc is None
    )


def _is_possessive(path: Path, node: ast.Constant) -> bool:
    """CPython before 3.11.5 matches possessive quantifiers and atomic groups wrongly; unambiguous patterns need neither."""
    return isinstance(node.value, str) and any(sign in node.value for sign in ("*+", "++", "?+", "}+", "(?>"))


RULES: dict[type[ast.AST], Callable[[Path, Any], bool]] = {
    ast.AsyncFunctionDef: _is_async,
    ast.AsyncWith: _is_async,
    ast.AsyncFor: _is_async,
    ast.Await: _is_async,
    ast.Call: _is_loose_task,
    ast.ExceptHandler: _swallows,
    ast.Constant: _is_possessive,
}


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_every_room_says_what_goes_in_and_out(room: Path) -> None:
    lines = (ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or "").splitlines()
    starts = [line.split(":")[0] for line in lines if line.startswith(("In:", "Out:", "Next:"))]
    assert starts == ["In", "Out", "Next"], f"{room}/__init__.py needs the lines In:, Out: and Next:"


def test_no_line_breaks_a_rule() -> None:
    """The rules about single nodes of the syntax, in one test: every file is parsed and walked once for all of them."""
    assert any(_is_async(path, ast.Pass()) for path in FILES)
    broken = [
        f"{path}:{getattr(node, 'lineno', 0)}: {rule.__name__}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(), str(path)))
        if (rule := RULES.get(type(node))) is not None and rule(path, node)
    ]
    assert broken == []


def test_no_name_that_says_nothing() -> None:
    everywhere = [*SOURCE.rglob("*"), *Path("tests").rglob("*")]
    assert [str(path) for path in everywhere if path.stem.strip("_") in BANNED] == []


def test_files_stay_readable() -> None:
    long = {str(path): len(path.read_text().splitlines()) for path in FILES}
    assert {path: lines for path, lines in long.items() if lines > 400} == {}


def test_the_house_page_names_every_room() -> None:
    page = Path("docs/house.md").read_text()
    assert [room.name for room in ROOMS if f"`{room.name}/`" not in page] == []
