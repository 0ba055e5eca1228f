"""What a manager keeps on the disk, and what a kill leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dray.drivers.mdev.manager import MdevManager
from dray.drivers.mdev.situation import Wishes
from dray.testing.host import Host, MdevParent, MdevType
from tests.drivers.mdev.managed_host import THEIRS, Time, new_manager, types

WANTED = Wishes(("nvidia-223", "nvidia-222"))


def test_a_new_process_knows_what_is_ours_and_a_new_boot_forgets(
    host: Host, parents: list[MdevParent], tmp_path: Path
) -> None:
    def once(wishes: Wishes, state: str = "state") -> int:
        with new_manager(host, tmp_path / state) as manager:
            return len(manager.step(wishes).changed)

    assert once(Wishes(("nvidia-223",))) == 4
    assert once(Wishes(("nvidia-223",))) == 0
    assert once(Wishes(), state="other") == 0  # not ours, as far as that file knows
    assert once(Wishes()) == 4
    once(Wishes(("nvidia-222",)))
    host.file("/proc/sys/kernel/random/boot_id", "boot-2\n")
    assert once(Wishes()) == 0
    assert types(host, parents) == [["nvidia-222"] * 3] * 2


def test_a_second_process_with_the_same_file_changes_nothing(
    host: Host, parents: list[MdevParent], manager: MdevManager, tmp_path: Path
) -> None:
    manager.step(Wishes(("nvidia-223",)))
    with new_manager(host, tmp_path / "state") as second:
        step = second.step(Wishes())
        assert step.again_in == 2.0 and step.changed == ()
        assert "no mediated device is changed" in step.problems[0].message
        assert second.step(Wishes()).again_in == 4.0
        manager.__exit__()
        assert len(second.step(Wishes()).removed) == 4


def test_a_disk_that_is_full_stops_creation_and_nothing_else(
    host: Host, parents: list[MdevParent], manager: MdevManager, tmp_path: Path, clock: Time
) -> None:
    manager.step(Wishes(("nvidia-223",)))
    room = tmp_path / "state" / ".mdevs.tmp"
    room.mkdir()  # the new state has no place
    step = manager.step(Wishes())
    assert types(host, parents) == [[], []] and "mdevs" in step.unsaved
    step = manager.step(Wishes(("nvidia-222",)))
    assert not step.created and step.again_in == 2.0 and step.problems
    room.rmdir()
    clock.seconds += 2
    step = manager.step(Wishes(("nvidia-222",)))
    assert len(step.created) == 6 and not step.unsaved


def test_a_damaged_file_is_told_and_nothing_is_removed(
    host: Host, parents: list[MdevParent], tmp_path: Path
) -> None:
    with new_manager(host, tmp_path / "state") as manager:
        manager.step(Wishes(("nvidia-223",)))
    (tmp_path / "state/mdevs").write_bytes(b"?")
    with new_manager(host, tmp_path / "state") as manager:
        step = manager.step(Wishes(("nvidia-222",)))
        assert step.changed == () and "never removed" in step.lost


def test_a_directory_that_cannot_be_used_is_a_problem_of_the_step(
    host: Host, parents: list[MdevParent], tmp_path: Path
) -> None:
    (tmp_path / "state").write_text("no directory")
    with new_manager(host, tmp_path / "state") as manager:
        step = manager.step(Wishes(("nvidia-223",)))
        assert step.problems and step.again_in == 2.0
        (tmp_path / "state").unlink()
        assert len(manager.step(Wishes(("nvidia-223",))).created) == 4


def test_a_machine_without_ids_or_mdevs_is_fine(tmp_path: Path) -> None:
    host = Host(tmp_path / "root")
    with new_manager(host, tmp_path / "state") as manager:
        assert manager.step(Wishes(("nvidia-223",))).unplaced == ("nvidia-223",)


def test_a_boot_id_that_cannot_be_read_forgets_nothing(
    host: Host, parents: list[MdevParent], tmp_path: Path
) -> None:
    with new_manager(host, tmp_path / "state") as manager:
        manager.step(Wishes(("nvidia-223",)))
    host.unreadable("/proc/sys/kernel/random/boot_id")
    with new_manager(host, tmp_path / "state") as manager:
        assert "boot_id" in manager.step(Wishes()).problems[0].message
        host.vanish("/proc/sys/kernel/random/boot_id")
        host.file("/proc/sys/kernel/random/boot_id", "boot-1\n")
        assert len(manager.step(Wishes()).removed) == 4


# Kills.

PROGRAM = """
import os, signal, sys
from pathlib import Path
from dray.drivers.mdev.manager import MdevManager
from dray.drivers.mdev.situation import Wishes
from dray.hardware.change.executor import Executor
from dray.hardware.host_root import HostRoot

root, state, desired, left = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3].split(), int(sys.argv[4])

def trace(event, arguments):
    global left
    if event in ("os.rename", "os.remove", "os.mkdir") or event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

with MdevManager(HostRoot(root), state, Executor(root, lambda entry: None, isolate=False).apply) as manager:
    sys.addaudithook(trace)
    manager.step(Wishes(tuple(desired)))
"""


@pytest.mark.parametrize("calls", [1, 2, 3, 5, 7, 11])
def test_a_kill_at_any_call_is_repaired_by_the_next_process(
    host: Host, parents: list[MdevParent], tmp_path: Path, calls: int
) -> None:
    """Killed right before a file is opened for writing, renamed or removed: the state's, or one of sysfs."""
    mtty = host.mdev_parent("mtty", {"mtty-1": MdevType(4)})
    mtty.create("mtty-1", THEIRS)
    for desired in ("nvidia-223 nvidia-222", "nvidia-222"):
        program = [
            sys.executable,
            "-c",
            PROGRAM,
            str(host.root),
            str(tmp_path / "state"),
            desired,
            str(calls),
        ]
        ended = subprocess.run(
            program, timeout=60, check=False, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        )
        assert ended.returncode == -signal.SIGKILL
        host.settle()
    with new_manager(host, tmp_path / "state") as manager:
        manager.step(WANTED)
        assert sorted(map(tuple, types(host, parents))) in (
            [("nvidia-222",) * 3] * 2,
            [("nvidia-222",) * 3, ("nvidia-223",) * 2],
        )
        manager.step(Wishes())
        assert types(host, parents) == [[], []] and list(mtty.mdevs) == [THEIRS]
