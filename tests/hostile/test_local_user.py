"""Another user of the machine: sees nothing of what Dray keeps, and chooses nothing of where it is kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dray.errors import DeniedError
from dray.runtime.files.private import make_private

OURS = ("store.db",)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_a_new_directory_is_ours_alone(tmp_path: Path) -> None:
    make_private(tmp_path / "a" / "b", OURS, flag="--data-dir")
    assert (mode(tmp_path / "a"), mode(tmp_path / "a" / "b")) == (0o700, 0o700)


@pytest.mark.parametrize("before", [0o755, 0o777, 0o750, 0o701])
@pytest.mark.parametrize("inside", ["", "store.db"])
def test_one_that_was_open_is_closed(tmp_path: Path, before: int, inside: str) -> None:
    path = tmp_path / "data"
    path.mkdir()
    path.chmod(before)
    if inside:
        (path / inside).touch()
    make_private(path, OURS, flag="--data-dir")
    assert mode(path) == 0o700


def test_one_that_is_closed_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.mkdir(mode=0o500)
    (path / "other").mkdir() if os.geteuid() == 0 else None
    make_private(path, OURS, flag="--data-dir")
    assert mode(path) == 0o500


@pytest.mark.parametrize(("before", "inside"), [(0o755, "mail"), (0o1777, ""), (0o1777, "store.db")])
def test_a_directory_of_others_is_not_closed_to_them(tmp_path: Path, before: int, inside: str) -> None:
    """--data-dir /tmp by mistake: the machine would stop."""
    path = tmp_path / "shared"
    path.mkdir()
    path.chmod(before)
    if inside:
        (path / inside).touch()
    with pytest.raises(DeniedError, match=r"give a --data-dir of its own, or close it \(chmod 700\)"):
        make_private(path, OURS, flag="--data-dir")
    assert mode(path) == before


def test_one_whose_name_says_whose_it_is_is_closed_whatever_is_in_it(tmp_path: Path) -> None:
    """The directory of a DRA driver, which an earlier driver of that name has used."""
    path = tmp_path / "gpu.example.com"
    path.mkdir(mode=0o755)
    (path / "checkpoint.json").touch()
    make_private(path, None, flag="--kubelet-dir")
    assert mode(path) == 0o700
    path.chmod(0o1777)
    with pytest.raises(DeniedError, match="give a --kubelet-dir of its own"):
        make_private(path, None, flag="--kubelet-dir")


def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may give a directory away")
    path = tmp_path / "theirs"
    path.mkdir(mode=0o700)
    os.chown(path, 12345, 12345)
    with pytest.raises(DeniedError, match="belongs to user 12345, and this process is user 0"):
        make_private(path, OURS, flag="--data-dir")
    assert mode(path) == 0o700
