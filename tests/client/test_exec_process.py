from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dray.client.exec_process import Said, TooMuchOutputError, run_program
from tests.waiting import PATIENCE, wait_until


async def run(*argv: str, seconds: float = 10.0, limit: int = 1000) -> Said:
    return await run_program(argv, os.environ, on_terminal=False, seconds=seconds, limit=limit)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_output_exit_code_and_environment() -> None:
    said = await run_program(
        ("sh", "-c", "echo $WORD; echo bad >&2; exit 3"),
        {**os.environ, "WORD": "hello"},
        on_terminal=False,
        seconds=10,
        limit=100,
    )
    assert said == Said(3, b"hello\n", b"bad\n")


async def test_stdin_is_empty() -> None:
    assert (await run("cat")).stdout == b""


async def test_a_signal_is_a_negative_code() -> None:
    assert (await run("sh", "-c", "kill -9 $$")).returncode == -9


async def test_exactly_the_limit_is_fine_and_one_more_is_not() -> None:
    assert len((await run("head", "-c", "1000", "/dev/zero")).stdout) == 1000
    with pytest.raises(TooMuchOutputError, match="1000 bytes"):
        await run("head", "-c", "1001", "/dev/zero")


async def test_endless_output_is_cut_off_and_endless_complaints_are_bounded(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with pytest.raises(TooMuchOutputError):
        await run("sh", "-c", f"echo $$ > {pid}; exec cat /dev/zero", seconds=3600)
    assert not is_alive(int(pid.read_text()))
    said = await run("sh", "-c", "head -c 3000000 /dev/zero >&2; echo last >&2")
    assert len(said.stderr) <= 4096
    assert said.stderr.endswith(b"last\n")


async def time_out(*argv: str, once: Callable[[], bool]) -> None:
    """Run what never ends, with a limit that is longer where the machine was too slow for it to get going."""
    for seconds in (0.3, 3.0, 30.0):
        with pytest.raises(TimeoutError):
            await run(*argv, seconds=seconds)
        if once():
            return
    raise AssertionError("it did not get going")


async def test_slow_program_is_killed_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    await time_out("sh", "-c", f"sleep 3600 & echo $! $$ > {pids}; wait", once=pids.exists)
    await wait_until(lambda: not any(is_alive(int(pid)) for pid in pids.read_text().split()))


async def test_a_child_that_holds_the_output_is_killed_too(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    await time_out("sh", "-c", f"sleep 3600 & echo $! > {pids}", once=pids.exists)
    await wait_until(lambda: not is_alive(int(pids.read_text())))


async def test_cancelled_caller_leaves_nothing_running(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    task = asyncio.create_task(run("sh", "-c", f"echo $$ > {pids}; sleep 60", seconds=60))
    await wait_until(lambda: pids.exists() and pids.read_text().strip())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await wait_until(lambda: not is_alive(int(pids.read_text())))


@pytest.mark.parametrize("turns", range(12))
async def test_cancelled_while_it_starts(tmp_path: Path, turns: int) -> None:
    """At whatever turn of the loop: the program and its child are gone when the caller is."""
    pids = tmp_path / "pids"
    task = asyncio.create_task(run("sh", "-c", f"sleep 3600 & echo $! $$ > {pids}; wait", seconds=3600))
    for _ in range(turns):
        await asyncio.sleep(0)
    if turns % 2:
        time.sleep(0.02)
    task.cancel()
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait({task})
    assert task.cancelled()
    found = pids.read_text().split() if pids.exists() else []
    await wait_until(lambda: not any(is_alive(int(pid)) for pid in found))


async def test_what_cannot_be_started() -> None:
    with pytest.raises(FileNotFoundError):
        await run("/no/such/program")
