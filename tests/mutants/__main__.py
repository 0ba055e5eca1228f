"""`make mutants`: change the code of a room in one place at a time, and see whether its tests notice.

draw          write the sample (once, before the tests are changed)
run ROOM…     try the mutants of the sample, all rooms where none is named, and print the table
again ROOM…   try only those that no test killed in the last run, with more time for each test
table         print the table of the last runs
survivors     print what no test met and nobody called equivalent
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.mutants.record import Calm, record
from tests.mutants.report import survivors, table
from tests.mutants.rooms import ROOMS, rooms
from tests.mutants.run import run
from tests.mutants.sample import draw, write_sample
from tests.mutants.worker import work


def main(arguments: list[str]) -> int:
    """One of the commands above, or one that they start."""
    command, names = arguments[0] if arguments else "", arguments[1:]
    match command:
        case "draw":
            write_sample(mutant for room in ROOMS for mutant in draw(room))
        case "run" | "again":
            for room in rooms(names):
                run(room, only_survivors=command == "again")
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
