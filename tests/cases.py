"""Committed case files, and tables of the docs: read here, so that no test loops over nothing and calls it a success."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def some(found: Sequence[T], where: object) -> Sequence[T]:
    """Return what was found; AssertionError where that is nothing."""
    assert found, f"no case in {where}"
    return found


def read_lines(path: Path) -> Sequence[str]:
    """The lines of a text file, at least one. Split at line feeds alone: cases have other separators in their texts."""
    return some([line for line in path.read_text(encoding="utf-8").split("\n") if line], path)


def read_cases(path: Path) -> list[Any]:
    """One JSON value a line, at least one."""
    return [json.loads(line) for line in read_lines(path)]


def read_rows(page: Path, start: str = "| `") -> list[list[str]]:
    """The cells of the rows of a page's tables that begin so, at least one row."""
    rows = [line for line in read_lines(page) if line.startswith(start)]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in some(rows, page)]
