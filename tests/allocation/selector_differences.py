"""Where our answers may differ from the Go evaluator's, and why. Everything else is a fault. See docs/reference/cel.md."""

from __future__ import annotations

import re
from typing import Any

from tests.oracle.outcomes import selector_view

Answer = dict[str, Any]
_MESSAGE = re.compile(r"\bgoogle\.protobuf\.\w+\s*\{")
_SMALLEST = re.compile(r"\.sub\(\s*-9223372036854775808\s*\)")


def excuse(expression: str, theirs: Answer, ours: Answer) -> str | None:
    """None where the answers agree in all, costs included; "" where they may not differ; else the cause of the difference."""
    if selector_view(theirs, costs=True) == selector_view(ours, costs=True):
        return None
    if theirs["compileError"]:
        both = "invalid qualifier type" in theirs["compileError"], "invalid qualifier type" in ours["error"]
        return "constant that can be no index" if all(both) else ""
    if _MESSAGE.search(expression) and "google.protobuf" in ours["compileError"]:
        return "protobuf messages"
    if ours["compileError"] or theirs["estimatedCost"] != ours["estimatedCost"]:
        return ""
    if "hash of unhashable type cel.Semver" in theirs["error"]:
        return "version as the key of a map"
    return "Go cannot negate the smallest integer" if _SMALLEST.search(expression) else ""
