"""Change the disk between any two system calls of a file watch, and see whether it notices.

Arguments: scenario. Prints one JSON object. Every place is tried: one run of the watch for each.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import os
import selectors
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from dray.runtime.files.filewatch import FileWatch
from tests.runtime.files.programs.stepping import begin, ptrace_works, step_through

SECONDS = 10.0


def create(path: Path) -> None:
    path.touch()


def create_with_parent(path: Path) -> None:
    path.parent.mkdir()
    path.touch()


def swap_parent(path: Path) -> None:
    path.parent.rename(path.parents[1] / "away")
    create_with_parent(path)


def replace(path: Path) -> None:
    path.unlink()
    path.touch()


SCENARIOS: dict[str, tuple[bool, bool, Callable[[Path], None]]] = {
    # name: is the parent there before, is the file, and what happens
    "create": (True, False, create),
    "parent": (False, False, create_with_parent),
    "swap": (True, False, swap_parent),
    "replace": (True, True, replace),
}


def tells_the_truth(watch: FileWatch, path: Path) -> bool:
    """In the end the file is always there."""
    entry = watch.snapshot.paths[path]
    try:
        return entry is not None and entry.inode == path.stat().st_ino
    except FileNotFoundError:
        return False


def watching(
    path: Path,
    *,
    seconds: float = SECONDS,
    once: bool = False,
    selector: type[selectors.BaseSelector] = selectors.DefaultSelector,
) -> Callable[[], None]:
    """The child: enter, and wait until the watch tells the truth and the file is there; fails after `seconds`."""

    async def watch_it() -> None:
        begin()
        async with FileWatch([path]) as watch:
            async with asyncio.timeout(seconds):
                while not tells_the_truth(watch, path):
                    await watch.wait_changed()
            first = watch.snapshot
            try:
                second = await asyncio.wait_for(watch.wait_changed(), 0.02) if once else first
            except TimeoutError:
                second = first
        if second != first:
            raise SystemExit("one creation was told twice")

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector())) as runner:
            runner.run(watch_it())

    return run


def stops_until_idle(path: Path) -> int:
    """How many stops the child makes before it has nothing to do but wait: there it ends itself."""
    return step_through(watching(path, seconds=10 * SECONDS, selector=EndAtRest)).stops


class EndAtRest(selectors.DefaultSelector):
    """Of a loop that is over as soon as nothing is due soon."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > SECONDS:
            os._exit(0)
        return super().select(timeout)


def prepare(path: Path, has_parent: bool, has_file: bool) -> None:
    for directory in (path.parent, path.parents[1] / "away"):
        shutil.rmtree(directory, ignore_errors=True)
    if has_parent:
        path.parent.mkdir()
    if has_file:
        path.touch()


def one_change(path: Path, scenario: str) -> tuple[int, list[str]]:
    """The change happens at stop 1, or 2, or 3…"""
    has_parent, has_file, change = SCENARIOS[scenario]
    prepare(path, has_parent, False)
    # The quickest of three: a place that lies behind the rest of a quick run is reached only when that gives up.
    stops = min(stops_until_idle(path) for _ in range(3))
    faults = []
    for place in range(1, stops + 1, 2):  # nothing lies between the end of a call and the start of the next
        changed_at = math.inf

        def interfere(stop: int, place: int = place) -> bool:
            nonlocal changed_at
            if stop == place:
                changed_at = time.monotonic()
                change(path)
            return stop < place

        prepare(path, has_parent, has_file)
        began = time.monotonic()
        run = step_through(watching(path, once=scenario == "create"), interfere=interfere)
        # A quick run has a pause less: it comes to rest before the last place, and gets there only when it gives up.
        if not run.finished and changed_at - began < SECONDS / 2:
            faults.append(f"{scenario} at stop {place} was missed or told twice")
    return stops, faults


def many_changes(path: Path) -> tuple[int, list[str]]:
    """The file comes and goes every few stops, so that no look is left in peace, up to one stop where it stays."""
    faults = []
    for period, last in itertools.product((11, 23), range(100, 300, 16)):

        def interfere(stop: int, period: int = period, last: int = last) -> bool:
            if stop == last or stop % period == 0:
                path.touch()
            if stop < last:
                path.unlink(missing_ok=True)
            return stop < last

        prepare(path, True, False)
        if not step_through(watching(path), interfere=interfere).finished:
            faults.append(f"a change at every {period}th stop: the last one, at {last}, was missed")
    return 300, faults


def main() -> None:
    scenario = sys.argv[1]
    if not ptrace_works():
        print(json.dumps({"skip": "this machine does not let a process ptrace its child"}))
        return
    with tempfile.TemporaryDirectory(prefix="w") as directory:  # short: every parent costs steps
        path = Path(directory) / "a" / "x"
        stops, faults = many_changes(path) if scenario == "many" else one_change(path, scenario)
    print(json.dumps({"stops": stops, "faults": faults}))


if __name__ == "__main__":
    main()
