from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from dray.errors import ConflictError
from dray.runtime.files.turnlock import TurnLock


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_it_is_taken_and_given_back_without_a_write(tmp_path: Path) -> None:
    path = tmp_path / "turn"
    one, other = TurnLock(path), TurnLock(path)
    one.acquire()
    one.acquire()
    with pytest.raises(ConflictError, match="locked by"):
        other.acquire()
    one.release()
    one.release()
    other.acquire()
    before = path.stat()
    with pytest.raises(ConflictError, match="another process"):
        one.acquire()
    other.release()
    one.acquire()
    after = path.stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)
    one.close()
    other.acquire()
    other.close()


@pytest.mark.parametrize("harm", ["removed", "replaced"])
def test_a_file_that_is_not_the_one_of_before_is_taken_anew(tmp_path: Path, harm: str) -> None:
    path = tmp_path / "turn"
    lock = TurnLock(path)
    lock.acquire()
    lock.release()
    path.unlink()
    if harm == "replaced":
        path.touch()
    lock.acquire()
    with path.open("rb") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    path.unlink()
    lock.acquire()  # while it is held, too
    assert path.exists()
    lock.close()


def test_nothing_stays_open(tmp_path: Path) -> None:
    before = open_files()
    for _ in range(3):
        lock = TurnLock(tmp_path / "turn")
        lock.acquire()
        (tmp_path / "turn").unlink()
        lock.acquire()
        lock.release()
        lock.close()
        lock.close()
    assert open_files() == before
