from __future__ import annotations

import os
from pathlib import Path

import pytest

from dray.errors import ConflictError, DeniedError, NotFoundError
from dray.runtime.files.filelock import FileLock


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


@pytest.mark.parametrize("content", [b"", b"12345\n", b"\xff\xfe", b"1" * 100])
def test_whatever_the_file_holds_the_holder_is_told_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "lock"
    holder = FileLock(path)
    holder.acquire()
    path.write_bytes(content)
    with pytest.raises(ConflictError, match=r"locked by (process \d+|another process): stop it"):
        FileLock(path).acquire()
    holder.release()


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
