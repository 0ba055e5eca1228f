"""The figures of docs/mutants.md."""

from __future__ import annotations

from collections import Counter

from tests.mutants.mutations import Mutant
from tests.mutants.rooms import ROOMS, rooms
from tests.mutants.sample import gone, read_equivalents, read_outcomes, read_sample
from tests.mutants.worker import GONE, KILLED, TIMED_OUT

NOT_TRIED = "not tried"


def outcome(mutant: Mutant, outcomes: dict[str, tuple[str, str]], idle: dict[str, str]) -> str:
    """What counts: a mutant that a test meets is killed, whatever was written about it."""
    last = outcomes.get(mutant.key, (NOT_TRIED, ""))[0]
    if last in (KILLED, TIMED_OUT, GONE, NOT_TRIED):
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
        total = sum(count.values()) - count[GONE] - count[NOT_TRIED]
        faults = total - count["equivalent"]
        left = faults - count[KILLED] - count[TIMED_OUT]
        figures = [total, count[KILLED], count[TIMED_OUT], count["equivalent"], left]
        shares = [
            f"{100 * met / max(faults, 1):.1f} %" for met in (count[KILLED], count[KILLED] + count[TIMED_OUT])
        ]
        rows.append(f"| {room.name} | {' | '.join([*map(str, figures), *shares])} |")
    left_out = Counter(outcome(one, outcomes, idle) for one in read_sample())
    told = [f"{left_out[name]} {name}" for name in (NOT_TRIED, GONE) if left_out[name]]
    return "\n".join([*rows, *([f"Not counted: {', '.join(told)}"] if told else [])])


def survivors(names: list[str]) -> str:
    """The mutants to read: file, line, operator and the line's text; also those that are gone from the code as it is now."""
    outcomes, idle = read_outcomes(), read_equivalents()
    lost = {one for room in rooms(names) for one in gone(room)}
    return "\n".join(
        f"{one.key}\t{GONE if one in lost else outcomes.get(one.key, (NOT_TRIED, ''))[0]}\t{one.text}"
        for one in read_sample()
        if one in lost
        or ((not names or one.room in names) and outcome(one, outcomes, idle) in ("survived", NOT_TRIED))
    )
