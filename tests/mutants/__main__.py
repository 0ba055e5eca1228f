"""`make mutants`: change the code of a room in one place at a time, and see whether its tests notice.

draw          write the sample (once, before the tests are changed)
gone ROOM…    print the rows of the sample whose line is not in the code any more; exit status 1 where there are some
redraw ROOM…  put others in their place, always the same, and print them: `run` or `new` tries them
run ROOM…     try the mutants of the sample, all rooms where none is named, and print the table
again ROOM…   try only those that no test killed in the last run, with more time for each test
new ROOM…     try only those that were not tried yet
table         print the table of the last runs
survivors     print what no test met and nobody called equivalent, what was not tried, and what is gone
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.mutants.record import Calm, record
from tests.mutants.report import survivors, table
from tests.mutants.rooms import ROOMS, rooms
from tests.mutants.run import run
from tests.mutants.sample import draw, forget_gone, gone, read_sample, redraw, write_sample
from tests.mutants.worker import work


def main(arguments: list[str]) -> int:
    """One of the commands above, or one that they start."""
    command, names = arguments[0] if arguments else "", arguments[1:]
    match command:
        case "draw":
            write_sample(mutant for room in ROOMS for mutant in draw(room))
        case "gone":
            lost = [one for room in rooms(names) for one in gone(room)]
            print(*(f"{one.room}\t{one.key}\t{one.text}" for one in lost), sep="\n")
            return 1 if lost else 0
        case "redraw":
            drawn = {room.name: redraw(room) for room in rooms(names)}
            others = [one for one in read_sample() if one.room not in drawn]
            whole = [*others, *(one for rows, _ in drawn.values() for one in rows)]
            order = [room.name for room in ROOMS]
            write_sample(sorted(whole, key=lambda one: (order.index(one.room), one)))
            forget_gone()
            print(
                *(f"{one.room}\t{one.key}\t{one.text}" for _, new in drawn.values() for one in new), sep="\n"
            )
        case "run" | "again" | "new":
            for room in rooms(names):
                run(room, command)
            print(table())
        case "table":
            print(table())
        case "survivors":
            print(survivors(names))
        case "record":
            record(rooms(names[:1])[0], only_newer=names[1:] == ["newer"])
        case "work":
            work(names[0], int(names[1]), Path(names[2]))
        case "fresh":
            return int(pytest.main(names, plugins=[Calm()]))
        case _:
            print(__doc__)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
