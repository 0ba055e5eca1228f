"""Every test runs somewhere: no file outside the tiers, no tier without files."""

from __future__ import annotations

from pathlib import Path

from tests.tiers import TESTS, TIER_OF, tier_of


def test_every_test_file_is_in_a_tier() -> None:
    files = sorted(TESTS.rglob("test_*.py"))
    assert len(files) > 500
    assert [str(file) for file in files if tier_of(file) is None] == []


def test_every_path_of_the_table_has_tests() -> None:
    paths = [TESTS / path for path in TIER_OF]
    assert [str(path) for path in paths if not (path.is_file() or any(path.rglob("test_*.py")))] == []


def test_a_file_outside_the_table_is_in_no_tier() -> None:
    assert tier_of(TESTS / "new_room/test_new.py") is None
    assert tier_of(TESTS / "test_new.py") is None


def test_make_runs_every_tier() -> None:
    lines = Path("Makefile").read_text().splitlines()
    named = {word for line in lines for word in line.split() if word in TIER_OF.values() and "--tier" in line}
    assert named | {"e2e"} == set(TIER_OF.values())
    assert any("pytest" in line and "tests/e2e" in line for line in lines)
