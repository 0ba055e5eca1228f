"""Chooses the committed cases: `python -m tests.oracle.corpus` writes both files anew. Same program, same files.

From many random cases those are kept that show something not yet shown often: an outcome, a feature, a part of a case, a
function of the dialect.
"""

from __future__ import annotations

import heapq
import itertools
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.go_oracle import Answer, Case
from tests.oracle.compare import Comparer, random_cases, varies
from tests.oracle.outcomes import allocation_view
from tests.oracle.program import Oracle

TESTS = Path(__file__).parents[1]
ALLOCATION = TESTS / "allocation" / "cases" / "random.jsonl"
SELECTOR = TESTS / "cel" / "cases" / "random.jsonl"
SIZE = 500
# How many cases of each tier are kept, out of how many for each of them, and how many bytes one may have.
TIER_SIZES = {"experimental": 300, "incubating": 120, "stable": 80}
POOL = 16
LARGEST = 3600
ALLOCATION_SHARES = {"allocated": 0.5, "none": 0.25, "error": 0.25}
SELECTOR_SHARES = {"match": 0.6, "error": 0.25, "compile error": 0.15}
# Parts of an allocator case that are wanted in all pairs.
ASPECTS = (
    *(
        "adminAccess",
        "allNodes",
        "allocatedDevices",
        "allowMultipleAllocations",
        "bindingConditions",
        "bindsToNode",
    ),
    *(
        "capacity",
        "config",
        "consumesCounters",
        "distinctAttribute",
        "firstAvailable",
        "ints",
        "matchAttribute",
    ),
    *(
        "nodeSelector",
        "perDeviceNodeSelection",
        "requestPolicy",
        "selectors",
        "strings",
        "taints",
        "tolerations",
    ),
)
WORD = re.compile(r"[A-Za-z_][\w.]*\(|[A-Za-z_]\w*|&&|\|\||[=!<>]=|[-+*/%<>!?:]")


@dataclass(frozen=True)
class Candidate:
    case: Case
    answer: Answer
    outcome: str
    shows: frozenset[str]
    size: int


def allocation_shows(case: Case, answer: Answer, outcome: str) -> frozenset[str]:
    """The names of all fields used, alone and with the outcome; features; what the result has."""
    shown = {f"outcome {outcome}", *(f"feature {name}" for name in case["features"])}
    for part in ("slices", "claims", "allocatedDevices", "allocatedSharedDeviceIDs", "allocatedCapacity"):
        for name in _fields(case[part], part):
            shown |= {name, f"{name} with {outcome}"}
    shown |= {f"result {name}" for name in _fields(answer.get("results"), "")}
    used = [name for name in ASPECTS if any(field.endswith(f".{name}") or field == name for field in shown)]
    shown |= {f"{one} and {other}" for one, other in itertools.combinations(used, 2)}
    shown |= {
        f"at least {steps} steps" for steps in (10, 20, 50, 100, 200) if answer.get("steps", 0) >= steps
    }
    return frozenset(shown)


def _fields(value: Any, at: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"{at}.{key}"
            if isinstance(item, str) and key in ("allocationMode", "operator", "effect"):
                yield f"{at}.{key}={item}"
            yield from _fields(item, key)
    elif isinstance(value, list):
        if value:
            yield at
        for item in value:
            yield from _fields(item, at)


def selector_shows(case: Case, answer: Answer, outcome: str) -> frozenset[str]:
    """The functions and operators in the text, alone and with the outcome; features; kinds of attributes."""
    kind = outcome.partition(":")[0]
    words = set(WORD.findall(case["expression"]))
    words = {word for word in words if not re.fullmatch(r"v\d+", word)}
    shown = {f"outcome {outcome}", *(f"feature {name}" for name in case["features"])}
    shown |= words | {f"{word} with {kind}" for word in words if word.endswith("(")}
    return frozenset(
        shown | {f"attribute {key}" for value in case["device"]["attributes"].values() for key in value}
    )


def balanced(candidates: list[Candidate], size: int, shares: dict[str, float]) -> list[Candidate]:
    """A fixed share for each kind of outcome, so that the many kinds of errors do not crowd out the rest."""
    kept: list[Candidate] = []
    for kind, share in shares.items():
        kept += chosen(
            [one for one in candidates if one.outcome.partition(":")[0] == kind], round(size * share)
        )
    return kept


def chosen(candidates: list[Candidate], size: int) -> list[Candidate]:
    """Greedy: again and again the candidate that shows most of what was shown least so far, for its size.

    A candidate is worth less and less as others are kept, so one whose old worth is not the best need not be looked at.
    """
    seen: Counter[str] = Counter()
    kept: list[Candidate] = []
    heap = [(-_worth(one, seen), index) for index, one in enumerate(candidates)]
    heapq.heapify(heap)
    while heap and len(kept) < size:
        _, index = heapq.heappop(heap)
        worth = _worth(candidates[index], seen)
        if heap and -worth > heap[0][0]:
            heapq.heappush(heap, (-worth, index))
            continue
        kept.append(candidates[index])
        seen.update(candidates[index].shows)
    return kept


def _worth(candidate: Candidate, seen: Counter[str]) -> float:
    fresh = math.fsum(1 / (1 + seen[name] * seen[name]) for name in candidate.shows)
    rare = sum(5 / (1 + seen[name]) for name in candidate.shows if name.startswith("outcome "))
    return (fresh + rare) / (200 + candidate.size)


def allocation_candidates(tier: str, count: int) -> Iterator[Candidate]:
    comparer = Comparer("allocation")
    with Oracle("allocate", tier=tier) as oracle:
        for case in random_cases("allocation", range(count), tier=tier):
            answer = oracle.ask(case)
            if not comparer.is_comparable(answer) or varies(comparer, oracle, case, answer, times=3):
                continue
            outcome = comparer.outcome(answer)
            shows = allocation_shows(case, answer, outcome)
            kept = {key: answer[key] for key in ("results", "error")}
            kept["results"] = allocation_view(answer)["results"]
            if (size := len(json.dumps(case))) <= LARGEST:
                yield Candidate(case, kept, outcome, shows, size)


def selector_candidates(count: int) -> Iterator[Candidate]:
    comparer = Comparer("selector", costs=True)
    with Oracle("select") as oracle:
        for case in random_cases("selector", range(count)):
            answer = oracle.ask(case)
            if not comparer.is_comparable(answer) or varies(comparer, oracle, case, answer, times=4):
                continue
            outcome = comparer.outcome(answer)
            shows = selector_shows(case, answer, outcome)
            kept = {key: value for key, value in answer.items() if key != "name"}
            kept["compileError"] = answer["compileError"].partition("\n")[0]
            if (size := len(json.dumps(case))) <= LARGEST:
                yield Candidate(case, kept, outcome, shows, size)


def write(path: Path, candidates: list[Candidate]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    ordered = sorted(
        candidates,
        key=lambda one: (one.case["name"].rpartition("-")[0], int(one.case["name"].rpartition("-")[2])),
    )
    lines = (json.dumps(one.case | {"answer": one.answer}, separators=(",", ":")) for one in ordered)
    path.write_text("".join(line + "\n" for line in lines))


def main() -> int:
    allocations: list[Candidate] = []
    for tier, size in TIER_SIZES.items():
        allocations += balanced(list(allocation_candidates(tier, size * POOL)), size, ALLOCATION_SHARES)
    write(ALLOCATION, allocations)
    write(SELECTOR, balanced(list(selector_candidates(SIZE * POOL)), SIZE, SELECTOR_SHARES))
    for path in (ALLOCATION, SELECTOR):
        print(f"{path}: {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
