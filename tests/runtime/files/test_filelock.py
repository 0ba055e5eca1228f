from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dray.errors import ConflictError, DeniedError, NotFoundError
from dray.runtime.files.filelock import FileLock
from dray.runtime.files.turnlock import TurnLock


def test_one_holds_it_at_a_time(tmp_path: Path) -> None:
    one, other = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    one.acquire()
    one.acquire()
    assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
    with pytest.raises(ConflictError, match="this process itself"):
        other.acquire()
    one.release()
    one.release()
    other.acquire()
    other.release()


HOLD = """
import sys
from pathlib import Path
from dray.runtime.files.filelock import FileLock
lock = FileLock(Path(sys.argv[1]))
lock.acquire()
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_by_another(path: Path) -> Iterator[int]:
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process.pid


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "another process"),
        (b"\xff\xfe", "another process"),
        (b"1" * 100, f"process {'1' * 32} of another container"),
        (b"%d\n" % os.getppid(), f"process {os.getppid()}"),
        (b"%d\n" % os.getpid(), f"process {os.getpid()} of another container"),
        (b"4194305\n", "process 4194305 of another container"),  # more than the kernel gives
    ],
    ids=["empty", "no text", "too long", "another one", "our own number", "nobody's number"],
)
def test_whatever_the_file_holds_the_holder_is_told_in_one_line(
    tmp_path: Path, content: bytes, told: str
) -> None:
    path = tmp_path / "lock"
    with held_by_another(path) as pid:
        assert path.read_text() == f"{pid}\n"
        path.write_bytes(content)
        with pytest.raises(ConflictError) as caught:
            FileLock(path).acquire()
        assert str(caught.value).startswith(f"{str(path)!r} is locked by {told}: stop it first")


def test_a_turn_that_was_given_back_is_not_ours(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    turn = TurnLock(path)
    turn.acquire()
    with pytest.raises(ConflictError, match="locked by this process itself"):
        FileLock(path).acquire()
    turn.release()
    with held_by_another(path) as pid, pytest.raises(ConflictError, match=f"locked by process {pid}:"):
        FileLock(path).acquire()
    turn.close()


def test_a_removed_lock_file_is_taken_anew(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    one, other = FileLock(path), FileLock(path)
    one.acquire()
    path.unlink()
    other.acquire()
    with pytest.raises(ConflictError):
        one.acquire()
    other.release()
    one.acquire()
    one.release()


def test_a_link_or_a_missing_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DeniedError, match="symbolic link"):
        FileLock(tmp_path / "link").acquire()
    assert not (tmp_path / "elsewhere").exists()
    with pytest.raises(NotFoundError, match="missing"):
        FileLock(tmp_path / "missing" / "lock").acquire()
