from __future__ import annotations

import os
from pathlib import Path

import pytest

from dray.errors import Error
from dray.runtime.files.removal import remove_tree


def test_what_is_not_there_is_fine(tmp_path: Path) -> None:
    remove_tree(tmp_path / "no")
    remove_tree(tmp_path / "no" / "no")


def test_a_file_and_a_link_are_removed_themselves(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "link").symlink_to("kept")
    (tmp_path / "file").touch()
    for name in ("link", "file"):
        remove_tree(tmp_path / name)
    assert [path.name for path in tmp_path.rglob("*")] == ["kept", "file"]


@pytest.mark.parametrize("depth", [1, 31, 32, 33, 34, 70])
def test_any_depth(tmp_path: Path, depth: int) -> None:
    deep = tmp_path / "tree" / "/".join(f"d{number}" for number in range(depth))
    deep.mkdir(parents=True)
    for path in (deep, *deep.parents[:depth]):
        (path / "file").touch()
        (path / "link").symlink_to(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    remove_tree(tmp_path / "tree")
    assert list(tmp_path.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == before


def test_directories_closed_to_their_owner(tmp_path: Path, not_root: None) -> None:
    (tmp_path / "tree" / "a" / "b").mkdir(parents=True)
    (tmp_path / "tree" / "a").chmod(0)
    remove_tree(tmp_path / "tree")
    assert list(tmp_path.iterdir()) == []


def test_what_the_kernel_refuses_is_told_with_its_path(not_root: None) -> None:
    with pytest.raises(Error, match="cannot remove '/proc/self"):
        remove_tree(Path("/proc/self/fdinfo"))
