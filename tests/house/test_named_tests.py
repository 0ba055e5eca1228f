"""Every test that a page of the docs names is there: a claim on the threat page is worth what shows it."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

PAGES = sorted(Path("docs").rglob("*.md"))
SECURITY = Path("docs/reference/security.md")
QUOTED = re.compile(r"`([^`]+)`")
TEST = re.compile(r"(?P<file>tests/[\w/.-]+\.py)?(?:::)?(?P<name>test_\w+)?")


def named(page: Path) -> list[tuple[str, str]]:
    """Files and tests that it names; a test without a file is in the file that was named before, in the same row."""
    found = []
    for line in page.read_text().splitlines():
        file = ""
        for text in QUOTED.findall(line):
            match = TEST.fullmatch(text)
            if match is None or not (match["file"] or (file and match["name"])):
                continue
            file = match["file"] or file
            found.append((file, match["name"] or ""))
    return found


@cache
def functions_in(file: str) -> frozenset[str]:
    """The functions and classes of a file."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    path = Path(file)
    tree = ast.parse(path.read_text()) if path.is_file() else ast.Module([], [])
    return frozenset(one.name for one in ast.walk(tree) if isinstance(one, kinds))


def missing(page: Path) -> list[str]:
    return [
        f"{page}: {file}::{name}"
        for file, name in named(page)
        if not Path(file).is_file() or (name and name not in functions_in(file))
    ]


def test_every_test_that_a_page_names_is_there() -> None:
    assert [one for page in PAGES for one in missing(page)] == []


def test_every_row_of_what_each_may_never_do_names_a_test() -> None:
    section = SECURITY.read_text().split("## What each may never do")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    assert len(rows) > 50
    assert [row for row in rows if "`tests/" not in row] == []


def test_what_is_not_there_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        f"| `{Path(__file__).relative_to(Path.cwd())}::test_none`, `::test_neither`, `named` |\n`tests/no.py`\n"
    )
    assert [one.rpartition("::")[2] for one in missing(page)] == ["test_none", "test_neither", ""]
