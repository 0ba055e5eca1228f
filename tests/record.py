"""What a run leaves for its reader: a file with the seconds of each test file, what was skipped and what tests told, and how to repeat a failed campaign."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("dray").addoption(
        "--record",
        type=Path,
        metavar="FILE",
        help="Write seconds of each file, what was skipped and why, and what tests told, to FILE.",
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    stats = terminalreporter.stats
    if config.option.record is not None:
        record = {
            "user": "root" if os.geteuid() == 0 else "normal user",
            "passed": len(stats.get("passed", [])),
            "seconds": _seconds(stats),
            "skipped": dict(_skipped(stats.get("skipped", []))),
            "told": _told(stats),
        }
        config.option.record.parent.mkdir(parents=True, exist_ok=True)
        config.option.record.write_text(json.dumps(record, indent=1) + "\n")
    failed = [report.nodeid for report in (*stats.get("failed", []), *stats.get("error", []))]
    settings = [
        f"{name}={os.environ[name]}"
        for name in ("DRAY_CAMPAIGN", "DRAY_SLICE", "DRAY_SEED")
        if os.environ.get(name)
    ]
    if failed and settings:
        terminalreporter.section("to repeat it")
        for test in dict.fromkeys(failed):
            terminalreporter.write_line(f"{' '.join(settings)} .venv/bin/python -m pytest '{test}'")


def _seconds(stats: dict[str, list[pytest.TestReport]]) -> dict[str, float]:
    """Of each file, the longest first: where the minutes of a run go."""
    spent = defaultdict[str, float](float)
    for report in (one for kind in ("passed", "failed", "error", "") for one in stats.get(kind, [])):
        spent[report.nodeid.partition("::")[0]] += report.duration
    return {file: round(seconds, 1) for file, seconds in sorted(spent.items(), key=lambda one: -one[1])}


def _told(stats: dict[str, list[pytest.TestReport]]) -> dict[str, dict[str, object]]:
    """What tests noted with `record_property`, such as seconds that they do not assert."""
    reports = (one for kind in ("passed", "failed") for one in stats.get(kind, []))
    return {one.nodeid: dict(one.user_properties) for one in reports if one.user_properties}


def _skipped(reports: list[pytest.TestReport]) -> Iterator[tuple[str, str]]:
    for report in reports:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        yield report.nodeid, reason.removeprefix("Skipped: ")
