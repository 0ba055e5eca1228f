"""The archive that the kernel unpacks: written by our own few lines, read here by others."""

from __future__ import annotations

import stat
from pathlib import Path

from dray.testing.machine.initramfs import is_hidden, write_initramfs


def read_archive(data: bytes) -> dict[str, tuple[int, bytes]]:
    """Name to mode and content, by the description in the kernel's `initramfs-buffer-format`."""
    found: dict[str, tuple[int, bytes]] = {}
    at = 0
    while True:
        assert at % 4 == 0
        assert data[at : at + 6] == b"070701"
        fields = [int(data[at + 6 + 8 * number : at + 14 + 8 * number], 16) for number in range(13)]
        size, name_size = fields[6], fields[11]
        name = data[at + 110 : at + 110 + name_size]
        assert name.endswith(b"\0")
        start = (at + 110 + name_size + 3) // 4 * 4
        if name == b"TRAILER!!!\0":
            return found
        found[name[:-1].decode()] = (fields[1], data[start : start + size])
        at = (start + size + 3) // 4 * 4


def written(tmp_path: Path, *needed: Path) -> dict[str, tuple[int, bytes]]:
    busybox, modules = tmp_path / "box", tmp_path / "modules"
    busybox.write_bytes(b"program")
    modules.mkdir()
    (modules / "order").write_text("one\n")
    (modules / "one.ko").write_bytes(b"module")
    write_initramfs(tmp_path / "archive", busybox, modules, needed, ["/a b", "sh", "-c", "echo 'x'; y"])
    return read_archive((tmp_path / "archive").read_bytes())


def test_everything_is_in_it(tmp_path: Path) -> None:
    found = written(tmp_path)
    assert found["bin/busybox"] == (0o100755, b"program")
    assert found["modules/one.ko"][1] == b"module"
    assert found["modules/order"][1] == b"one\n"
    assert found["bin/sh"] == (0o120777, b"busybox")
    assert stat.S_ISDIR(found["host"][0])
    assert stat.S_ISCHR(found["dev/console"][0])
    assert stat.S_IMODE(found["init"][0]) == 0o755


def test_the_script_ends_in_the_first_program(tmp_path: Path) -> None:
    script = written(tmp_path)["init"][1].decode()
    assert script.startswith("#!/bin/sh\n")
    assert script.endswith("exec switch_root /host '/a b' sh -c 'echo '\"'\"'x'\"'\"'; y'\n")


def test_what_lies_below_a_place_of_the_guests_own_is_shown_there(tmp_path: Path) -> None:
    hidden, seen = Path("/tmp/check out"), Path("/usr/lib/python3")
    assert is_hidden(hidden)
    assert not is_hidden(seen)
    script = written(tmp_path, hidden, seen)["init"][1].decode()
    assert (
        "mkdir -p /host'/tmp/check out' && mount -o bind /below'/tmp/check out' /host'/tmp/check out'\n"
        in script
    )
    assert "/usr/lib/python3" not in script
