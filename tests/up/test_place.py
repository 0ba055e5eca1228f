"""Where `dray up` keeps things, and who counts as running."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from dray.errors import DeniedError, HardwareError, InvalidError, NotFoundError
from dray.kubelet.runtimes.shim import boot_id, start_time
from dray.runtime.files.filelock import FileLock
from dray.up.place import (
    DATA_DIR_BYTES,
    Kept,
    RunningUp,
    Supervising,
    UpPlace,
    default_data_dir,
    find_running,
    lock_holder,
)


def record(**changes: object) -> RunningUp:
    pid = os.getpid()
    known = RunningUp(
        pid=pid,
        start_time=start_time(pid) or 0,
        boot=boot_id(),
        version="1",
        server="https://127.0.0.1:6443",
        kubeconfig="/k",
    )
    return msgspec.structs.replace(known, **changes)


def test_what_runs_is_found_with_the_names_that_others_read(tmp_path: Path) -> None:
    place = UpPlace(tmp_path)
    place.write(record(node="one", sim="laptop"))
    assert find_running(tmp_path) == record(node="one", sim="laptop")
    document = msgspec.json.decode(place.running_file.read_bytes())
    assert {
        "pid",
        "startTime",
        "version",
        "server",
        "kubeconfig",
        "dashboard",
        "node",
        "runtime",
        "sim",
    } <= set(document)
    assert place.running_file.stat().st_mode & 0o777 == 0o600
    place.remove(RunningUp)
    assert find_running(tmp_path) is None
    place.remove(RunningUp)


@pytest.mark.parametrize(
    "changes",
    [{"start_time": 1}, {"boot": "another"}, {"pid": 2**22 + 1}, {"pid": 0}, {"pid": -1}],
    ids=["another process has the number", "another boot", "gone", "zero", "negative"],
)
def test_a_stale_file_counts_as_none(tmp_path: Path, changes: dict[str, object]) -> None:
    UpPlace(tmp_path).write(record(**changes))
    assert find_running(tmp_path) is None


def test_a_process_that_waits_to_be_reaped_does_not_run(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        UpPlace(tmp_path).write(record(pid=child.pid, start_time=start_time(child.pid) or 0))
        assert find_running(tmp_path) is not None
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert find_running(tmp_path) is None
    finally:
        child.kill()
        child.communicate()


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"pid": "x"}', b"\xff"])
def test_a_damaged_file_counts_as_none(tmp_path: Path, text: bytes) -> None:
    place = UpPlace(tmp_path)
    for path in (place.running_file, place.supervisor_file, place.kept_file):
        path.write_bytes(text)
    assert place.read(RunningUp) is None and place.read(Supervising) is None and place.read_kept() is None


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    place = UpPlace(tmp_path)
    assert place.read_kept() is None
    place.write(Kept(node="one", runtime="runc"))
    assert place.read_kept() == Kept(node="one", runtime="runc")


def test_a_newer_file_with_more_in_it_is_understood(tmp_path: Path) -> None:
    place = UpPlace(tmp_path)
    place.write(record())
    document = msgspec.json.decode(place.running_file.read_bytes()) | {"later": {"more": 1}}
    place.running_file.write_bytes(msgspec.json.encode(document))
    assert find_running(tmp_path) == record()


def test_a_directory_too_long_for_sockets_is_refused_with_its_length(tmp_path: Path) -> None:
    fits = Path("/tmp").joinpath("x" * (DATA_DIR_BYTES - len("/tmp/")))
    assert len(str(fits / "kubelet/plugins_registry/iommufd.dray.internal-reg.sock")) == 107
    long = Path(f"{fits}x")
    with pytest.raises(InvalidError, match=f"has {DATA_DIR_BYTES + 1} bytes.* may have {DATA_DIR_BYTES} "):
        UpPlace(long).make()
    assert not long.exists()
    # Bytes count, not characters.
    with pytest.raises(InvalidError, match="choose a shorter one"):
        UpPlace(Path("/tmp") / ("é" * 40)).make()


def test_a_directory_that_cannot_be_made_is_told_with_what_to_do(short: Path) -> None:
    (short / "file").write_text("")
    with pytest.raises((InvalidError, HardwareError, NotFoundError, DeniedError), match="--data-dir"):
        UpPlace(short / "file" / "data").make()
    UpPlace(short / "a" / "b").make()
    assert (short / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_who_holds_a_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert lock_holder(path) is None
    lock = FileLock(path)
    lock.acquire()
    assert lock_holder(path) == os.getpid()
    lock.release()
    assert lock_holder(path) is None


def test_where_things_are_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_data_dir() == Path("/var/lib/dray/up")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert default_data_dir() == Path("/home/me/.local/state/dray")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert default_data_dir() == Path("/home/me/.local/state/dray")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_data_dir() == Path("/state/dray")
