from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dray.dra.claims.directories import open_whole
from dray.dra.claims.kept_directory import KeptDirectory
from dray.errors import DeniedError
from dray.runtime.files.safepath import SafePath


class Opened:
    """A directory, and how often it was opened."""

    def __init__(self, path: Path) -> None:
        self.path, self.count = path, 0
        self.kept = KeptDirectory(path, self.opener)

    @contextmanager
    def opener(self) -> Iterator[SafePath]:
        self.count += 1
        with open_whole(self.path) as directory:
            yield directory

    def inode(self) -> int:
        with self.kept.opened() as directory:
            return directory.stat().st_ino


def test_it_is_opened_once_and_given_back(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    one = Opened(tmp_path / "cdi")
    assert one.inode() == one.inode() == (tmp_path / "cdi").stat().st_ino
    assert one.count == 1
    one.kept.close()
    one.kept.close()
    assert len(os.listdir("/proc/self/fd")) == before
    one.inode()
    assert one.count == 2
    one.kept.close()


def test_another_directory_at_the_path_is_opened_anew(tmp_path: Path) -> None:
    one = Opened(tmp_path / "cdi")
    first = one.inode()
    (tmp_path / "cdi").rename(tmp_path / "old")
    assert one.inode() == (tmp_path / "cdi").stat().st_ino != first
    (tmp_path / "cdi").rmdir()
    (tmp_path / "cdi").symlink_to(tmp_path / "old")
    with pytest.raises(DeniedError, match="symbolic link"):
        one.inode()
    (tmp_path / "cdi").unlink()
    assert one.inode()
    one.kept.close()


def test_who_comes_meanwhile_has_one_of_his_own(tmp_path: Path) -> None:
    one = Opened(tmp_path / "cdi")
    with one.kept.opened() as first, one.kept.opened() as second:
        assert first.fileno() != second.fileno()
        assert first.stat().st_ino == second.stat().st_ino
    assert one.count == 2
    one.kept.close()
