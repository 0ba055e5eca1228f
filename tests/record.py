"""What a run leaves for its reader: a file with the skipped tests and their reasons, and how to repeat a failed campaign."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("dray").addoption(
        "--record", type=Path, metavar="FILE", help="Write what was skipped, and why, to FILE."
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    stats = terminalreporter.stats
    if config.option.record is not None:
        record = {
            "user": "root" if os.geteuid() == 0 else "normal user",
            "passed": len(stats.get("passed", [])),
            "skipped": dict(_skipped(stats.get("skipped", []))),
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


def _skipped(reports: list[pytest.TestReport]) -> Iterator[tuple[str, str]]:
    for report in reports:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        yield report.nodeid, reason.removeprefix("Skipped: ")
