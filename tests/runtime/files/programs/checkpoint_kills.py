"""Kill a process that saves without pause, at random moments, and look at what its successor finds.

Arguments: directory, number of kills, seed. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from dray.runtime.files.checkpoint import Checkpoint
from dray.runtime.files.checkpoint_format import Format

FORMAT = Format(bytes)


def state(number: int) -> bytes:
    """A state that can be checked as a whole; its size differs from one number to the next."""
    return b"%d " % number * (1 + (number * 7919) % 20000)


def save_for_ever(path: Path, acknowledge: int) -> None:
    """The child: go on from what is there, and tell of each number after its save returned."""
    with Checkpoint(path, FORMAT) as checkpoint:
        number = int((checkpoint.load().data or b"0 ").split(maxsplit=1)[0])
        while True:
            number += 1
            checkpoint.save(state(number))
            os.write(acknowledge, b"%d\n" % number)


def live_and_die(path: Path, saves: int, rest: float) -> int | None:
    """One child's life: killed `rest` seconds after it told of `saves` saves. Its last acknowledged number."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            save_for_ever(path, writer)
        finally:
            os._exit(3)
    os.close(writer)
    with os.fdopen(reader, "rb") as acknowledged:
        lines = [acknowledged.readline() for _ in range(saves)]
        time.sleep(rest)
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSIGNALED(status):
            raise SystemExit(f"the child ended by itself with status {status}")
        lines += acknowledged.read().splitlines()
    return int(lines[-1]) if lines else None


def main() -> None:
    """Kill after kill on the same file."""
    path, kills, rng = Path(sys.argv[1]) / "state", int(sys.argv[2]), random.Random(int(sys.argv[3]))
    known, faults = 0, list[str]()
    for kill in range(kills):
        known = live_and_die(path, rng.randrange(4), rng.uniform(0, 0.004)) or known
        leftovers = len(list(path.parent.iterdir()))
        with Checkpoint(path, FORMAT) as checkpoint:
            loaded = checkpoint.load()
        found = int((loaded.data or b"0 ").split(maxsplit=1)[0])
        # One more than acknowledged is fine: killed between the save and the word about it.
        if loaded.set_aside or found not in (known, known + 1) or (found and loaded.data != state(found)):
            faults.append(f"kill {kill}: acknowledged {known}, found {found}, {loaded.set_aside}")
        if leftovers > 3:
            faults.append(f"kill {kill}: {leftovers} files are left")
        known = found
    print(json.dumps({"kills": kills, "saves": known, "faults": faults}))


if __name__ == "__main__":
    main()
