"""Random selectors on random devices: `dray cel --cases` and Kubernetes' own evaluator give the same answers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.allocation.selector_differences import excuse
from tests.campaign import seeds
from tests.go_oracle import Answer, Case
from tests.oracle.compare import Comparer, random_cases, varies
from tests.oracle.program import Oracle

COMPARER = Comparer("selector", costs=True)


def test_selectors_agree_with_kubernetes(tmp_path: Path) -> None:
    cases = list(random_cases("selector", seeds(2_000, 20_000, first=1_000_000)))
    # Every fourth as an API server takes it that sees the text for the first time.
    cases = [case | {"environment": "new"} if not at % 4 else case for at, case in enumerate(cases)]
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(json.dumps(case) + "\n" for case in cases))
    command = [sys.executable, "-m", "dray", "cel", "--cases", str(path)]
    answered = subprocess.run(command, capture_output=True, text=True, check=True, timeout=1800)
    answers = [json.loads(line) for line in answered.stdout.splitlines()]
    causes, wrong = Counter[str](), []
    with Oracle("select") as oracle:
        for case, ours in zip(cases, answers, strict=True):
            theirs = oracle.ask(case)
            cause = _cause(oracle, case, theirs, ours)
            if not cause:
                wrong.append(f"{json.dumps(case)}\n  expected {theirs}\n  got {ours}")
            causes[cause] += 1
    print(dict(causes))
    assert not wrong, f"{len(wrong)} of {len(cases)} differ:\n" + "\n".join(wrong[:5])
    assert causes["equal"] > 0.995 * len(cases)


def _cause(oracle: Oracle, case: Case, theirs: Answer, ours: Answer) -> str:
    """Why the answers are as they are, "" where they may not be."""
    if not COMPARER.is_comparable(theirs):
        return "no answer"
    cause = excuse(case["expression"], theirs, ours)
    if cause == "" and varies(COMPARER, oracle, case, theirs):
        return "varies"
    return "equal" if cause is None else cause
