from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dray.errors import (
    ConflictError,
    DeniedError,
    Error,
    HardwareError,
    InvalidError,
    InvariantError,
    UnavailableError,
)
from dray.runtime.clock import FakeClock
from dray.runtime.files.checkpoint import Checkpoint, Loaded
from dray.runtime.files.checkpoint_format import Format
from tests.campaign import campaign
from tests.runtime.files.conftest import RunProgram


class Holds(msgspec.Struct, frozen=True):
    holders: dict[str, str] = {}
    count: int = 0


HOLDS = Format(Holds)
FIRST, SECOND = Holds({"b": "1", "a": "2"}, 2), Holds({"c": "3"}, 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "var" / "lib" / "holds"


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """A directory on a tmpfs, if there is one: for tests that save a lot and do not ask what the disk does."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        yield Path(directory)


def put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def load(path: Path, layout: Format[Any] = HOLDS) -> Loaded[Any]:
    with Checkpoint(path, layout, clock=FakeClock()) as checkpoint:
        return checkpoint.load()


def save(path: Path, data: Any, layout: Format[Any] = HOLDS) -> None:
    with Checkpoint(path, layout, clock=FakeClock()) as checkpoint:
        checkpoint.load()
        checkpoint.save(data)


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.parent.iterdir())


# --- the ordinary life ---------------------------------------------------------------------------------------------


def test_a_first_start_finds_nothing_and_reports_nothing(path: Path) -> None:
    assert load(path) == Loaded(None, None)


def test_what_was_saved_last_is_loaded_and_only_the_owner_may_read_it(path: Path) -> None:
    old = os.umask(0)
    try:
        with Checkpoint(path, HOLDS) as checkpoint:
            checkpoint.load()
            checkpoint.save(FIRST)
            checkpoint.save(SECOND)
    finally:
        os.umask(old)
    assert load(path) == Loaded(SECOND)
    assert names(path) == ["holds", "holds.lock"]
    assert path.stat().st_mode & 0o7777 == 0o600
    assert path.parent.stat().st_mode & 0o7777 == 0o700


def test_raw_bytes_are_stored_as_they_are(path: Path) -> None:
    raw = Format(bytes)
    save(path, b"\x00\xff\n", raw)
    assert path.read_bytes().endswith(b"\nversion 1\n\x00\xff\n")
    assert load(path, raw) == Loaded(b"\x00\xff\n")


def test_the_operators_recipe_for_the_checksum_holds(path: Path) -> None:
    save(path, FIRST)
    command = f"tail -n +2 {path} | sha256sum | cut -d' ' -f1"
    shown = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout.strip()
    assert path.read_text().startswith(f"dray-checkpoint/1 sha256:{shown}\n")


def test_saving_before_loading_is_our_own_bug(path: Path) -> None:
    with Checkpoint(path, HOLDS) as checkpoint, pytest.raises(InvariantError, match="before it was loaded"):
        checkpoint.save(FIRST)


def test_a_thread_that_saves_after_the_end_changes_nothing(path: Path) -> None:
    save(path, FIRST)
    checkpoint = Checkpoint(path, HOLDS)
    checkpoint.open()
    checkpoint.__exit__()
    before = path.read_bytes()
    with pytest.raises(UnavailableError, match="it is closed; the previous state is kept"):
        checkpoint.save(SECOND)
    assert path.read_bytes() == before
    with checkpoint, pytest.raises(InvariantError, match="before it was loaded"):
        checkpoint.save(FIRST)


def test_too_large_a_state_is_refused_and_the_old_one_stays(path: Path) -> None:
    small = Format(bytes, max_size=200)
    save(path, b"fits", small)
    with pytest.raises(InvalidError, match="more than the limit of 200"):
        save(path, b"x" * 200, small)
    assert load(path, small).data == b"fits"


def test_a_cleared_directory_is_made_anew(path: Path) -> None:
    with Checkpoint(path, HOLDS) as checkpoint:
        checkpoint.load()
        checkpoint.save(FIRST)
        for entry in path.parent.iterdir():
            entry.unlink()
        path.parent.rmdir()
        checkpoint.save(SECOND)
        with pytest.raises(ConflictError):
            load(path)
    assert load(path).data == SECOND


def test_threads_take_turns(path: Path) -> None:
    with Checkpoint(path, HOLDS) as checkpoint:
        checkpoint.load()
        threads = [threading.Thread(target=checkpoint.save, args=(Holds(count=n),)) for n in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert load(path).data in [Holds(count=n) for n in range(20)]
    assert names(path) == ["holds", "holds.lock"]


# --- files that cannot be used -------------------------------------------------------------------------------------


GOOD = HOLDS.encode(FIRST)
WRONG = {
    "empty": b"",
    "not a checkpoint": b"hello\n",
    "first line": GOOD[:40],
    "first line ": GOOD[:89] + b" " + GOOD[90:],
    "checksum": GOOD[:-1],
    "checksum ": GOOD + b" ",
    "checksum  ": GOOD.replace(b"version 1", b"version 2"),
    "does not fit": Format(bytes).encode(b'{"count": "many"}'),
    "does not fit ": Format(bytes).encode(b"not json"),
    "newer than 1": Format(Holds, version=7).encode(FIRST),
    "larger than the limit": b"x" * (HOLDS.max_size + 1),
}


@pytest.mark.parametrize("reason", WRONG)
def test_a_useless_file_is_set_aside_whole_and_told(path: Path, reason: str) -> None:
    put(path, WRONG[reason])
    loaded = load(path)
    aside = loaded.set_aside
    assert loaded.data is None
    assert aside is not None and aside.moved_to is not None
    assert reason.strip() in aside.reason
    assert str(path) in str(aside) and aside.moved_to in str(aside) and "\n" not in str(aside)
    assert Path(aside.moved_to).read_bytes() == WRONG[reason]
    assert names(path) == ["holds.corrupt-20300101T000000Z-0", "holds.lock"]
    assert load(path) == Loaded(None, None)


def test_the_newest_of_the_files_set_aside_stay(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(12):
        put(path, b"damaged %d" % number)
        load(path)
        aside = [name for name in names(path) if ".corrupt-" in name]
        oldest = max(0, number - 4)
        expected = {f"holds.corrupt-20300101T000000Z-{n}" for n in range(oldest, number + 1)}
        assert set(aside) == expected
    kept = [path.with_name(f"holds.corrupt-20300101T000000Z-{n}").read_bytes() for n in range(7, 12)]
    assert kept == [b"damaged %d" % n for n in range(7, 12)]
    removed = [record for record in caplog.records if "removed" in record.getMessage()]
    assert len(removed) == 7


def test_what_was_just_set_aside_stays_though_the_clock_went_back(path: Path) -> None:
    later = [f"holds.corrupt-2031010{day}T000000Z-0" for day in range(1, 9)]
    for name in later:
        put(path.with_name(name), b"of a clock that was wrong")
    put(path, b"damaged")
    aside = load(path).set_aside
    assert aside is not None and aside.moved_to is not None
    assert Path(aside.moved_to).read_bytes() == b"damaged"
    assert names(path) == ["holds.corrupt-20300101T000000Z-0", *later[4:], "holds.lock"]


def test_only_files_set_aside_of_this_checkpoint_are_removed(path: Path) -> None:
    others = [
        "holds.corrupt-20200101T000000Z-0.gz",
        "holds.corrupt-mine",
        "holdsXcorrupt-20200101T000000Z-0",
        "other.corrupt-20200101T000000Z-0",
    ]
    for name in others:
        put(path.with_name(name), b"kept")
    path.with_name("holds.corrupt-20200101T000000Z-0").mkdir()  # was a directory under the checkpoint's name
    for number in range(7):
        put(path, b"damaged %d" % number)
        assert load(path).set_aside is not None
    assert set(others) | {"holds.corrupt-20200101T000000Z-0"} < set(names(path))
    # A directory is never removed: somebody may have put something there.
    assert sum(name.startswith("holds.corrupt-2030") for name in names(path)) == 5


def test_every_single_flipped_bit_is_noticed(in_memory: Path) -> None:
    path = in_memory / "holds"
    for position in range(len(GOOD)):
        damaged = bytearray(GOOD)
        damaged[position] ^= 1 << (position % 8)
        put(path, bytes(damaged))
        assert load(path).data is None, position


@pytest.mark.parametrize("kind", ["directory", "fifo", "socket", "symlink", "dangling symlink"])
def test_something_else_under_the_name_is_set_aside_too(path: Path, tmp_path: Path, kind: str) -> None:
    path.parent.mkdir(parents=True)
    target = tmp_path / "target"
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
    else:
        path.symlink_to(target)
        if kind == "symlink":
            target.write_bytes(GOOD)
    loaded = load(path)
    assert loaded.data is None and loaded.set_aside is not None and loaded.set_aside.moved_to is not None
    assert os.path.lexists(loaded.set_aside.moved_to)
    save(path, SECOND)
    assert load(path).data == SECOND
    if kind == "symlink":
        assert target.read_bytes() == GOOD


@settings(
    max_examples=campaign(150, 30_000),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    content=st.one_of(
        st.binary(max_size=300),
        st.builds(
            lambda at, junk: GOOD[:at] + junk + GOOD[at + len(junk) :],
            st.integers(0, len(GOOD)),
            st.binary(max_size=20),
        ),
        st.binary(max_size=100).map(Format(bytes).encode),
    )
)
def test_random_bytes_never_raise_and_are_never_lost(in_memory: Path, content: bytes) -> None:
    path = in_memory / "state"
    put(path, content)
    loaded = load(path)
    if loaded.set_aside is None:
        assert loaded.data is not None
        return
    assert loaded.set_aside.moved_to is not None
    moved = Path(loaded.set_aside.moved_to)
    assert moved.read_bytes() == content
    moved.unlink()  # the example is over; keeps the directory small


def test_deep_nesting_is_only_a_useless_file(path: Path) -> None:
    put(path, Format(bytes).encode(b"[" * 100_000))
    loaded = load(path, Format(dict))
    assert loaded.data is None and loaded.set_aside is not None


# --- versions ------------------------------------------------------------------------------------------------------


def test_an_older_file_is_brought_up_step_by_step(path: Path) -> None:
    save(path, b"3", Format(bytes, version=1))
    current = Format(
        Holds,
        version=3,
        migrations={1: lambda old: b'{"n":%s}' % old, 2: lambda old: old.replace(b"n", b"count")},
    )
    assert load(path, current) == Loaded(Holds(count=3))
    save(path, Holds(count=4), current)
    assert load(path, current) == Loaded(Holds(count=4))


def test_an_older_file_without_a_way_up_is_set_aside(path: Path) -> None:
    save(path, b"3", Format(bytes, version=1))
    aside = load(path, Format(Holds, version=3, migrations={2: bytes})).set_aside
    assert aside is not None and "nothing leads from version 1 to 2" in aside.reason


def test_a_failing_migration_is_told(path: Path) -> None:
    def refuse(_: bytes) -> bytes:
        raise InvalidError("holders must be a map")

    save(path, b"3", Format(bytes, version=1))
    aside = load(path, Format(Holds, version=2, migrations={1: refuse})).set_aside
    assert aside is not None and "migration from version 1 failed: holders must be a map" in aside.reason


# --- two writers ---------------------------------------------------------------------------------------------------


def test_a_second_process_is_refused_with_the_holders_pid(path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from dray.runtime.files.checkpoint import Checkpoint\n"
        "from dray.runtime.files.checkpoint_format import Format\n"
        "with Checkpoint(Path(sys.argv[1]), Format(bytes)) as c: print('in', flush=True); sys.stdin.read()"
    )
    argv = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"in\n"
        with pytest.raises(ConflictError, match=rf"locked by process {holder.pid}\b"):
            load(path)
        holder.kill()
        holder.wait()
        assert load(path) == Loaded(None)


def test_one_that_follows_another_reads_at_once_and_writes_when_that_one_has_ended(path: Path) -> None:
    first, second = Checkpoint(path, HOLDS), Checkpoint(path, HOLDS)
    first.open()
    first.save(FIRST)
    first_half = path.with_name(f".{path.name}.tmp")
    first_half.write_bytes(b"the first one is just writing")
    assert second.follow() == Loaded(FIRST)
    assert first_half.exists()
    with pytest.raises(ConflictError):
        second.save(SECOND)
    first.__exit__()
    second.save(SECOND)
    second.__exit__()
    with Checkpoint(path, HOLDS) as third:
        assert third.load() == Loaded(SECOND)


def test_a_useless_file_of_the_one_that_is_followed_is_left_alone(path: Path) -> None:
    first, second = Checkpoint(path, HOLDS), Checkpoint(path, HOLDS)
    first.open()
    put(path, b"garbage")
    assert second.follow() == Loaded(None)
    assert path.read_bytes() == b"garbage"
    first.__exit__()


def test_a_second_one_in_this_process_is_refused(path: Path) -> None:
    with Checkpoint(path, HOLDS), pytest.raises(ConflictError, match="this process itself"):
        load(path)


# --- a disk that refuses -------------------------------------------------------------------------------------------

FAILING = [
    ("write", errno.ENOSPC, UnavailableError, "disk is full"),
    ("write", errno.EDQUOT, UnavailableError, "quota"),
    ("write", errno.EIO, HardwareError, "I/O error"),
    ("fsync", errno.ENOSPC, UnavailableError, "disk is full"),
    ("fsync", errno.EIO, HardwareError, "I/O error"),
    ("close", errno.EDQUOT, UnavailableError, "quota"),
    ("close", errno.ENOSPC, UnavailableError, "disk is full"),
    ("rename", errno.EROFS, UnavailableError, "read-only"),
    ("rename", errno.EACCES, DeniedError, "permission"),
    ("fchmod", errno.EPERM, DeniedError, "not permitted"),
]


@pytest.mark.parametrize(("call", "code", "kind", "text"), FAILING)
def test_what_the_disk_refuses_is_told_and_the_old_state_stays(
    path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int, kind: type[Error], text: str
) -> None:
    real_write, real_close = os.write, os.close

    def fail(*arguments: Any, **_: Any) -> None:
        if call == "close":
            real_close(arguments[0])
        if call == "write":
            real_write(arguments[0], bytes(arguments[1])[:5])
        raise OSError(code, os.strerror(code))

    with Checkpoint(path, HOLDS) as checkpoint:
        checkpoint.load()
        checkpoint.save(FIRST)
        with monkeypatch.context() as patched:
            patched.setattr(os, call, fail)  # the kernel's answer, not one of ours
            with pytest.raises(kind, match=text) as caught:
                checkpoint.save(SECOND)
        assert str(path) in str(caught.value)
        assert names(path) == ["holds", "holds.lock"]
    assert load(path) == Loaded(FIRST)
    save(path, SECOND)
    assert load(path) == Loaded(SECOND)


def test_a_directory_that_cannot_be_synced_is_told_though_the_new_state_is_there(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def fail_on_directories(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EIO, "disk on fire")
        real(descriptor)

    save(path, FIRST)
    monkeypatch.setattr(os, "fsync", fail_on_directories)
    with pytest.raises(HardwareError, match=r"I/O error.*new state may not survive a power cut"):
        save(path, SECOND)
    monkeypatch.undo()
    assert load(path) == Loaded(SECOND)


def test_a_real_limit_on_the_file_size_leaves_the_old_state(path: Path) -> None:
    program = (
        "import resource, sys; from pathlib import Path; from dray.runtime.files.checkpoint import Checkpoint\n"
        "from dray.runtime.files.checkpoint_format import Format; from dray.errors import Error\n"
        "with Checkpoint(Path(sys.argv[1]), Format(bytes)) as c:\n"
        "    c.load(); c.save(b'old'); resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "    try: c.save(b'n' * 5000)\n"
        "    except Error as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    assert (
        f"cannot save 5100 bytes to {str(path)!r}: File too large; the previous state is kept" in done.stdout
    )
    assert load(path, Format(bytes)) == Loaded(b"old")
    assert names(path) == ["holds", "holds.lock"]


def test_a_file_we_may_not_read_is_an_error_and_stays(path: Path, not_root: None) -> None:
    save(path, FIRST)
    path.chmod(0)
    with pytest.raises(DeniedError, match="permission denied"):
        load(path)
    path.chmod(0o600)
    assert load(path) == Loaded(FIRST)


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidError, match="make the directory"):
        load(tmp_path / "file" / "below" / "state")


def test_a_really_full_disk_at_every_amount_of_free_space(
    tmp_path: Path, run_program: RunProgram, namespace_prefix: tuple[str, ...]
) -> None:
    result = run_program("checkpoint_full_disk", tmp_path, prefix=namespace_prefix)
    assert result["faults"] == []
    assert 20 < result["refused"] < result["tried"]


# --- kills ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", ["first", "replace", "leftover", "damaged", "damaged again"])
def test_a_kill_at_every_system_call_leaves_a_whole_state(
    in_memory: Path, run_program: RunProgram, scenario: str
) -> None:
    result = run_program("checkpoint_steps", in_memory / "d", scenario, "kill")
    assert result["faults"] == []
    assert result["kills"] > 40


def test_the_file_is_synced_before_the_rename_and_the_directory_after(
    tmp_path: Path, run_program: RunProgram
) -> None:
    """Kills cannot show what a power cut does; the order in which the kernel was asked can."""
    calls = run_program("checkpoint_steps", tmp_path / "d", "replace", "trace")["calls"]
    if not calls:
        pytest.skip("system calls of this architecture have no names here")
    written = next(at for at, (name, _) in enumerate(calls) if name == "write")
    file = calls[written][1]
    rest = [call for call in calls[written:] if call[0] in ("write", "fsync", "rename")]
    assert [name for name, _ in rest] == ["write", "fsync", "rename", "fsync"]
    assert rest[1][1] == file
    directory = rest[3][1]
    assert directory == rest[2][1] != file


def test_random_kills_never_lose_an_acknowledged_state(tmp_path: Path, run_program: RunProgram) -> None:
    result = run_program("checkpoint_kills", tmp_path, campaign(30, 2000), 20261115)
    assert result["faults"] == []
    assert result["saves"] > result["kills"]
