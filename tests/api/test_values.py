"""Versions, selectors and names against Go's answers; the corpus is written by oracle/generate.py."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.api.oracle.compare import differences
from tests.cases import read_cases

CORPUS = Path(__file__).parent / "value_cases.jsonl"


def test_agrees_with_go_on_the_corpus() -> None:
    cases = read_cases(CORPUS)
    kinds = Counter(case["kind"] for case in cases)
    assert len(kinds) == 12
    assert min(kinds.values()) > 100
    assert [text for case in cases for text in differences(case)] == []
