from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.dra.claims.directories import open_whole
from dray.dra.claims.fresh_files import put_fresh, remove_simple
from dray.errors import InvalidError
from dray.runtime.files.safepath import SafePath

MODES = (0o755, 0o644)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[SafePath]:
    with open_whole(tmp_path / "whole") as opened:
        yield opened


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_it_is_made_with_its_directories(directory: SafePath, tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        assert put_fresh(directory, ("a", "b"), "file", b"one", MODES)
        assert put_fresh(directory, ("a", "c"), "file", b"two", MODES)
    finally:
        os.umask(before)
    found = {path.relative_to(tmp_path / "whole"): path for path in (tmp_path / "whole").rglob("*")}
    assert sorted(map(str, found)) == ["a", "a/b", "a/b/file", "a/c", "a/c/file"]
    assert found[Path("a/b/file")].read_bytes() == b"one"
    modes = {str(name): stat.S_IMODE(path.stat().st_mode) for name, path in found.items()}
    assert modes == {"a": 0o755, "a/b": 0o755, "a/b/file": 0o644, "a/c": 0o755, "a/c/file": 0o644}


@pytest.mark.parametrize("harm", ["file", "link to a file", "link to a directory", "file on the way"])
def test_what_is_in_the_way_is_left_alone(directory: SafePath, tmp_path: Path, harm: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    way = tmp_path / "whole" / "a"
    if harm == "link to a directory":
        way.symlink_to(outside)
    elif harm == "file on the way":
        way.touch()
    else:
        way.mkdir()
        (way / "file").touch() if harm == "file" else (way / "file").symlink_to(outside / "made")
    assert not put_fresh(directory, ("a",), "file", b"data", MODES)
    assert list(outside.iterdir()) == []


def test_what_was_made_is_removed(directory: SafePath, tmp_path: Path) -> None:
    put_fresh(directory, ("a", "b"), "file", b"one", MODES)
    put_fresh(directory, ("a", "c"), "file", b"two", MODES)
    assert remove_simple(directory, "a", ["b", "c"], "file")
    assert list((tmp_path / "whole").iterdir()) == []
    assert not remove_simple(directory, "a", ["b"], "file")


@pytest.mark.parametrize("harm", ["another file", "another directory", "a link", "a link below"])
def test_what_else_is_there_stays(directory: SafePath, tmp_path: Path, harm: str) -> None:
    outside = tmp_path / "outside"
    (outside / "b").mkdir(parents=True)
    (outside / "b" / "file").touch()
    here = tmp_path / "whole" / "a"
    if harm == "a link":
        here.symlink_to(outside)
    else:
        put_fresh(directory, ("a", "b"), "file", b"one", MODES)
    if harm == "a link below":
        (here / "c").symlink_to(outside / "b")
    elif harm == "another file":
        (here / "b" / "more").touch()
    elif harm == "another directory":
        (here / "d").mkdir()
    assert not remove_simple(directory, "a", ["b", "c"] if "below" in harm else ["b"], "file")
    assert os.path.lexists(here)
    assert (outside / "b" / "file").exists()


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "a\0"])
def test_a_name_is_one_part(directory: SafePath, name: str) -> None:
    with pytest.raises(InvalidError):
        put_fresh(directory, (name,), "file", b"", MODES)
    with pytest.raises(InvalidError):
        put_fresh(directory, ("a",), name, b"", MODES)
