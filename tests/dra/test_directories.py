from __future__ import annotations

import stat
from pathlib import Path

import pytest

from dray.dra.claims.directories import (
    meant,
    open_below,
    open_whole,
    put_entry,
    read_entry,
    remove_entry,
    under_way,
)
from dray.errors import DeniedError, Error, InvalidError


def test_directories_are_made_with_their_modes(tmp_path: Path) -> None:
    with open_whole(tmp_path / "run" / "cdi"), open_below(tmp_path / "data", "a/b", 0o755):
        pass
    assert stat.S_IMODE((tmp_path / "run" / "cdi").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "data/a/b").stat().st_mode) == 0o755


def test_a_parent_may_be_a_link_and_the_directory_may_not(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "var-run").symlink_to("run")
    with open_whole(tmp_path / "var-run" / "cdi") as directory:
        put_entry(directory, "a", b"1", 0o644)
    assert (tmp_path / "run/cdi/a").read_bytes() == b"1"
    (tmp_path / "run" / "link").symlink_to("cdi")
    (tmp_path / "run" / "dangling").symlink_to("nowhere")
    for name in ("link", "dangling"):
        with pytest.raises(DeniedError, match="symbolic link"), open_whole(tmp_path / "run" / name):
            pass
    assert not (tmp_path / "run" / "nowhere").exists()


def test_files_are_put_read_and_removed(tmp_path: Path) -> None:
    with open_whole(tmp_path / "cdi") as directory:
        assert read_entry(directory, "a", 10) is None
        (tmp_path / "cdi" / under_way("a")).write_bytes(b"left by a killed process")
        put_entry(directory, "a", b"12345", 0o640)
        assert read_entry(directory, "a", 10) == b"12345"
        assert stat.S_IMODE((tmp_path / "cdi/a").stat().st_mode) == 0o640
        with pytest.raises(InvalidError, match="more than 3 bytes"):
            read_entry(directory, "a", 3)
        (tmp_path / "cdi" / under_way("a")).touch()
        remove_entry(directory, "a")
        remove_entry(directory, "a")
        assert directory.listdir() == []
        for name in ("../a", "a/b", "..", ""):
            with pytest.raises(InvalidError):
                put_entry(directory, name, b"", 0o600)


def test_a_link_in_place_of_a_file_is_replaced_itself(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("mine")
    with open_whole(tmp_path / "cdi") as directory:
        for name in ("a", under_way("a")):
            (tmp_path / "cdi" / name).symlink_to(tmp_path / "target")
        put_entry(directory, "a", b"1", 0o600)
    assert (tmp_path / "target").read_text() == "mine"
    assert not (tmp_path / "cdi/a").is_symlink()


def test_names_of_files_on_their_way() -> None:
    assert [meant(name) for name in (under_way("a.yaml"), "a.yaml", ".hidden", "a.tmp")] == [
        "a.yaml",
        "a.yaml",
        ".hidden",
        "a.tmp",
    ]


def test_our_own_directory_is_no_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "elsewhere")
    with (
        pytest.raises(DeniedError, match="it is a symbolic link; remove it"),
        open_below(tmp_path / "data", "a"),
    ):
        pass
    assert list((tmp_path / "elsewhere").iterdir()) == []
    (tmp_path / "data").unlink()
    with open_below(tmp_path / "data", "a"):
        assert (tmp_path / "data/a").is_dir()


def test_a_directory_that_cannot_be_made_is_told_as_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Error, match="make the directory"), open_whole(tmp_path / "file" / "cdi"):
        pass
