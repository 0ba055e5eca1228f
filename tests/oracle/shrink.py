"""Makes a case that shows a difference smaller, by deleting parts of it while it still shows the difference."""

from __future__ import annotations

import copy
import operator
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tests.go_oracle import Case

Path = tuple[str | int, ...]
TOKEN = re.compile(
    r"""\s+|r?b?(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|[A-Za-z_]\w*|\d+[\w.]*|&&|\|\||[=!<>]=|.""", re.DOTALL
)
FIXED = frozenset({"features", "expression", "tier"})
# Without these an object cannot be read, or reads as something that no API server would store.
REQUIRED = frozenset(
    {
        *(
            "name",
            "metadata",
            "spec",
            "driver",
            "pool",
            "generation",
            "resourceSliceCount",
            "devices",
            "requests",
        ),
        *(
            "exactly",
            "deviceClassName",
            "allocationMode",
            "value",
            "cel",
            "expression",
            "counters",
            "counterSet",
            "key",
        ),
        *("effect", "opaque", "nodeSelectorTerms", "operator"),
    }
)


def shrink(case: Case, differs: Callable[[Case], bool], *, most: int = 3000) -> Case:
    """The smallest case found within `most` tries. `differs` must hold for `case`."""
    at = since = 0
    for _ in range(most):
        edits = list(_edits(case))
        if since >= len(edits):
            break
        at %= len(edits)
        candidate = edits[at]()
        if differs(candidate):
            case, since = candidate, 0
        else:
            at, since = at + 1, since + 1
    return case


def _edits(case: Case) -> Iterator[Callable[[], Case]]:
    """Ways to make the case one step smaller; large steps first."""
    for index in range(len(case.get("slices") or ())):
        yield partial(_without_slice, case, index)
    for path in sorted(_paths(case), key=lambda path: (len(path), [str(step) for step in path])):
        yield partial(_without, case, path)
    for index in range(len(case.get("features", ()))):
        yield partial(
            operator.or_, case, {"features": case["features"][:index] + case["features"][index + 1 :]}
        )
    if "expression" in case:
        for text in _shorter(case["expression"]):
            yield partial(operator.or_, case, {"expression": text})
    yield from _pairs(case)


def _without_slice(case: Case, index: int) -> Case:
    """The pool stays as complete as it was."""
    smaller = copy.deepcopy(case)
    gone = smaller["slices"].pop(index)["spec"]
    for entry in smaller["slices"]:
        spec = entry["spec"]
        if (spec["driver"], spec["pool"]["name"]) == (gone["driver"], gone["pool"]["name"]):
            spec["pool"]["resourceSliceCount"] -= 1
    return smaller


def _pairs(case: Case) -> Iterator[Callable[[], Case]]:
    """A claim or request less together with a device less: what is scarce stays so."""
    paths = list(_paths(case))
    asked = [path for path in paths if path[0] == "claims" and (len(path) == 2 or path[-2] == "requests")]
    offered = [path for path in paths if path[0] == "slices" and path[-2] == "devices"]
    for one in asked:
        for other in offered:
            yield lambda one=one, other=other: _without(_without(case, one), other)  # type: ignore[misc]


def _paths(value: Any, at: Path = ()) -> Iterator[Path]:
    """Everything that can be deleted. Top-level members of a case are emptied, not deleted."""
    members: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        members = [(key, item) for key, item in value.items() if at or key not in FIXED]
    elif isinstance(value, list):
        members = list(enumerate(value))
    for key, item in members:
        if at and key not in REQUIRED:
            yield (*at, key)
        yield from _paths(item, (*at, key))


def _without(case: Case, path: Path) -> Case:
    smaller = copy.deepcopy(case)
    holder: Any = smaller
    for step in path[:-1]:
        holder = holder[step]
    del holder[path[-1]]
    return smaller


def _shorter(text: str) -> Iterator[str]:
    """Parts of an expression, then the expression without a run of tokens, longest first."""
    tokens = TOKEN.findall(text)
    for start, end in _groups(tokens):
        yield "".join(tokens[start + 1 : end])
        yield "".join(tokens[:start] + tokens[end + 1 :])
    length = len(tokens) // 2
    while length:
        for start in range(0, len(tokens) - length + 1, max(1, length // 2)):
            yield "".join(tokens[:start] + tokens[start + length :])
        length = length * 2 // 3


def _groups(tokens: list[str]) -> list[tuple[int, int]]:
    """Bracketed runs, longest first."""
    found, opened = [], []
    for index, token in enumerate(tokens):
        if token in "([{":
            opened.append(index)
        elif token in ")]}" and opened:
            found.append((opened.pop(), index))
    return sorted(found, key=lambda pair: pair[0] - pair[1])
