from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from dray.errors import InvalidError
from dray.kubelet.pods.object_files import ObjectFile, check_files, write_files

NOW = datetime(2026, 11, 18, 16, 30, tzinfo=UTC)


def written(path: Path, **files: str) -> set[str]:
    """Write them (two underscores are a slash); what is there then, hidden names too."""
    wanted = [ObjectFile(name.replace("__", "/"), text.encode(), 0o640) for name, text in files.items()]
    write_files(path, check_files("v", wanted), NOW)
    return {one.name for one in path.iterdir()}


def version(path: Path) -> Path:
    return (path / "..data").resolve()


def test_the_layout_of_every_kubelet(tmp_path: Path) -> None:
    names = written(tmp_path, a="1", d__b="2", d__e__c="3")
    hidden = version(tmp_path)
    assert names == {"a", "d", "..data", hidden.name}
    assert hidden.name.startswith("..2026_11_18_16_30_00.")
    assert (tmp_path / "a").readlink() == Path("..data/a")
    assert ((tmp_path / "d/b").read_text(), (tmp_path / "d/e/c").read_text()) == ("2", "3")
    assert ((hidden / "a").stat().st_mode & 0o777, hidden.stat().st_mode & 0o777) == (0o640, 0o755)


def test_what_is_so_already_is_left_as_it_is(tmp_path: Path) -> None:
    written(tmp_path, a="1", d__b="2")
    before = version(tmp_path)
    written(tmp_path, a="1", d__b="2")
    assert version(tmp_path) == before


@pytest.mark.parametrize("files", [{"a": "2"}, {"a": "1", "b": ""}, {}, {"a__b": "1"}])
def test_a_change_is_a_new_version_and_the_old_one_goes(tmp_path: Path, files: dict[str, str]) -> None:
    written(tmp_path, a="1")
    before = version(tmp_path)
    names = written(tmp_path, **files)
    assert version(tmp_path) != before
    assert names == {*(name.split("__")[0] for name in files), "..data", version(tmp_path).name}
    for name, text in files.items():
        assert (tmp_path / name.replace("__", "/")).read_text() == text


def test_who_has_the_old_version_open_reads_it_whole(tmp_path: Path) -> None:
    written(tmp_path, a="1", b="1")
    with (tmp_path / "a").open() as a, (tmp_path / "b").open() as b:
        written(tmp_path, a="2", b="2")
        assert (a.read(), b.read()) == ("1", "1")


def test_what_was_changed_or_left_by_a_kill_is_put_right(tmp_path: Path) -> None:
    written(tmp_path, a="1")
    (version(tmp_path) / "a").chmod(0o666)
    (version(tmp_path) / "a").write_text("9")
    (tmp_path / "..2020_01_01_00_00_00.aaa").mkdir()
    (tmp_path / "..data_tmp").symlink_to("..2020_01_01_00_00_00.aaa")
    assert written(tmp_path, a="1") == {"a", "..data", version(tmp_path).name}
    assert (tmp_path / "a").read_text() == "1"


def test_a_file_cannot_be_a_directory_too() -> None:
    files = [ObjectFile("a", b"", 0o644), ObjectFile("a/b", b"", 0o644)]
    with pytest.raises(InvalidError, match="'a' is a file, and 'a/b' lies below it"):
        check_files("v", files)
