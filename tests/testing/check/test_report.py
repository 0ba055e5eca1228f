from __future__ import annotations

import json

from dray.testing.check.report import as_json, as_table
from dray.testing.check.rules import Report, Result, failed, passed, skipped

REPORT = Report(
    "plugin p",
    (
        Result("version", "Has a version", "Refused.", passed("v1beta1"), 0.1),
        Result("list", "Lists", "No devices.", failed("a " * 80), 0.2),
        Result("stops", "Stops", "Slow.", skipped("not safe"), 0.0),
    ),
    ("read this",),
)


def test_table() -> None:
    lines = as_table(REPORT).splitlines()
    assert lines[0].split() == ["RULE", "RESULT", "EVIDENCE"]
    assert lines[1].split() == ["version", "pass", "v1beta1"]
    assert lines[2].startswith("list     FAIL    a a")
    assert lines[3].startswith(" " * 17 + "a")
    assert lines[-1] == "plugin p: 1 passed, 1 failed, 1 skipped"
    assert "list: Lists. No devices." in lines
    assert "Note: read this" in lines
    assert max(map(len, lines)) <= 120


def test_colour_is_only_where_it_is_wanted() -> None:
    assert "\033[31mFAIL" in as_table(REPORT, colour=True)
    assert "\033" not in as_table(REPORT)


def test_json() -> None:
    document = json.loads(as_json(REPORT))
    assert document["kept"] is False
    assert [one["result"] for one in document["results"]] == ["pass", "fail", "skipped"]
    assert document["results"][0] == {
        "rule": "version",
        "title": "Has a version",
        "result": "pass",
        "evidence": "v1beta1",
        "why": "Refused.",
        "seconds": 0.1,
    }
