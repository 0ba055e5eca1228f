from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import stat
import time
from pathlib import Path

import pytest

from dray.runtime.forked import Limits, Stopped, run_forked
from tests.waiting import wait_until

MANY = Limits(seconds=60.0)


def is_pipe(descriptor: int) -> bool:
    """Whether it is the answer's: the copy has nothing else that is open but the error output."""
    try:
        return descriptor > 2 and stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    except OSError:  # of the listing itself
        return False


async def test_it_knows_all_and_changes_nothing() -> None:
    known = {"a": 1}

    def compute() -> bytes:
        known["a"] += 1
        return f"{known['a']} {os.getpid()}".encode()

    found = await run_forked(compute, MANY)
    assert isinstance(found, bytes)
    number, pid = found.split()
    assert (number, known["a"]) == (b"2", 1)
    assert int(pid) != os.getpid()


@pytest.mark.parametrize("size", [0, 1, 100_000, 5_000_000])
async def test_answers_of_any_size_come_whole(size: int) -> None:
    assert await run_forked(lambda: b"\0" * size, MANY) == b"\0" * size


async def test_one_that_hangs_in_c_is_stopped_while_others_go_on(tmp_path: Path) -> None:
    """Nothing in Python could stop this: the call never returns to the interpreter, which it holds."""
    libc = ctypes.PyDLL(None)
    pid = tmp_path / "pid"

    def hang() -> bytes:
        pid.write_text(str(os.getpid()))
        return bytes(libc.pause())

    patient = asyncio.ensure_future(run_forked(hang, MANY))
    await wait_until(lambda: pid.exists() and pid.read_text())
    assert await run_forked(lambda: b"others go on", MANY) == b"others go on"
    assert not patient.done()
    patient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await patient
    assert await run_forked(lambda: bytes(libc.pause()), Limits(seconds=0.2)) == Stopped("after 0.2 s")


async def test_memory_is_bounded() -> None:
    found = await run_forked(lambda: b"x" * (1 << 30), Limits(seconds=60.0, memory=64 << 20))
    assert found == Stopped("when it needed more than 64 MiB of memory")


async def test_its_bug_is_told_and_stays_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    def compute() -> bytes:
        raise ZeroDivisionError("a bug")

    found = await run_forked(compute, MANY)
    assert isinstance(found, Stopped) and "internal error" in found.why
    assert "ZeroDivisionError: a bug" in capfd.readouterr().err


async def test_one_that_is_killed_has_no_answer() -> None:
    def compute() -> bytes:
        os.kill(os.getpid(), signal.SIGKILL)
        return b"never"

    assert isinstance(await run_forked(compute, MANY), Stopped)


async def test_half_an_answer_is_none() -> None:
    """Killed in the middle of writing it: whatever bytes have come, they are not taken for the whole."""
    for written in range(12):

        def compute(written: int = written) -> bytes:
            (answer,) = (int(one) for one in os.listdir("/proc/self/fd") if is_pipe(int(one)))
            os.write(answer, ((4).to_bytes(8, "big") + b"\0\0\0\0")[:written])
            os.kill(os.getpid(), signal.SIGKILL)
            return b""

        found = await run_forked(compute, MANY)
        assert isinstance(found, Stopped), written


async def test_it_has_no_files_of_ours(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        number = file.fileno()

        def compute() -> bytes:
            return b" ".join(sorted(os.fsencode(one) for one in os.listdir("/proc/self/fd")))

        found = await run_forked(compute, MANY)
    assert isinstance(found, bytes)
    assert str(number).encode() not in found.split() and len(found.split()) <= 3


async def test_it_is_killed_with_whoever_waits(tmp_path: Path) -> None:
    def compute() -> bytes:
        (tmp_path / "pid").write_text(str(os.getpid()))
        time.sleep(1000)
        return b""

    waiting = asyncio.ensure_future(run_forked(compute, Limits(seconds=1000)))
    await wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    pid = int((tmp_path / "pid").read_text())
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_signals_for_it_do_not_reach_us() -> None:
    seen: list[int] = []
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, lambda: seen.append(1))
    try:

        def compute() -> bytes:
            os.kill(os.getpid(), signal.SIGUSR1)
            return b""

        assert isinstance(await run_forked(compute, MANY), Stopped)
        await asyncio.sleep(0)
        assert seen == []
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGUSR1)
