from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from dray.doctor.directories import (
    MIB,
    Directories,
    Directory,
    check_directories,
    filesystem_of,
    look_at_directories,
)
from dray.doctor.places import Entry, Places, State
from tests.doctor.findings_text import text_of, told

ROOM = {"space": (50_000 * MIB, 100_000 * MIB), "inodes": (1_000_000, 2_000_000)}
GOOD = Entry("/var/lib/kubelet", is_directory=True, is_writable=True)


def facts(role: str = "kubelet", entry: Entry = GOOD, *, is_root: bool = True, **more: object) -> Directories:
    return Directories((Directory(role, entry, **{**ROOM, **more}),), is_root)  # type: ignore[arg-type]


def test_a_node_as_it_should_be() -> None:
    assert told(check_directories(facts(filesystem="ext4"))) == {
        ("directory-kubelet", "ok"),
        ("disk-space", "ok"),
    }


@pytest.mark.parametrize(
    ("role", "state", "level"),
    [
        ("kubelet", State.MISSING, "fault"),
        ("device-plugins", State.MISSING, "fault"),
        ("registry", State.MISSING, "warning"),
        ("state", State.MISSING, "ok"),
        ("kubelet", State.DENIED, "note"),
        ("kubelet", State.BROKEN, "fault"),
    ],
)
def test_what_is_not_there(role: str, state: State, level: str) -> None:
    assert (f"directory-{role}", level) in told(check_directories(facts(role, Entry("/x", state))))


def test_rights_are_a_fault_for_root_only() -> None:
    closed = msgspec.structs.replace(GOOD, is_writable=False)
    assert ("directory-kubelet", "fault") in told(check_directories(facts(entry=closed)))
    found = list(check_directories(facts(entry=closed, is_root=False)))
    assert ("directory-kubelet", "note") in told(found)
    assert "run as root" in text_of(found, "directory-kubelet")


def test_file_systems_that_do_not_keep_things() -> None:
    assert ("filesystem-kubelet", "warning") in told(check_directories(facts(filesystem="overlay")))
    assert ("filesystem-state", "warning") in told(check_directories(facts("state", filesystem="tmpfs")))
    assert ("filesystem-cdi", "warning") in told(check_directories(facts("cdi", filesystem="nfs4")))
    assert not any(
        name == "filesystem-cdi" for name, _ in told(check_directories(facts("cdi", filesystem="tmpfs")))
    )


def test_room_and_length() -> None:
    assert ("disk-space", "fault") in told(check_directories(facts(space=(MIB, 100_000 * MIB))))
    assert ("disk-space", "warning") in told(check_directories(facts(space=(900 * MIB, 100_000 * MIB))))
    assert ("disk-inodes", "warning") in told(check_directories(facts(inodes=(3, 2_000_000))))
    long = msgspec.structs.replace(GOOD, path="/" + "x" * 100)
    assert ("socket-length-registry", "fault") in told(check_directories(facts("registry", long)))


def test_the_mount_that_a_path_is_on() -> None:
    mounts = (
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "23 22 0:5 / /var/lib rw shared:1 - xfs /dev/sdb rw\n"
        "24 22 0:6 / /var/lib\\040x rw - nfs4 far:/ rw\nrubbish\n"
    )
    assert filesystem_of("/var/lib/kubelet", mounts) == "xfs"
    assert filesystem_of("/var/lib x/y", mounts) == "nfs4"
    assert filesystem_of("/var/library", mounts) == "ext4"


def test_looked_at_for_real(tmp_path: Path) -> None:
    (tmp_path / "plugins_registry").mkdir()
    (tmp_path / "plugins").write_text("")
    places = Places(kubelet_dir=tmp_path, device_plugin_dir=tmp_path / "none", state_dir=tmp_path / "a" / "b")
    found = look_at_directories(places)
    by_role = {one.role: one for one in found.all}
    assert by_role["registry"].entry.is_writable
    assert by_role["registry"].filesystem
    assert by_role["device-plugins"].entry.state is State.MISSING
    assert by_role["state"].space[1] > 0
    assert found.is_root == (os.geteuid() == 0)
    assert ("directory-plugins", "fault") in told(check_directories(found))
    laptop = look_at_directories(Places(is_laptop=True, data_dir=tmp_path / "d"))
    assert [one.role for one in laptop.all] == ["data"]
