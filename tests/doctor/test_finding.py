from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

MAKERS = ("ok", "note", "warning", "fault", "cannot_look")


def _names(path: Path) -> Iterator[str]:
    """The first argument of all that make a finding; of an f-string what it begins with."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MAKERS:
            first = node.args[0]
            if isinstance(first, ast.Constant):
                yield str(first.value)
            elif isinstance(first, ast.JoinedStr) and isinstance(first.values[0], ast.Constant):
                yield str(first.values[0].value)


def test_every_check_is_in_the_docs() -> None:
    page = Path("docs/reference/doctor.md").read_text()
    names = {name for path in Path("src/dray/doctor").glob("*.py") for name in _names(path)}
    assert len(names) > 30
    assert {name for name in names if f"`{name}" not in page} == set()
