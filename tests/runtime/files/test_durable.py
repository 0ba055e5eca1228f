from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from dray.runtime.files.durable import (
    make_directory,
    open_directory,
    remove_temporaries,
    replace_file,
    temporary_name,
)


def test_a_reader_sees_the_old_content_or_the_new_one(tmp_path: Path) -> None:
    file = tmp_path / "file"
    contents = [letter * 100_000 for letter in (b"a", b"b")]
    file.write_bytes(contents[0])
    seen: set[bytes] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.add(file.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    with open_directory(tmp_path) as directory:
        for number in range(30):
            replace_file(directory, "file", contents[number % 2], mode=0o644)
    done.set()
    reader.join()
    assert seen <= set(contents)
    assert os.listdir(tmp_path) == ["file"]
    assert file.stat().st_mode & 0o777 == 0o644


def test_a_directory_under_the_name_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with open_directory(tmp_path) as directory, pytest.raises(IsADirectoryError):
        replace_file(directory, "taken", b"x", mode=0o600)
    assert os.listdir(tmp_path) == ["taken"]


def test_directories_are_made_with_their_parents_and_only_for_us(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    make_directory(path)
    make_directory(path)
    assert path.stat().st_mode & 0o777 == 0o700
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        make_directory(tmp_path / "file" / "below")


def test_temporary_names_are_hidden_and_never_the_same() -> None:
    names = {temporary_name() for _ in range(1000)}
    assert len(names) == 1000
    assert all(name.startswith(".dray-") and name.endswith(".tmp") for name in names)


def test_what_killed_writers_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in (temporary_name(), temporary_name(), ".other.tmp", "kept.json"):
        (tmp_path / name).touch()
    remove_temporaries(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".other.tmp", "kept.json"]
    remove_temporaries(tmp_path / "nowhere")
