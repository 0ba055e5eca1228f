"""Where our answers may differ from the Go evaluator's, and why. Everything else is a fault. See docs/reference/cel.md."""

from __future__ import annotations

from typing import Any

from tests.oracle.outcomes import selector_view

Answer = dict[str, Any]


def excuse(expression: str, theirs: Answer, ours: Answer) -> str | None:
    """None where the answers agree in all, costs included; "" where they may not differ; else the cause of the difference."""
    if selector_view(theirs, costs=True) == selector_view(ours, costs=True):
        return None
    if "google.protobuf." in expression and not theirs["compileError"]:
        return "protobuf messages"
    if "invalid qualifier type" in theirs["compileError"] and "invalid qualifier type" in ours["error"]:
        return "constant that can be no index"
    if "hash of unhashable type cel.Semver" in theirs["error"]:
        return "version as the key of a map"
    if ".sub(-9223372036854775808)" in expression.replace(" ", ""):
        return "Go cannot negate the smallest integer"
    if selector_view(theirs, costs=False) != selector_view(ours, costs=False):
        return ""
    if theirs["estimatedCost"] != ours["estimatedCost"]:
        return ""
    # Only the actual cost is left. Where both failed, below the limit, it decides nothing.
    if theirs["error"].startswith("internal error: interface conversion"):
        return "cel-go stumbles over an error, and stops counting"
    if theirs["error"] and ours["error"]:
        return "cost of what failed"
    return ""
