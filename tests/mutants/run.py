"""One room's run: the record of its tests, then workers that share the mutants."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

from tests.mutants.record import BUILD
from tests.mutants.rooms import Room
from tests.mutants.sample import read_equivalents, read_outcomes, read_sample, write_outcomes
from tests.mutants.worker import KILLED

JOBS = int(os.environ.get("JOBS", "4"))
"""Twice the cores: a mutant that makes a test wait for ever costs time, not work."""


def run(room: Room, which: str = "run") -> None:
    """Try the room's mutants and keep the outcomes: all (`run`), those that were not tried (`new`) or not killed (`again`).

    Survivors and time-outs get more time: a test may have a limit itself.
    """
    only_survivors = which == "again"
    if only_survivors:
        os.environ["MUTANT_SECONDS"] = "25"
    started = time.monotonic()
    _call("record", room.name, *(["newer"] if only_survivors else []))
    recorded = time.monotonic()
    outcomes, idle = read_outcomes(), read_equivalents()
    numbers = [
        number
        for number, one in enumerate(one for one in read_sample() if one.room == room.name)
        if which == "run"
        or (which == "new" and one.key not in outcomes)
        or (only_survivors and one.key not in idle and outcomes.get(one.key, ("", ""))[0] != KILLED)
    ]
    answers = BUILD / f"{room.name}.answers"
    answers.write_text("")
    read, write = os.pipe()
    os.write(write, b"".join(number.to_bytes(4) for number in numbers))
    os.close(write)
    workers = [_start("work", room.name, str(read), str(answers), keep=read) for _ in range(JOBS)]
    os.close(read)
    for worker in workers:
        worker.wait()
    for line in answers.read_text().splitlines():
        key, outcome, test = json.loads(line)
        outcomes[key] = (outcome, test)
    write_outcomes(outcomes)
    tried = len(answers.read_text().splitlines())
    print(
        f"{room.name}: {recorded - started:.0f} s to record the tests, "
        f"{time.monotonic() - recorded:.0f} s for {tried} of {len(numbers)} mutants",
        flush=True,
    )


def _start(*arguments: str, keep: int | None = None) -> subprocess.Popen[bytes]:
    kept = () if keep is None else (keep,)
    command = [sys.executable, "-m", "tests.mutants", *arguments]
    log = (BUILD / f"{arguments[0]}-{arguments[1]}.log").open("ab")
    with log:
        return subprocess.Popen(command, pass_fds=kept, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def _call(*arguments: str) -> None:
    BUILD.mkdir(parents=True, exist_ok=True)
    if _start(*arguments).wait():
        raise SystemExit(f"recording failed, see {BUILD}/{arguments[0]}-{arguments[1]}.log")
