from __future__ import annotations

import contextlib
import os
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dray.errors import DeniedError, Error, HardwareError, InvalidError, NotFoundError
from dray.hardware.change import CONTAINER_FILE, Chmod, Chown, Relabel
from dray.hardware.change.access import Access
from dray.hardware.change.executor import AuditEntry, Executor, Outcome
from dray.testing.host import Host
from tests.campaign import campaign

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root may do this")
REPOSITORY = Path(__file__).parents[3]
USB = "/dev/bus/usb/001/002"


@pytest.fixture
def key(host: Host) -> Path:
    return host.usb("1-1", vendor="1050", product="0407").node


def owner(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_uid, status.st_gid


@root_only
def test_chown_and_undo(key: Path, executor: Executor, access: Access) -> None:
    given = executor.apply(Chown(USB, 107, 107))
    assert owner(key) == (107, 107) and given.undo == Chown(USB, 0, 0)
    assert Chown(USB, 107, 107).is_so(access)
    assert not executor.apply(Chown(USB, 107, 107)).changed
    executor.apply(Chown(USB, -1, 108))
    assert owner(key) == (107, 108)
    executor.undo(given)
    assert owner(key) == (0, 0)


def test_chmod_and_undo(key: Path, executor: Executor, access: Access) -> None:
    before = stat.S_IMODE(key.stat().st_mode)
    opened = executor.apply(Chmod(USB, 0o666))
    assert stat.S_IMODE(key.stat().st_mode) == 0o666 and opened.undo == Chmod(USB, before)
    assert Chmod(USB, 0o666).is_so(access)
    assert not executor.apply(Chmod(USB, 0o666)).changed
    executor.undo(opened)
    assert stat.S_IMODE(key.stat().st_mode) == before


@root_only
def test_real_device_nodes(tmp_path: Path) -> None:
    host = Host(tmp_path / "real", real_nodes=True)
    kvm = host.char_device("/dev/kvm", 10, 232)
    Executor(host.root, lambda _: None).apply_all([Chown("/dev/kvm", 107, 36), Chmod("/dev/kvm", 0o660)])
    status = (host.root / "dev/kvm").stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (107, 36, 0o660)
    assert kvm.facts.path == "dev/kvm"


@pytest.mark.parametrize("change", [Chown(USB, 107, 107), Chmod(USB, 0o666), Relabel(USB)])
def test_missing_files_are_named(host: Host, executor: Executor, change: Chown) -> None:
    with pytest.raises(NotFoundError, match=USB):
        executor.apply(change)


@pytest.mark.parametrize("link", [USB, "/dev/bus/usb/001", "/dev/bus"])
@pytest.mark.parametrize("absolute", [True, False])
def test_links_in_dev_are_refused_wherever_they_lead(
    host: Host, key: Path, executor: Executor, link: str, absolute: bool
) -> None:
    """Inside the root too: a link in /dev must not make us give /etc/shadow away."""
    for place in (host.root, host.root.parent):
        (place / "elsewhere/usb/001").mkdir(parents=True)
        for name in ("elsewhere/001", "elsewhere/usb/002", "elsewhere/usb/001/002", "elsewhere/002"):
            (place / name).parent.mkdir(exist_ok=True)
        (place / "elsewhere/usb/001/002").touch(0o600)
    host.vanish(link)
    depth = {USB: "usb/001/002", "/dev/bus/usb/001": "usb/001", "/dev/bus": ""}[link]
    goal = "/elsewhere/" + depth if absolute else "../" * 9 + "elsewhere/" + depth
    host.link(link, goal.rstrip("/"))
    for change in (Chown(USB, 107, 107), Chmod(USB, 0o666), Relabel(USB)):
        with pytest.raises(DeniedError, match="symbolic link"):
            executor.apply(change)
    for place in (host.root, host.root.parent):
        status = (place / "elsewhere/usb/001/002").stat()
        assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (os.geteuid(), 0o600)


@pytest.mark.parametrize("target", ["/run", "../run"])
def test_var_run_is_where_the_host_keeps_it(host: Host, executor: Executor, target: str) -> None:
    directory = host.root / "run/kubevirt"
    directory.mkdir(parents=True)
    host.link("/var/run", target)
    executor.apply(Chmod("/var/run/kubevirt", 0o711))
    assert stat.S_IMODE(directory.stat().st_mode) == 0o711


def test_var_run_that_leads_elsewhere_is_refused(host: Host, executor: Executor) -> None:
    (host.root / "etc").mkdir()
    (host.root / "etc/x").touch()
    host.link("/var/run", "/etc")
    with pytest.raises(DeniedError, match="symbolic link"):
        executor.apply(Chmod("/var/run/x", 0o777))


def test_var_run_as_a_directory(host: Host, executor: Executor) -> None:
    (host.root / "var/run/x").mkdir(parents=True)
    assert executor.apply(Chmod("/var/run/x", 0o711)).changed


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")
def test_a_stranger_is_told_what_is_missing(key: Path, executor: Executor) -> None:
    with pytest.raises((DeniedError, HardwareError), match=rf"{USB}.*(capability|user namespace)"):
        executor.apply(Chown(USB, 0, 0))


@pytest.mark.parametrize(
    "path", ["dev/kvm", "/dev/../etc/passwd", "/dev//kvm", "/", "", "/dev/k\0vm", "/dev/kvm/"]
)
def test_paths(path: str) -> None:
    for make in (lambda: Chown(path, 0, 0), lambda: Chmod(path, 0), lambda: Relabel(path)):
        with pytest.raises(InvalidError, match="path"):
            make()


def test_no_set_id_bits_and_no_silly_numbers() -> None:
    for make in (
        lambda: Chmod("/dev/kvm", 0o4755),
        lambda: Chmod("/dev/kvm", -1),
        lambda: Chown("/dev/kvm", 2**32 - 1, 0),
        lambda: Relabel("/dev/kvm", ""),
    ):
        with pytest.raises(InvalidError):
            make()


# --- labels --------------------------------------------------------------------------------------------------------


@root_only
def test_relabel_files_and_sockets(host: Host, executor: Executor, access: Access) -> None:
    directory = host.root / "run/pr"
    directory.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / "pr-helper.sock"))
        for path in ("/run/pr", "/run/pr/pr-helper.sock"):
            try:
                applied = executor.apply(Relabel(path))
            except HardwareError:
                pytest.skip("this file system keeps no labels")
            assert applied.changed and Relabel(path).is_so(access)
            assert not executor.apply(Relabel(path)).changed
    assert os.getxattr(directory, "security.selinux").rstrip(b"\0").decode() == CONTAINER_FILE
    other = executor.apply(Relabel("/run/pr", "system_u:object_r:device_t:s0"))
    assert other.undo == Relabel("/run/pr", CONTAINER_FILE)


