"""Findings as short text, for what tests compare."""

from __future__ import annotations

from collections.abc import Iterable

from dray.doctor.finding import Finding, Level


def told(findings: Iterable[Finding]) -> set[tuple[str, str]]:
    """Check and level; whatever is not well says why and what to do."""
    found = list(findings)
    for one in found:
        assert one.what
        assert "\n" not in one.what + one.why + one.fix
        if one.level in (Level.WARNING, Level.FAULT):
            assert one.why, one
            assert one.fix, one
    return {(one.check, one.level.value) for one in found}


def text_of(findings: Iterable[Finding], check: str) -> str:
    """All that one check says."""
    return " | ".join(f"{one.what}; {one.why}; {one.fix}" for one in findings if one.check == check)
