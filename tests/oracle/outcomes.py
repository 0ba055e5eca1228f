"""What of an answer is compared, and how an outcome is called in the statistics."""

from __future__ import annotations

import copy
from typing import Any

from tests.go_oracle import Answer

# Text to kind, in this order. The kinds are the names used in reports.
ALLOCATION_ERRORS = (
    ("cannot read the case", "unreadable case"),
    ("panic: ", "panic"),
    ("filter operation aborted", "aborted"),
    ("no allocator available", "no tier"),
    ("has subrequests, but", "firstAvailable disabled"),
    ("has capacity requests, but", "capacity disabled"),
    ("exceeds the claim limit", "claim limit"),
    ("is too large", "count too large"),
    ("empty constraint", "empty constraint"),
    ("invalid resource pools were encountered", "invalid pools"),
    ("CEL expression empty", "empty selector"),
    ("admin access is requested", "adminAccess disabled"),
    ("missing device class name", "no class name"),
    ("could not retrieve device class", "unknown class"),
    ("is currently being updated", "all: incomplete pool"),
    ("is currently invalid", "all: invalid pool"),
    ("unsupported count mode", "unknown mode"),
    ("cannot add device", "all: constraint"),
    ("CEL compile error", "compile error"),
    ("CEL runtime error", "runtime error"),
    ("failed to parse node selector", "node selector"),
    ("failed to perform node selection", "node selector"),
    ("unsupported ResourceSlice.NodeSelector", "node selector terms"),
)
SELECTOR_ERRORS = (
    ("panic: ", "panic"),
    ("Syntax error", "syntax"),
    ("undeclared reference", "undeclared"),
    ("undefined field", "undefined field"),
    ("found no matching overload", "no overload"),
    ("expected type", "wrong type"),
    ("must evaluate to", "output type"),
    ("program instantiation failed", "folded constant"),
    ("cannot be range of a comprehension", "not iterable"),
    ("error during formatting", "format arguments"),
    ("actual cost limit exceeded", "cost limit"),
    ("no such key", "no such key"),
    ("no such overload", "no such overload"),
    ("no such attribute", "no such attribute"),
    ("index out of bounds", "index"),
    ("index out of range", "index"),
    ("cannot slice", "slice"),
    ("on empty list", "empty list"),
    ("already exists", "double key"),
    ("internal error", "internal"),
    ("could not be converted to bool", "not a bool"),
    ("division by zero", "division by zero"),
    ("modulus by zero", "modulus by zero"),
    ("overflow", "overflow"),
    ("optional.none() dereference", "optional none"),
    ("unsupported attribute value", "unsupported attribute"),
    ("parse semantic version", "bad version attribute"),
    ("longer than", "includes limit"),
    ("parse error during conversion", "ip or cidr"),
    ("quantities must match", "quantity"),
    ("No Major.Minor.Patch", "semver"),
    ("Invalid character", "semver"),
    ("leading zeroes", "semver"),
    ("is not allowed", "ip or cidr"),
    ("expected iterable type", "not iterable"),
    ("type conversion error", "conversion"),
    ("invalid", "invalid argument"),
)


def error_kind(text: str, table: tuple[tuple[str, str], ...]) -> str:
    return next((kind for part, kind in table if part in text), "other")


def allocation_view(answer: Answer) -> dict[str, Any]:
    """The comparable part: results in order without share IDs, and the kind of the error."""
    results = copy.deepcopy(answer.get("results"))
    for result in results or []:
        for device in result.get("devices", {}).get("results") or []:
            if "shareID" in device:
                device["shareID"] = "*"
    error = answer.get("error") or ""
    return {"results": results, "error": error_kind(error, ALLOCATION_ERRORS) if error else ""}


def allocation_outcome(answer: Answer) -> str:
    if answer.get("error"):
        return "error: " + error_kind(answer["error"], ALLOCATION_ERRORS)
    return "none" if answer.get("results") is None else "allocated"


def selector_view(answer: Answer, *, costs: bool) -> dict[str, Any]:
    """The comparable part: whether it compiles, matches or fails; with `costs` the two costs too."""
    view = {
        "compileError": bool(answer.get("compileError")),
        "match": answer.get("match"),
        "error": bool(answer.get("error")),
    }
    if costs:
        view |= {"estimatedCost": answer.get("estimatedCost"), "cost": answer.get("cost")}
    return view


def selector_outcome(answer: Answer) -> str:
    if text := answer.get("compileError"):
        return "compile error: " + error_kind(text, SELECTOR_ERRORS)
    if text := answer.get("error"):
        return "error: " + error_kind(text, SELECTOR_ERRORS)
    return f"match: {str(answer.get('match')).lower()}"
