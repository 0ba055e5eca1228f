"""Random cases through the kubelet's oracle and through our managers; prints what differs.

    python -m tests.oracle_kubelet.compare merge|devices [--count N] [--seed S]

The exit status is 1 when something differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from tests.go_oracle import Answer, Case
from tests.oracle_kubelet.device_cases import device_case, device_view, our_devices
from tests.oracle_kubelet.merge_cases import merge_case, merge_view, our_merge
from tests.oracle_kubelet.program import KubeletOracle

MOST_ASKS = 200
"""Go picks among equal devices by chance; ours must be one of its answers."""


@dataclass(frozen=True)
class Kind:
    question: Literal["merge", "devices"]
    generate: Callable[[int], Case]
    ours: Callable[[Case], Answer]
    view: Callable[[Answer], Answer]


MERGE = Kind("merge", merge_case, our_merge, merge_view)
DEVICES = Kind("devices", device_case, our_devices, device_view)


@dataclass
class Report:
    """`varying` counts cases to which the oracle had another answer at first."""

    outcomes: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    varying: int = 0

    def __str__(self) -> str:
        lines = [f"{count:7} {name}" for name, count in self.outcomes.most_common()]
        lines.append(
            f"{self.outcomes.total()} outcomes, {len(self.differences)} cases differ, "
            f"{self.varying} to which the oracle has several answers"
        )
        return "\n".join([*lines, *self.differences[:3]])


def compare(kind: Kind, seeds: Iterable[int]) -> Report:
    report = Report()
    with KubeletOracle(kind.question) as oracle:
        for seed in seeds:
            case = kind.generate(seed)
            ours = kind.view(kind.ours(case))
            first = theirs = kind.view(oracle.ask(case))
            report.outcomes.update(outcomes(first))
            for _ in range(MOST_ASKS if kind is DEVICES else 0):
                if theirs == ours:
                    break
                theirs = kind.view(oracle.ask(case))
            report.varying += first != ours == theirs
            if theirs != ours:
                parts = (("case", case), ("oracle", first), ("ours", ours))
                report.differences.append("\n".join(f"{name}: {json.dumps(part)}" for name, part in parts))
    return report


def outcomes(view: Answer) -> list[str]:
    """What became of each pod of a case, in a few words: without names and numbers."""
    if view["error"]:
        return [view["error"].partition(":")[0]]
    admissions = [view["admission"]] if "admission" in view else view["pods"]
    return [_short(one["message"]) or "admitted" for one in admissions]


def _short(message: str) -> str:
    words = message.removeprefix("Allocate failed due to ").split()
    return " ".join(word for word in words if word.isalpha())


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle_kubelet.compare")
    parser.add_argument("kind", choices=("merge", "devices"))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    options = parser.parse_args(arguments)
    kind = MERGE if options.kind == "merge" else DEVICES
    report = compare(kind, range(options.seed, options.seed + options.count))
    print(report)
    return 1 if report.differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
