"""Several processes add to one shared checkpoint at once, some are killed: no number that was told may be lost.

Arguments: directory, number of processes, additions of each, seed. Prints one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import msgspec

from dray.runtime.files.checkpoint_format import Format
from dray.runtime.files.shared_checkpoint import Lost, SharedCheckpoint
from dray.runtime.threads import Threads


class Names(msgspec.Struct, frozen=True):
    """What was added, by name."""

    names: dict[str, int] = {}


def rescue(lost: Lost[Names]) -> Names:
    """Nothing was there."""
    return lost.last or Names()


def adding(name: str) -> object:
    """One change."""
    return lambda state: (Names({**state.names, name: state.names.get(name, 0) + 1}), None)


async def add(path: Path, prefix: str, count: int, acknowledge: int) -> None:
    """The child: ten at once, each told after it is durable."""
    async with SharedCheckpoint(path, Format(Names), rescue, Threads()) as checkpoint:

        async def one(number: int) -> None:
            name = f"{prefix}-{number}"
            await checkpoint.change(adding(name))  # type: ignore[arg-type]
            os.write(acknowledge, f"{name}\n".encode())

        for start in range(0, count, 10):
            await asyncio.gather(*(one(number) for number in range(start, min(start + 10, count))))


def main() -> None:
    """Half of the processes are killed."""
    path, processes, count = Path(sys.argv[1]) / "state", int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(int(sys.argv[4]))
    reader, writer = os.pipe()
    pids = []
    for number in range(processes):
        pid = os.fork()
        if pid == 0:
            try:
                asyncio.run(add(path, f"p{number}", count, writer))
                os._exit(0)
            finally:
                os._exit(3)
        pids.append(pid)
    os.close(writer)
    for pid in pids[::2]:
        time.sleep(rng.random() * 0.1)
        os.kill(pid, signal.SIGKILL)
    with os.fdopen(reader) as lines:
        told = [line.strip() for line in lines]
    ends = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    state = Format(Names).decode(path.read_bytes())
    print(
        json.dumps(
            {
                "lost": sorted(set(told) - set(state.names)),
                "twice": sorted(name for name, times in state.names.items() if times > 1),
                "told": len(told),
                "ends": ends,
                "left": sorted(entry.name for entry in path.parent.iterdir()),
            }
        )
    )


if __name__ == "__main__":
    main()
