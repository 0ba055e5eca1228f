from __future__ import annotations

import os
from pathlib import Path

import pytest

from dray.runtime.files import syscalls


def test_statx_agrees_with_stat(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    directory = os.open(tmp_path, os.O_PATH)
    try:
        for name in ("file", "link"):
            wanted = (tmp_path / name).lstat()
            found = syscalls.statx(name, dir_fd=directory)
            assert (found.mode, found.device, found.inode) == (wanted.st_mode, wanted.st_dev, wanted.st_ino)
        assert (
            syscalls.statx("link", dir_fd=directory, follow=True).inode == (tmp_path / "file").stat().st_ino
        )
        assert syscalls.statx("", dir_fd=directory).inode == tmp_path.stat().st_ino
        with pytest.raises(FileNotFoundError):
            syscalls.statx("nothing", dir_fd=directory)
    finally:
        os.close(directory)


def test_file_systems_without_birth_times_give_zero() -> None:
    directory = os.open("/proc", os.O_PATH)
    try:
        assert syscalls.statx("self", dir_fd=directory).birth_ns == 0
    finally:
        os.close(directory)


def test_descriptors_do_not_leak_into_programs(tmp_path: Path) -> None:
    descriptor = syscalls.inotify_init()
    try:
        assert not os.get_inheritable(descriptor)
        with pytest.raises(FileNotFoundError, match="nothing"):
            syscalls.inotify_add_watch(descriptor, str(tmp_path / "nothing"), 0x100)
        with pytest.raises(OSError):
            syscalls.inotify_rm_watch(descriptor, 77)
    finally:
        os.close(descriptor)
