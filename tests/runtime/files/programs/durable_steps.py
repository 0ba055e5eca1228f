"""Kill a process at every single system call of a durable write, and look at what is left.

Arguments: directory, scenario, "kill" or "trace" (only list the calls). Prints one JSON object.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from dray.runtime.files.durable import (
    create_file,
    open_directory,
    put_in_place,
    remove_temporaries,
    replace_file,
)
from tests.runtime.files.programs.stepping import begin, step_through_all

OLD, NEW = b"old " * 1000, b"new " * 2000
_MODE = 0o640
_TEMPORARY = ".file.tmp"


def prepare(directory: Path, scenario: str) -> None:
    """The disk before the child starts."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    if scenario != "create":
        (directory / "file").write_bytes(OLD)
    if scenario == "put over leftover":
        (directory / _TEMPORARY).write_bytes(b"half")


def write(directory: Path, scenario: str, *, is_traced: bool) -> None:
    """What the child does, and its successor once more."""
    with open_directory(directory) as descriptor:
        if is_traced:
            begin()
        if scenario == "replace":
            replace_file(descriptor, "file", NEW, mode=_MODE)
        elif scenario == "create":
            create_file(descriptor, "file", NEW, mode=_MODE)
        else:
            is_synced = scenario != "put unsynced"
            put_in_place(descriptor, "file", NEW, mode=_MODE, temporary=_TEMPORARY, is_synced=is_synced)


def judge(directory: Path, scenario: str, finished: bool) -> str:
    """Empty, or what is wrong after the kill."""
    file = directory / "file"
    content = file.read_bytes() if file.exists() else None
    before = None if scenario == "create" else OLD
    if content not in ({NEW} if finished else {NEW, before}):
        return f"unexpected content {content!r:.100}"
    if content == NEW and file.stat().st_mode & 0o777 != _MODE:
        return f"mode {file.stat().st_mode:o}"
    left = {path.name for path in directory.iterdir()} - {"file"}
    if len(left) > (0 if finished else 1):
        return f"left behind: {sorted(left)}"
    return judge_successor(directory, scenario, content == NEW)


def judge_successor(directory: Path, scenario: str, is_there: bool) -> str:
    """Who comes next is not in the way of anything, and tidies up."""
    try:
        remove_temporaries(directory)
        write(directory, scenario, is_traced=False)
    except FileExistsError:
        if scenario != "create" or not is_there:
            return "the next writer is refused"
    names = sorted(path.name for path in directory.iterdir())
    if names != ["file"] or (directory / "file").read_bytes() != NEW:
        return f"after the next writer: {names}"
    return ""


if __name__ == "__main__":
    step_through_all(prepare, lambda directory, scenario: write(directory, scenario, is_traced=True), judge)
