"""Writes the committed cases with the oracle's answers: `python -m tests.oracle_kubelet.corpus`. Needs Go."""

from __future__ import annotations

import json
from collections import Counter
from itertools import count
from pathlib import Path

from tests.cases import read_cases
from tests.go_oracle import Answer, Case
from tests.oracle_kubelet.compare import DEVICES, MERGE, Kind, outcomes
from tests.oracle_kubelet.program import KubeletOracle

CASES = Path(__file__).parent / "cases"
SIZES = {"merge": 250, "devices": 120}
LONGEST = 4000
"""Characters of a case; longer ones are left to the random comparison."""
REPEATS = 12
"""A case is kept where the oracle answers the same so many times: Go picks among equal devices by chance."""


def committed(kind: Kind) -> list[Case]:
    """The cases, each with the oracle's view of it under `answer`."""
    return read_cases(CASES / f"{kind.question}.jsonl")


def write_corpus(kind: Kind) -> Path:
    """No outcome may fill more than half of it."""
    size = SIZES[kind.question]
    lines: list[str] = []
    seen: Counter[str] = Counter()
    with KubeletOracle(kind.question) as oracle:
        for seed in count(5_000_000):
            if len(lines) == size:
                break
            case = kind.generate(seed)
            answer = kind.view(oracle.ask(case))
            found = outcomes(answer)
            line = json.dumps({**case, "answer": answer}, separators=(",", ":"))
            is_common = any(seen[one] >= size / 2 for one in found)
            if is_common or len(line) > LONGEST or not _is_settled(oracle, kind, case, answer):
                continue
            seen.update(found)
            lines.append(line)
    path = CASES / f"{kind.question}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def _is_settled(oracle: KubeletOracle, kind: Kind, case: Case, answer: Answer) -> bool:
    return all(kind.view(oracle.ask(case)) == answer for _ in range(REPEATS))


if __name__ == "__main__":
    for each in (MERGE, DEVICES):
        print(write_corpus(each))
