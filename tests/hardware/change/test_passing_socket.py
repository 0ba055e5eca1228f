from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from dray.errors import ConflictError, DeniedError
from dray.hardware.change.passing_socket import PassingSocket, remove_dead_sockets

DIRECTORY = "/var/run/kubevirt"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def dead_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))


def test_missing_directories_are_made_and_existing_ones_kept(tmp_path: Path) -> None:
    made = PassingSocket(tmp_path, DIRECTORY, "a.sock")
    place = tmp_path / "var/run/kubevirt"
    assert [mode_of(path) for path in (tmp_path / "var", tmp_path / "var/run", place)] == [0o755] * 3
    assert (made.path, mode_of(place / "a.sock")) == ("/var/run/kubevirt/a.sock", 0o666)
    assert stat.S_ISSOCK((place / "a.sock").stat().st_mode)
    place.chmod(0o711)
    other = PassingSocket(tmp_path, DIRECTORY, "b.sock")
    assert mode_of(place) == 0o711
    made.close()
    other.close()
    other.close()
    assert os.listdir(place) == []


def test_var_run_is_run_where_the_host_has_that_link(tmp_path: Path) -> None:
    (tmp_path / "var").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "var/run").symlink_to("../run")
    made = PassingSocket(tmp_path, DIRECTORY, "a.sock")
    assert made.path == "/var/run/kubevirt/a.sock"
    assert os.listdir(tmp_path / "run/kubevirt") == ["a.sock"]
    made.close()
    dead_socket(tmp_path / "run/kubevirt/iommufd-1.sock")
    assert remove_dead_sockets(tmp_path, DIRECTORY, "iommufd-*.sock") == ["/var/run/kubevirt/iommufd-1.sock"]


@pytest.mark.parametrize("link", ["var/run/kubevirt", "var/run", "var"])
def test_a_link_in_place_of_a_directory_is_not_followed(tmp_path: Path, link: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / link).parent.mkdir(parents=True)
    (outside / "run/kubevirt").mkdir(parents=True)
    (outside / "kubevirt").mkdir()
    (root / link).symlink_to(outside)
    dead_socket(outside / "iommufd-1.sock")
    with pytest.raises(DeniedError, match="symbolic link"):
        PassingSocket(root, DIRECTORY, "a.sock")
    with pytest.raises(DeniedError, match="symbolic link"):
        remove_dead_sockets(root, DIRECTORY, "iommufd-*.sock")
    found = sorted(str(path.relative_to(outside)) for path in outside.rglob("*"))
    assert found == ["iommufd-1.sock", "kubevirt", "run", "run/kubevirt"]


def test_a_name_that_is_taken_stays_as_it_is(tmp_path: Path) -> None:
    place = tmp_path / "var/run/kubevirt"
    place.mkdir(parents=True)
    (place / "a.sock").symlink_to("/etc/passwd")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ConflictError):
        PassingSocket(tmp_path, DIRECTORY, "a.sock")
    assert os.listdir(place) == ["a.sock"] and (place / "a.sock").is_symlink()
    assert len(os.listdir("/proc/self/fd")) == before


def test_only_its_own_file_is_removed(tmp_path: Path) -> None:
    place = tmp_path / "var/run/kubevirt"
    replaced, gone = (PassingSocket(tmp_path, DIRECTORY, name) for name in ("a.sock", "b.sock"))
    (place / "a.sock").unlink()
    (place / "a.sock").write_text("somebody else's")
    replaced.close()
    assert (place / "a.sock").read_text() == "somebody else's"
    (place / "b.sock").unlink()
    (place / "a.sock").unlink()
    place.rmdir()
    gone.close()


def test_only_sockets_that_nobody_holds_are_removed(tmp_path: Path) -> None:
    place = tmp_path / "var/run/kubevirt"
    alive = PassingSocket(tmp_path, DIRECTORY, "iommufd-alive.sock")
    for name in ("iommufd-1.sock", "iommufd-2.sock", "virt.sock", ".dray-0123456789ab.tmp"):
        dead_socket(place / name)
    (place / "iommufd-file.sock").write_text("")
    (place / "iommufd-dir.sock").mkdir()
    (place / "iommufd-link.sock").symlink_to("virt.sock")
    with socket.socket(socket.AF_UNIX) as bound:  # not listening yet
        bound.bind(str(place / "iommufd-bound.sock"))
        removed = remove_dead_sockets(tmp_path, DIRECTORY, "iommufd-*.sock")
    names = (".dray-0123456789ab.tmp", "iommufd-1.sock", "iommufd-2.sock")
    assert removed == [f"{DIRECTORY}/{name}" for name in names]
    assert sorted(os.listdir(place)) == [
        "iommufd-alive.sock",
        "iommufd-bound.sock",
        "iommufd-dir.sock",
        "iommufd-file.sock",
        "iommufd-link.sock",
        "virt.sock",
    ]
    with pytest.raises(BlockingIOError):  # it saw no connection
        alive.listener.accept()
    alive.close()


def test_nothing_to_clean(tmp_path: Path) -> None:
    assert remove_dead_sockets(tmp_path, DIRECTORY, "*") == []
