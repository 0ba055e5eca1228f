"""What tests/e2e/lanes.py names is there, once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.e2e.lanes import LANES, lane_of

E2E = Path(__file__).parents[1] / "e2e"


def test_every_file_of_a_lane_is_there_and_in_no_other() -> None:
    named = Counter(name for files in LANES.values() for name in files)
    assert set(named) <= {path.stem for path in E2E.glob("test_*.py")}
    assert [name for name, count in named.items() if count > 1] == []


def test_a_file_without_a_lane_has_its_own() -> None:
    assert lane_of("tests/e2e/test_agent.py::test_one[a::b]") == "cluster"
    assert lane_of("tests/e2e/test_new.py::test_one") == "test_new"
