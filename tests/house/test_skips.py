"""The list of what is skipped everywhere is true: nothing is missing in it, and nothing too much."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.skips import main

KNOWN, NEW = "tests/e2e/test_agent.py::test_known", "tests/e2e/test_agent.py::test_new"


def compared(place: Path, tier: str, *skipped: str) -> int:
    """The exit status after a tier that skipped these, where one is listed."""
    listing = place / "skips.txt"
    listing.write_text(f"# why\n{KNOWN}  # no such hardware\n")
    (place / f"{tier}.json").write_text(json.dumps({"skipped": dict.fromkeys(skipped, "no hardware")}))
    return main(place, listing)


def test_what_is_skipped_and_listed_is_fine(tmp_path: Path) -> None:
    assert compared(tmp_path, "e2e", KNOWN) == 0


def test_what_is_skipped_and_not_listed_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compared(tmp_path, "e2e", KNOWN, NEW) == 1
    assert f"not listed in {tmp_path}/skips.txt" in capsys.readouterr().out


def test_what_is_listed_and_ran_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compared(tmp_path, "e2e") == 1
    assert f"take them off the list:\n  {KNOWN}" in capsys.readouterr().out


def test_a_tier_that_did_not_run_says_nothing(tmp_path: Path) -> None:
    assert compared(tmp_path, "fast") == 0
