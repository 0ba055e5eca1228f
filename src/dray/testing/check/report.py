"""A report as a table for people and as JSON for CI."""

from __future__ import annotations

import json
import textwrap
from collections import Counter

from dray.testing.check.rules import Report, Result, Verdict

_WORDS = {Verdict.PASS: "pass", Verdict.WARN: "warn", Verdict.FAIL: "FAIL", Verdict.SKIPPED: "skip"}
_COLOURS = {
    Verdict.PASS: "\033[32m",
    Verdict.WARN: "\033[35m",
    Verdict.FAIL: "\033[31m",
    Verdict.SKIPPED: "\033[33m",
}
_PLAIN = "\033[0m"
_EVIDENCE_WIDTH = 90


def as_table(report: Report, *, colour: bool = False) -> str:
    """One line a rule, more where the evidence is long; below it why each rule matters that is not kept, and the sum."""
    width = max((len(one.rule) for one in report.results), default=4)
    lines = [f"{'RULE'.ljust(width)}  RESULT  EVIDENCE"]
    for one in report.results:
        lines += _rows(one, width, colour)
    broken = [one for one in report.results if one.outcome.verdict in (Verdict.FAIL, Verdict.WARN)]
    if broken:
        lines += ["", *(f"{one.rule}: {one.title}. {one.why}" for one in broken)]
    lines += ["", *(f"Note: {note}" for note in report.notes), _sum(report)]
    return "\n".join(lines)


def _rows(one: Result, width: int, colour: bool) -> list[str]:
    verdict = one.outcome.verdict
    word = _WORDS[verdict].ljust(6)
    shown = f"{_COLOURS[verdict]}{word}{_PLAIN}" if colour else word
    parts = textwrap.wrap(one.outcome.evidence or one.title, _EVIDENCE_WIDTH) or [""]
    indent = " " * (width + 10)
    return [f"{one.rule.ljust(width)}  {shown}  {parts[0]}", *(indent + part for part in parts[1:])]


def _sum(report: Report) -> str:
    counts = Counter(one.outcome.verdict for one in report.results)
    odd = f"{counts[Verdict.WARN]} with a warning, " if counts[Verdict.WARN] else ""
    return (
        f"{report.subject}: {counts[Verdict.PASS]} passed, {odd}{counts[Verdict.FAIL]} failed, "
        f"{counts[Verdict.SKIPPED]} skipped"
    )


def as_json(report: Report) -> str:
    """The same for programs. Keys stay; others may join."""
    document = {
        "subject": report.subject,
        "kept": report.is_kept,
        "results": [
            {
                "rule": one.rule,
                "title": one.title,
                "result": one.outcome.verdict.value,
                "evidence": one.outcome.evidence,
                "why": one.why,
                "seconds": one.seconds,
            }
            for one in report.results
        ],
        "notes": list(report.notes),
    }
    return json.dumps(document, indent=2)
