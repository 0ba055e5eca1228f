"""Random cases through the oracle and through a Python function; prints what differs, made small.

    python -m tests.oracle.compare allocation MODULE:FUNCTION [--count N] [--seed S] [--tier TIER]
    python -m tests.oracle.compare selector MODULE:FUNCTION [--count N] [--seed S] [--costs]

The function takes a case and returns an answer, both as in `dray allocate --cases` and `dray cel --cases`. The exit status is
1 when something differs.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.allocation.generate import generate_case
from tests.cel.generate import generate_selector_case
from tests.go_oracle import Answer, Case
from tests.oracle.outcomes import allocation_outcome, allocation_view, selector_outcome, selector_view
from tests.oracle.program import Oracle
from tests.oracle.shrink import shrink

Kind = Literal["allocation", "selector"]
Function = Callable[[Case], Answer]


@dataclass(frozen=True)
class Comparer:
    """How two answers of a kind are held against each other."""

    kind: Kind
    costs: bool = False

    def view(self, answer: Answer) -> dict[str, Any]:
        return (
            allocation_view(answer) if self.kind == "allocation" else selector_view(answer, costs=self.costs)
        )

    def outcome(self, answer: Answer) -> str:
        return allocation_outcome(answer) if self.kind == "allocation" else selector_outcome(answer)

    def is_comparable(self, theirs: Answer) -> bool:
        """Not so where the oracle ran out of time, panicked, or could not read the case."""
        text = theirs.get("error", "") + theirs.get("compileError", "")
        return not theirs.get("aborted") and not text.startswith(("panic: ", "cannot read the case"))

    def label(self, theirs: Answer, ours: Answer) -> str:
        """What kind of difference it is, or "" where the answers agree. Where the oracle panicked, ours must be an error."""
        if not self.is_comparable(theirs):
            is_missed = theirs.get("error", "").startswith("panic: ") and not ours.get("error")
            return f"panic / {self.outcome(ours)}" if is_missed else ""
        expected, got = self.view(theirs), self.view(ours)
        if expected == got:
            return ""
        wrong = ", ".join(key for key in expected if expected[key] != got[key])
        return f"{wrong}: {self.outcome(theirs)} / {self.outcome(ours)}"


@dataclass(frozen=True)
class Difference:
    label: str
    case: Case
    theirs: Answer
    ours: Answer

    def __str__(self) -> str:
        parts = (("case", self.case), ("oracle", self.theirs), ("ours", self.ours))
        return "\n".join([self.label, *(f"  {name}: {json.dumps(value)}" for name, value in parts)])


@dataclass
class Report:
    """Labels count all differences; `differences` has the first few of each label, small.

    `varying` counts differences to an answer that the oracle does not repeat: Go walks maps in random order. `left_out` counts
    what the oracle gave no answer to (see `is_comparable`).
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
    varying: int = 0
    left_out: int = 0

    def __str__(self) -> str:
        lines = [f"{count:7} {name}" for name, count in self.outcomes.most_common()]
        lines.append(
            f"{self.outcomes.total()} cases, {self.labels.total()} differences, {self.varying} where the oracle does not repeat "
            f"its answer, {self.left_out} to which it has none"
        )
        lines += [f"{count:7} {label}" for label, count in self.labels.most_common()]
        return "\n".join([*lines, *(str(difference) for difference in self.differences)])


def compare(
    comparer: Comparer,
    function: Function,
    cases: Iterable[Case],
    *,
    tier: str = "experimental",
    examples: int = 1,
    timeout: str = "5s",
    version: str = "1.36",
) -> Report:
    """Ask both for every case; `examples` cases of each label of difference are made small and kept."""
    report = Report()
    question: Literal["allocate", "select"] = "allocate" if comparer.kind == "allocation" else "select"
    with Oracle(question, tier=tier, timeout=timeout, version=version) as oracle:

        def label(case: Case) -> str:
            return comparer.label(oracle.ask(case), _answer(function, case))

        for case in cases:
            theirs = oracle.ask(case)
            report.outcomes[comparer.outcome(theirs)] += 1
            report.left_out += not comparer.is_comparable(theirs)
            found = comparer.label(theirs, _answer(function, case))
            if not found:
                continue
            if varies(comparer, oracle, case, theirs):
                report.varying += 1
                continue
            report.labels[found] += 1
            if report.labels[found] <= examples:
                small = shrink(case, lambda part, found=found: label(part) == found)  # type: ignore[misc]
                report.differences.append(
                    Difference(found, small, oracle.ask(small), _answer(function, small))
                )
    return report


def varies(comparer: Comparer, oracle: Oracle, case: Case, first: Answer, *, times: int = 12) -> bool:
    """Whether the oracle answers differently when asked again: Go walks maps in random order."""
    expected = comparer.view(first)
    return any(comparer.view(oracle.ask(case)) != expected for _ in range(times))


def _answer(function: Function, case: Case) -> Answer:
    """Ours; an exception is an answer that never agrees, so that the case is reported and shrunk like others."""
    try:
        return function(json.loads(json.dumps(case)))
    except Exception as error:  # noqa: BLE001
        return {"results": [{"raised": True}], "match": "raised", "error": f"{type(error).__name__}: {error}"}


def random_cases(kind: Kind, seeds: Iterable[int], *, tier: str = "experimental") -> Iterable[Case]:
    if kind == "allocation":
        return (generate_case(seed, tier=tier) for seed in seeds)
    return (generate_selector_case(seed) for seed in seeds)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.compare")
    parser.add_argument("kind", choices=("allocation", "selector"))
    parser.add_argument("function", help="MODULE:FUNCTION, a case in, an answer out")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--tier", default="experimental", choices=("stable", "incubating", "experimental"))
    parser.add_argument("--costs", action="store_true", help="selectors: compare both costs too")
    parser.add_argument("--examples", type=int, default=1, help="cases shown for each kind of difference")
    options = parser.parse_args(arguments)
    module, _, name = options.function.partition(":")
    function: Function = getattr(importlib.import_module(module), name)
    cases = random_cases(options.kind, range(options.seed, options.seed + options.count), tier=options.tier)
    comparer = Comparer(options.kind, options.costs)
    report = compare(comparer, function, cases, tier=options.tier, examples=options.examples)
    print(report)
    return 1 if report.labels else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
