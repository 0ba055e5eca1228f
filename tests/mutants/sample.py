"""The committed files: which mutants are tried, which of them change nothing, and what became of each."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from tests.mutants.mutations import Mutant, is_change, located, mutants, mutated
from tests.mutants.rooms import SEED, SIZE, Room

FOLDER = Path("tests/mutants")
SAMPLE = FOLDER / "sample.tsv"
OUTCOMES = FOLDER / "outcomes.tsv"
EQUIVALENTS = FOLDER / "equivalents.tsv"


def draw(room: Room) -> list[Mutant]:
    """A fair share of the room's mutants, always the same.

    A place counts once for each kind of change: that `+` can become ten other signs does not make it ten times as likely.
    """
    return sorted(islice(_drawn(room, f"{SEED} {room.name}"), SIZE))


def _drawn(room: Room, seed: str) -> Iterator[Mutant]:
    dice = random.Random(seed)
    places: dict[tuple[str, int, int, str], list[Mutant]] = {}
    for path in room.modules():
        for one in mutants(room.name, path):
            places.setdefault(one.place, []).append(one)
    for place in dice.sample(sorted(places), len(places)):
        changes = (one for one in dice.sample(places[place], len(places[place])) if is_change(one))
        yield from islice(changes, 1)


def gone(room: Room) -> list[Mutant]:
    """The rows of the sample whose line is not in the code any more."""
    return [one for one in read_sample() if one.room == room.name and not mutated(one)]


def redraw(room: Room) -> tuple[list[Mutant], list[Mutant]]:
    """The room's rows with others in place of those that are gone, and the others alone.

    They come from the same room and are always the same. No place counts twice, and no key comes twice, of rows that have moved neither.
    """
    lost = set(gone(room))
    sample = [one for one in read_sample() if one.room == room.name]
    kept = [one for one in sample if one not in lost]
    places = {here.place for one in kept if (here := located(one))}
    keys = {one.key for one in sample}
    others = (
        one
        for one in _drawn(room, f"{SEED} {room.name} redrawn")
        if one.place not in places and one.key not in keys
    )
    new = list(islice(others, SIZE - len(kept))) if lost else []
    return sorted(kept + new), new


def write_sample(drawn: Iterable[Mutant]) -> None:
    """Write the sample of all rooms."""
    rows = [
        (one.room, one.module, str(one.line), str(one.column), one.operator, str(one.occurrence), one.text)
        for one in drawn
    ]
    SAMPLE.write_text("".join("\t".join(row) + "\n" for row in rows))


def read_sample() -> list[Mutant]:
    """The sample of all rooms."""
    found = []
    for line in SAMPLE.read_text().splitlines():
        room, module, row, column, operator, occurrence, text = line.split("\t")
        found.append(Mutant(room, module, int(row), int(column), operator, int(occurrence), text))
    return found


def read_equivalents() -> dict[str, str]:
    """Why a mutant is no fault, by its key."""
    if not EQUIVALENTS.exists():
        return {}
    rows = (line.split("\t") for line in EQUIVALENTS.read_text().splitlines() if line)
    return dict(rows)


def forget_gone() -> None:
    """Of rows that are not in the sample any more neither outcome nor reason is kept."""
    keys = {one.key for one in read_sample()}
    rows = [f"{key}\t{why}\n" for key, why in read_equivalents().items() if key in keys]
    EQUIVALENTS.write_text("".join(rows))
    write_outcomes(read_outcomes())


def read_outcomes() -> dict[str, tuple[str, str]]:
    """What became of each mutant in its last run, by its key: the outcome, and the test that met it."""
    if not OUTCOMES.exists():
        return {}
    rows = (line.split("\t") for line in OUTCOMES.read_text().splitlines())
    return {key: (outcome, test) for key, outcome, test in rows}


def write_outcomes(outcomes: dict[str, tuple[str, str]]) -> None:
    """Keep them in the order of the sample; the next run tries the test that met a mutant first."""
    keys = dict.fromkeys(one.key for one in read_sample())
    rows = [(key, *outcomes[key]) for key in keys if key in outcomes]
    OUTCOMES.write_text("".join("\t".join(row) + "\n" for row in rows))
