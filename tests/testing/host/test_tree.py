from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from dray.errors import InvalidError, NotFoundError
from dray.testing.host.tree import Attribute, Directory, Link, Tree, link_text, ro, rw, wo
from tests.waiting import PATIENCE


@pytest.mark.parametrize(
    ("name", "target", "text"),
    [
        ("sys/bus/pci/devices/a", "sys/devices/pci0/a", "../../../devices/pci0/a"),
        ("sys/devices/pci0/a/driver", "sys/bus/pci/drivers/x", "../../../bus/pci/drivers/x"),
        ("sys/devices/pci0/a/physfn", "sys/devices/pci0/b", "../b"),
        ("sys/devices/pci0/a/vfio-dev/vfio0/device", "sys/devices/pci0/a", "../../../a"),
        ("sys/class/misc/kvm", "sys/devices/virtual/misc/kvm", "../../devices/virtual/misc/kvm"),
    ],
)
def test_links_read_as_the_kernel_writes_them(name: str, target: str, text: str) -> None:
    assert link_text(name, target) == text


def test_a_directory_is_placed_whole(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.place(
        "sys/a", {"x": ro(1), "deep/y": rw("two"), "go": wo(0o220), "l": Link("sys/b"), "empty": Directory()}
    )
    assert (tmp_path / "sys/a/x").read_text() == "1\n"
    assert (tmp_path / "sys/a/deep/y").read_text() == "two\n"
    assert (tmp_path / "sys/a/go").stat().st_mode & 0o777 == 0o220
    assert os.readlink(tmp_path / "sys/a/l") == "../b"
    assert list((tmp_path / "sys/a/empty").iterdir()) == []
    assert list((tmp_path / ".staging").iterdir()) == []


def test_remove_takes_files_links_and_directories_and_minds_nothing_else(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.place("sys/a", {"x": ro(1)})
    tree.link("sys/l", "sys/a")
    for name in ("sys/l", "sys/a", "sys/a", "sys/never"):
        tree.remove(name)
    assert list((tmp_path / "sys").iterdir()) == []


def test_a_reader_never_sees_a_half_written_attribute(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    long, short = "x" * 4000, "y"
    tree.write("f", Attribute(long))
    stop = threading.Event()
    seen: set[str] = set()

    def read() -> None:
        while not stop.is_set():
            seen.add((tmp_path / "f").read_text())

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(300):
        tree.write("f", Attribute(short))
        tree.write("f", Attribute(long))
    stop.set()
    reader.join(PATIENCE)
    assert seen <= {long, short}


def test_names_are_taken_as_users_write_them(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    assert tree.name("/dev/kvm") == tree.name("dev/kvm") == tree.name(tmp_path / "dev" / "kvm") == "dev/kvm"
    for bad in ("/", "../etc/passwd", "dev/../../x"):
        with pytest.raises(InvalidError, match="not below"):
            tree.name(bad)


def test_require_names_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="sys/nothing"):
        Tree(tmp_path).require("sys/nothing")
