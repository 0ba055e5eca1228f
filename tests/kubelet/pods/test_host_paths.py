from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from dray.errors import DeniedError, InvalidError
from dray.kubelet.pods.host_paths import open_host_path


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """One of each kind, and links to them."""
    (tmp_path / "Directory").mkdir()
    (tmp_path / "File").touch()
    with socket.socket(socket.AF_UNIX) as unbound:
        unbound.bind(str(tmp_path / "Socket"))
    for each in ("Directory", "File", "Socket"):
        (tmp_path / f"to-{each}").symlink_to(each)
    return tmp_path


@pytest.mark.parametrize("prefix", ["", "to-"])
@pytest.mark.parametrize("kind", ["Directory", "File", "Socket", "DirectoryOrCreate", "FileOrCreate", ""])
@pytest.mark.parametrize("name", ["Directory", "File", "Socket"])
def test_what_is_there_is_looked_at_through_its_descriptor(
    host: Path, prefix: str, name: str, kind: str
) -> None:
    """Links that lead to it are followed: the administrator may have put them there."""
    if kind.removesuffix("OrCreate") in ("", name):
        opened = open_host_path(host / f"{prefix}{name}", kind)
        assert opened is not None
        with opened:
            assert os.path.samestat(opened.stat(), (host / name).stat())
        return
    with pytest.raises(InvalidError, match="hostPath type check failed"):
        open_host_path(host / f"{prefix}{name}", kind)


def test_what_is_not_there(host: Path) -> None:
    assert open_host_path(host / "no", "") is None
    with pytest.raises(InvalidError, match="no is not a BlockDevice"):
        open_host_path(host / "no", "BlockDevice")
    with pytest.raises(InvalidError, match=r"hostPath\.type 'Fiel' must be one of"):
        open_host_path(host / "File", "Fiel")


def test_it_is_made_below_what_is_there(host: Path) -> None:
    for path, kind in (("to-Directory/a/b", "DirectoryOrCreate"), ("Directory/file", "FileOrCreate")):
        opened = open_host_path(host / path, kind)
        assert opened is not None
        opened.close()
    assert (host / "Directory/a/b").stat().st_mode & 0o777 == 0o755
    assert (host / "Directory/file").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("kind", ["DirectoryOrCreate", "FileOrCreate"])
def test_nothing_is_made_through_a_link_to_nothing(host: Path, kind: str) -> None:
    """A container that may write to the directory puts it there, to have a file made where it leads."""
    (host / "link").symlink_to(host / "Directory" / "new")
    with pytest.raises(DeniedError, match="is a symbolic link"):
        open_host_path(host / "link", kind)
    assert list((host / "Directory").iterdir()) == []
