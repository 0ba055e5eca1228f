"""Chooses the committed clusters: `python -m tests.oracle_scheduler.corpus` writes them anew, with kube-scheduler's answers.

From many random ones those are kept that have a word which few others have, so that a clone without Go has each of them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from tests.oracle_scheduler.agreement import feasible, told
from tests.oracle_scheduler.program import SchedulerOracle
from tests.oracle_scheduler.states import state

RECORDED = Path(__file__).parent / "recorded.jsonl"
SEEDS = range(5_000_000, 5_002_000)
SIZE = 48
LARGEST = 18_000
_NAMES = re.compile(r'"[^"]*"|\S+[/-]\S+|\d+')

Json = dict[str, Any]


def words(answer: Json) -> set[str]:
    """What was said about the pods of a cluster, without names."""
    found = set()
    for pod in answer["pods"]:
        said = (pod["preEnqueue"], pod["preFilter"], *(pod["nodes"] or {}).values())
        for verdict in filter(None, map(told, said)):
            reasons = [_NAMES.sub("X", one)[:40] for one in verdict[2]]
            found.add(" ".join((*verdict[:2], *reasons)))
    return found


def _worth(case: Json, said: set[str], seen: Counter[str]) -> tuple[float, int]:
    """More for words that are rare so far, and for pods that fit."""
    fitting = sum(bool(feasible(pod)) for pod in case["answer"])
    return sum(0.5 ** seen[one] for one in said) + 0.5 * fitting, -int(case["seed"])


def chosen() -> list[Json]:
    """The rarest word that is not there yet is looked for next."""
    found: dict[int, tuple[Json, set[str]]] = {}
    with SchedulerOracle() as oracle:
        for seed in SEEDS:
            cluster = state(seed)
            if len(json.dumps(cluster)) <= LARGEST:
                answer = oracle.ask(cluster)
                found[seed] = ({"seed": seed, "state": cluster, "answer": answer["pods"]}, words(answer))
    kept: list[Json] = []
    seen: Counter[str] = Counter()
    while len(kept) < SIZE and found:
        best = max(found, key=lambda seed: _worth(*found[seed], seen))
        case, said = found.pop(best)
        seen.update(said)
        kept.append(case)
    return sorted(kept, key=lambda case: int(case["seed"]))


def main() -> None:
    cases = chosen()
    RECORDED.write_text("".join(json.dumps(case, separators=(",", ":")) + "\n" for case in cases))
    print(f"{len(cases)} clusters, {RECORDED.stat().st_size >> 10} KiB")


if __name__ == "__main__":
    main()
