"""Kill a process at every single system call of a checkpoint's save and load, and look at what is left.

Arguments: directory, scenario, "kill" or "trace" (only list the calls). Prints one JSON object.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from dray.runtime.files.checkpoint import Checkpoint, Loaded
from dray.runtime.files.checkpoint_format import Format
from tests.runtime.files.programs.stepping import begin, step_through_all

OLD, NEW = b"old state " * 1000, b"new state " * 2000
DAMAGED = b"dray-checkpoint/1 sha256:" + b"0" * 64 + b"\nversion 1\nnot what was written"


def prepare(directory: Path, scenario: str) -> None:
    """The disk before the child starts."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    if scenario in ("replace", "leftover"):
        with Checkpoint(directory / "state", Format(bytes)) as checkpoint:
            checkpoint.load()
            checkpoint.save(OLD)
    if scenario == "leftover":
        (directory / ".state.tmp").write_bytes(b"half a sta")
    if scenario in ("damaged", "damaged again"):
        (directory / "state").write_bytes(DAMAGED)
    for day in range(1, 8 if scenario == "damaged again" else 0):
        (directory / f"state.corrupt-2020010{day}T000000Z-0").write_bytes(b"older")


def work(directory: Path) -> None:
    """What the child does: a whole life of a writer."""
    begin()
    with Checkpoint(directory / "state", Format(bytes)) as checkpoint:
        checkpoint.load()
        checkpoint.save(NEW)


def reload(directory: Path) -> Loaded[bytes]:
    """What its successor finds."""
    with Checkpoint(directory / "state", Format(bytes)) as checkpoint:
        return checkpoint.load()


def judge(directory: Path, scenario: str, finished: bool) -> str:
    """Empty, or what is wrong after the kill."""
    loaded = reload(directory)
    allowed = {NEW} if finished else {NEW, OLD if scenario in ("replace", "leftover") else None}
    if loaded.data not in allowed:
        return f"unexpected state {loaded!r:.200}"
    names = {path.name for path in directory.iterdir()}
    aside = {name for name in names if ".corrupt-" in name}
    if names - aside - {"state", "state.lock"}:
        return f"left behind: {sorted(names)}"
    if scenario == "damaged again":
        return judge_again(directory, aside)
    if scenario == "damaged":
        kept = [(directory / name).read_bytes() for name in aside]
        return "" if kept == [DAMAGED] else f"the damaged file was not kept once: {sorted(names)}"
    return f"set aside for no reason: {loaded.set_aside}" if aside or loaded.set_aside else ""


def judge_again(directory: Path, aside: set[str]) -> str:
    """The damaged file is kept, and the newest of the older ones; a kill leaves more of these, never fewer."""
    kept = sorted((directory / name).read_bytes() for name in aside)
    if kept.count(DAMAGED) != 1 or not 4 <= kept.count(b"older") <= 7:
        return f"not kept as it should be: {sorted(aside)}"
    newest = {f"state.corrupt-2020010{day}T000000Z-0" for day in range(4, 8)}
    return "" if newest <= aside else f"newer ones were removed: {sorted(aside)}"


if __name__ == "__main__":
    step_through_all(prepare, lambda directory, _: work(directory), judge)
