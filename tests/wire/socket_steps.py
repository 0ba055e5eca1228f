"""Kill a process at every single system call of taking a socket's name, and look at what is left and what a start makes of it.

Arguments: the socket's directory, the directory it is made in, "free" or "taken" (by a dead socket). Prints one JSON object.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
from pathlib import Path

from dray.wire.sockets import dial, listening
from tests.runtime.files.programs.stepping import begin, ptrace_works, step_through

NAME = "s"
MOST = 2000


def work(directory: Path, staging: Path) -> None:
    """What the child does. Nobody else is here, so that nothing is waited for and no loop is needed."""
    served = listening(directory / NAME, mode=0o600, staging=staging)
    entering = served.__aenter__()
    begin()
    with contextlib.suppress(StopIteration):
        entering.send(None)
    assert (os.listdir(directory), os.listdir(staging)) == ([NAME], [])


async def judge(directory: Path, staging: Path) -> str:
    """Empty, or what is wrong after the kill."""
    if foreign := set(os.listdir(directory)) - {NAME}:
        return f"foreign names: {sorted(foreign)}"
    async with listening(directory / NAME, mode=0o600, staging=staging):
        (await dial(directory / NAME)).close()
        served = os.listdir(directory), os.listdir(staging)
    after = os.listdir(directory), os.listdir(staging)
    return "" if (served, after) == (([NAME], []), ([], [])) else f"left behind: {served}, then {after}"


def main() -> None:
    """Steps 1, 2, 3… until the child gets through."""
    directory, staging = Path(sys.argv[1]), Path(sys.argv[2])
    if not ptrace_works():
        print(json.dumps({"skip": "this machine does not let a process ptrace its child"}))
        return
    kills, faults = 0, list[str]()
    while True:
        if sys.argv[3] == "taken":
            with socket.socket(socket.AF_UNIX) as dead:
                dead.bind(str(directory / NAME))
        run = step_through(lambda: work(directory, staging), kill_at=kills + 1)
        if fault := asyncio.run(judge(directory, staging)):
            faults.append(f"step {kills + 1}: {fault}")
        if run.finished or kills == MOST or len(faults) > 5:
            break
        kills += 1
    print(json.dumps({"kills": kills, "faults": faults, "finished": run.finished}))


if __name__ == "__main__":
    main()
