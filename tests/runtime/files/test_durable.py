from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from dray.runtime.files.durable import (
    create_file,
    make_directory,
    open_directory,
    put_in_place,
    remove_temporaries,
    replace_file,
    temporary_name,
    write_durably,
)
from tests.runtime.files.conftest import RunProgram


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


def test_of_several_writers_one_creates_the_file(tmp_path: Path) -> None:
    with open_directory(tmp_path) as directory:
        create_file(directory, "claim", b"first", mode=0o640)
        with pytest.raises(FileExistsError):
            create_file(directory, "claim", b"second", mode=0o600)
        (tmp_path / "link").symlink_to("nowhere")
        with pytest.raises(FileExistsError):
            create_file(directory, "link", b"third", mode=0o600)
    assert (tmp_path / "claim").read_bytes() == b"first"
    assert (tmp_path / "claim").stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(tmp_path)) == ["claim", "link"]


@pytest.mark.parametrize("left", ["file", "link", "fifo"])
def test_what_a_kill_left_under_the_temporary_name_gives_way(tmp_path: Path, left: str) -> None:
    (tmp_path / "mine").write_text("mine")
    temporary = tmp_path / ".file.tmp"
    if left == "file":
        temporary.write_text("half")
    elif left == "link":
        temporary.symlink_to("mine")
    else:
        os.mkfifo(temporary)
    descriptor = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    try:
        put_in_place(descriptor, "file", b"new", mode=0o604, temporary=temporary.name, is_synced=False)
    finally:
        os.close(descriptor)
    assert sorted(os.listdir(tmp_path)) == ["file", "mine"]
    assert ((tmp_path / "file").read_text(), (tmp_path / "mine").read_text()) == ("new", "mine")
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o604


def test_a_directory_under_the_temporary_name_is_an_error_and_nothing_changes(tmp_path: Path) -> None:
    (tmp_path / ".file.tmp").mkdir()
    (tmp_path / "file").write_text("old")
    with pytest.raises(IsADirectoryError):
        put_in_place(None, str(tmp_path / "file"), b"new", mode=0o600, temporary=str(tmp_path / ".file.tmp"))
    assert (tmp_path / "file").read_text() == "old"


def test_by_path_a_link_in_place_of_the_file_is_replaced_itself(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "file").symlink_to("mine")
    write_durably(tmp_path / "file", b"new")
    assert ((tmp_path / "file").read_text(), (tmp_path / "mine").read_text()) == ("new", "mine")
    assert (tmp_path / "file").lstat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("scenario", ["replace", "create", "put", "put unsynced", "put over leftover"])
def test_a_kill_at_every_system_call_leaves_the_old_content_or_the_new_one(
    tmp_path: Path, run_program: RunProgram, scenario: str
) -> None:
    result = run_program("durable_steps", tmp_path / "d", scenario, "kill")
    assert result["faults"] == []
    assert result["kills"] > 8


@pytest.mark.parametrize(
    ("scenario", "calls"),
    [
        ("replace", ["write", "fsync", "rename", "fsync"]),
        ("create", ["write", "fsync", "link", "fsync"]),
        ("put", ["write", "fsync", "rename"]),
        ("put unsynced", ["write", "rename"]),
    ],
)
def test_a_name_appears_when_its_content_is_on_the_disk(
    tmp_path: Path, run_program: RunProgram, scenario: str, calls: list[str]
) -> None:
    """Kills cannot show what a power cut does; the order in which the kernel was asked can."""
    found = run_program("durable_steps", tmp_path / "d", scenario, "trace")["calls"]
    if not found:
        pytest.skip("system calls of this architecture have no names here")
    assert [name for name, _ in found if name in ("write", "fsync", "rename", "link")] == calls


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