def test_a_label_that_cannot_be_set(entries: list[AuditEntry]) -> None:
    """procfs keeps no labels of ours: fatal where SELinux enforces, reported where it does not."""
    executor = Executor(Path("/proc"), entries.append)
    with pytest.raises(Error, match="/version"):
        executor.apply(Relabel("/version", enforcing=True))
    applied = executor.apply(Relabel("/version", enforcing=False))
    assert not applied.changed and applied.undo is None and "/version" in applied.tolerated
    assert [entry.outcome for entry in entries] == [
        Outcome.STARTED,
        Outcome.FAILED,
        Outcome.STARTED,
        Outcome.TOLERATED,
    ]


# --- an attacker ---------------------------------------------------------------------------------------------------


def test_an_attacker_who_swaps_the_node_never_gets_a_file_of_his_choice(
    host: Host, key: Path, executor: Executor
) -> None:
    victim = host.root.parent / "shadow"
    victim.write_text("secret")
    victim.chmod(0o400)
    inside = host.root / "etc/shadow"
    inside.parent.mkdir()
    inside.write_text("secret")
    inside.chmod(0o400)
    before = [(path.stat().st_ctime_ns, path.stat().st_mode) for path in (victim, inside)]
    (key.parent / "evil").symlink_to(inside)
    me = (12345, 12345) if os.geteuid() == 0 else (os.getuid(), os.getgid())
    argv = [
        sys.executable,
        "-m",
        "tests.runtime.files.programs.path_attacker",
        str(key),
        str(key.parent / "evil"),
    ]
    done = refused = number = 0
    deadline = time.monotonic() + 30
    with subprocess.Popen(argv, cwd=REPOSITORY, stdout=subprocess.PIPE) as attacker:
        assert attacker.stdout is not None
        if not attacker.stdout.readline():
            pytest.skip("this file system cannot swap names")
        while number < campaign(300, 50_000) or (min(done, refused) <= 10 and time.monotonic() < deadline):
            number += 1
            with contextlib.suppress(Error):
                executor.apply(Chown(USB, *me))
            try:
                executor.apply(Chmod(USB, 0o600 | number % 0o100))
                done += 1
            except DeniedError:
                refused += 1
        attacker.kill()
    assert [(path.stat().st_ctime_ns, path.stat().st_mode) for path in (victim, inside)] == before
    assert done > 10 and refused > 10, f"no race took place: {done} done, {refused} refused"
