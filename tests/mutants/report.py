"""The figures of docs/mutants.md."""

from __future__ import annotations

from collections import Counter

from tests.mutants.mutations import Mutant
from tests.mutants.rooms import ROOMS
from tests.mutants.sample import read_equivalents, read_outcomes, read_sample
from tests.mutants.worker import GONE, KILLED, TIMED_OUT


def outcome(mutant: Mutant, outcomes: dict[str, tuple[str, str]], idle: dict[str, str]) -> str:
    """What counts: a mutant that a test meets is killed, whatever was written about it."""
    last = outcomes.get(mutant.key, ("not tried", ""))[0]
    if last in (KILLED, TIMED_OUT, GONE, "not tried"):
        return last
    return "equivalent" if mutant.key in idle else "survived"


def table() -> str:
    """One row a room. The share is killed / (mutants - equivalent); a time-out is not killed."""
    outcomes, idle = read_outcomes(), read_equivalents()
    rows = [
        "| room | mutants | killed | timed out | equivalent | survived | share killed | with time-outs |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for room in ROOMS:
        count = Counter(outcome(one, outcomes, idle) for one in read_sample() if one.room == room.name)
        total = sum(count.values()) - count[GONE]
        faults = total - count["equivalent"]
        left = faults - count[KILLED] - count[TIMED_OUT]
        figures = [total, count[KILLED], count[TIMED_OUT], count["equivalent"], left]
        shares = [
            f"{100 * met / max(faults, 1):.1f} %" for met in (count[KILLED], count[KILLED] + count[TIMED_OUT])
        ]
        rows.append(f"| {room.name} | {' | '.join([*map(str, figures), *shares])} |")
    return "\n".join(rows)


def survivors(names: list[str]) -> str:
    """The mutants to read: file, line, operator and the line's text."""
    outcomes, idle = read_outcomes(), read_equivalents()
    return "\n".join(
        f"{one.key}\t{outcomes.get(one.key, ('not tried', ''))[0]}\t{one.text}"
        for one in read_sample()
        if (not names or one.room in names) and outcome(one, outcomes, idle) in ("survived", "not tried")
    )
