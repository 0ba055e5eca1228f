"""The house rules that a tool can hold (docs/house.md); the import contract is import-linter's."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path("src/dray")
FILES = [path for path in sorted(SOURCE.rglob("*.py")) if "wire/gen" not in path.as_posix()]
ROOMS = sorted(path for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__")
PURE = ("api", "cel", "hardware", "cdi", "allocation")
BANNED = {"utils", "util", "common", "helpers", "helper", "base", "misc", "shared", "stuff"}


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_every_room_says_what_goes_in_and_out(room: Path) -> None:
    lines = (ast.get_docstring(_tree(room / "__init__.py")) or "").splitlines()
    starts = [line.split(":")[0] for line in lines if line.startswith(("In:", "Out:", "Next:"))]
    assert starts == ["In", "Out", "Next"], f"{room}/__init__.py needs the lines In:, Out: and Next:"


def test_pure_rooms_have_no_async() -> None:
    pure = [
        path
        for path in FILES
        if path.relative_to(SOURCE).parts[0] in PURE or path.match("drivers/*/prepare.py")
    ]
    assert pure
    kinds = (ast.AsyncFunctionDef, ast.AsyncWith, ast.AsyncFor, ast.Await)
    assert [
        f"{path}:{node.lineno}" for path in pure for node in ast.walk(_tree(path)) if isinstance(node, kinds)
    ] == []


def test_no_name_that_says_nothing() -> None:
    everywhere = [*SOURCE.rglob("*"), *Path("tests").rglob("*")]
    assert [str(path) for path in everywhere if path.stem.strip("_") in BANNED] == []


def test_tasks_are_created_in_runtime_or_in_a_group() -> None:
    def is_loose(node: ast.AST) -> bool:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            return False
        owner = node.func.value
        name = (
            owner.id
            if isinstance(owner, ast.Name)
            else owner.attr
            if isinstance(owner, ast.Attribute)
            else ""
        )
        in_group = name.endswith("group")
        return node.func.attr in ("create_task", "ensure_future") and not in_group

    outside = [path for path in FILES if path.relative_to(SOURCE).parts[0] != "runtime"]
    assert [str(path) for path in outside if any(is_loose(node) for node in ast.walk(_tree(path)))] == []


def test_only_the_workqueue_and_the_grpc_adaptor_catch_everything() -> None:
    """A handler that cleans up and raises again catches nothing. A forked copy must never return to its caller's code."""
    allowed = {
        "runtime/forked.py",
        "runtime/workqueue.py",
        "wire/transport/dispatch.py",
        "wire/transport/http2.py",
    }

    def swallows(node: ast.AST) -> bool:
        if not isinstance(node, ast.ExceptHandler):
            return False
        named = isinstance(node.type, ast.Name) and node.type.id not in ("Exception", "BaseException")
        last = node.body[-1]
        return not (named or isinstance(node.type, ast.Tuple | ast.Attribute)) and not (
            isinstance(last, ast.Raise) and last.exc is None
        )

    found = [path for path in FILES if any(swallows(node) for node in ast.walk(_tree(path)))]
    assert {path.relative_to(SOURCE).as_posix() for path in found} <= allowed


def test_files_stay_readable() -> None:
    long = {str(path): len(path.read_text().splitlines()) for path in FILES}
    assert {path: lines for path, lines in long.items() if lines > 400} == {}


def test_the_house_page_names_every_room() -> None:
    page = Path("docs/house.md").read_text()
    assert [room.name for room in ROOMS if f"`{room.name}/`" not in page] == []


def test_no_possessive_patterns() -> None:
    """CPython before 3.11.5 matches possessive quantifiers and atomic groups wrongly; unambiguous patterns need neither."""
    signs = ("*+", "++", "?+", "}+", "(?>")

    def is_possessive(node: ast.AST) -> bool:
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
        return any(sign in text for sign in signs)

    assert [str(path) for path in FILES if any(is_possessive(node) for node in ast.walk(_tree(path)))] == []
