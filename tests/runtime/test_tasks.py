from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dray.errors import InvariantError, UnavailableError
from dray.runtime.backoff import Backoff, BackoffPolicy
from dray.runtime.clock import FakeClock, settle
from dray.runtime.tasks import restarting, running, wait_first
from tests.waiting import PATIENCE


async def test_running_runs_beside_the_body_and_is_joined_at_its_end() -> None:
    story: list[str] = []

    async def child() -> None:
        story.append("start")
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.01)
            story.append("cleaned")

    async with running(child(), name="child"):
        story.append("body")
    assert story == ["start", "body", "cleaned"]


async def test_a_failing_child_cancels_the_body_and_its_own_error_comes_out() -> None:
    async def child() -> None:
        await asyncio.sleep(0.01)
        raise UnavailableError("peer is away")

    with pytest.raises(UnavailableError, match="peer is away"):
        async with running(child(), name="child"):
            await asyncio.sleep(3600)


async def test_a_child_that_ends_well_lets_the_body_go_on() -> None:
    ended = asyncio.Event()

    async def child() -> None:
        ended.set()

    reached = False
    async with running(child(), name="child"):
        await ended.wait()
        await settle()
        reached = True
    assert reached


async def test_an_error_of_the_body_stops_the_child_and_comes_out() -> None:
    stopped = asyncio.Event()

    async def child() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            stopped.set()

    with pytest.raises(KeyError):
        async with running(child(), name="child"):
            raise KeyError("mine")
    assert stopped.is_set()


async def test_a_child_that_ignores_cancelling_is_left_behind_in_bounded_time() -> None:
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    try:
        async with asyncio.timeout(PATIENCE), running(stubborn(), name="stubborn", stop_timeout=0.05):
            pass
    finally:
        release.set()
        await settle()


async def test_an_error_in_the_cleanup_of_a_child_is_not_lost() -> None:
    async def child() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            raise UnavailableError("could not say goodbye")

    with pytest.raises(UnavailableError, match="goodbye"):
        async with running(child(), name="child"):
            pass


async def test_a_cancellation_while_a_failed_body_is_left_is_not_lost() -> None:
    leaving = asyncio.Event()

    async def child() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            leaving.set()
            await asyncio.sleep(0.01)

    async def again_and_again() -> None:
        for _ in range(10):
            try:
                async with running(child(), name="child"):
                    raise UnavailableError("gone")
            except UnavailableError:
                pass

    async with asyncio.TaskGroup() as group:
        task = group.create_task(again_and_again())
        await leaving.wait()
        task.cancel()
    assert task.cancelled()


async def test_restarting_backs_off_after_errors_and_starts_over_after_a_steady_run() -> None:
    clock = FakeClock()
    starts: list[float] = []

    async def run_once() -> None:
        starts.append(clock.monotonic())
        if len(starts) == 4:
            await clock.sleep(60)
        raise UnavailableError("gone")

    backoff = Backoff(BackoffPolicy(first=1, factor=2, limit=100, jitter=0))
    async with running(restarting(run_once, name="x", clock=clock, backoff=backoff), name="loop"):
        await clock.advance(70)
    assert starts == [0, 1, 3, 7, 68, 70]


async def test_restarting_ends_with_our_own_bugs_and_with_unknown_errors() -> None:
    for bug in (InvariantError("held twice"), ZeroDivisionError()):

        async def run_once(bug: Exception = bug) -> None:
            raise bug

        with pytest.raises(type(bug)):
            await restarting(run_once, name="x", clock=FakeClock(), backoff=Backoff())


async def test_wait_first_returns_with_the_first_and_cancels_the_rest() -> None:
    never = asyncio.Event()
    await asyncio.wait_for(wait_first(never.wait(), asyncio.sleep(0.01)), PATIENCE)
    assert asyncio.all_tasks() == {asyncio.current_task()}


PROGRAM = """
import asyncio
from dray.runtime.tasks import run_until_signalled

async def main():
    print("ready", flush=True)
    try:
        await asyncio.sleep(3600)
    finally:
        print("cleaning", flush=True)
        await asyncio.sleep({cleanup})
        print("cleaned", flush=True)

run_until_signalled(main)
"""


def _start(cleanup: float) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(cleanup=cleanup)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path("src").resolve())},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_unwinds_the_tree_and_the_process_ends_well(number: signal.Signals) -> None:
    with _start(cleanup=0.01) as process:
        process.send_signal(number)
        output, _ = process.communicate(timeout=PATIENCE)
        assert output == "cleaning\ncleaned\n"
        assert process.returncode == 0


def test_a_second_signal_ends_the_process_at_once() -> None:
    with _start(cleanup=3600) as process:
        assert process.stdout is not None
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "cleaning\n"
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == -signal.SIGTERM


TALKING = """
import asyncio
from dray.runtime.logs import get_log, setup_logs
from dray.runtime.tasks import run_until_signalled

async def main():
    setup_logs("text", "warning", __import__("sys").stdout)
    print("ready", flush=True)
    while True:
        get_log("x").debug("detail")
        await asyncio.sleep(0.01)

run_until_signalled(main)
"""


def test_signals_change_how_much_the_log_says() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", TALKING],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path("src").resolve())},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGUSR1)
        assert "why=SIGUSR1 was=warning" in process.stdout.readline()
        process.send_signal(signal.SIGUSR1)
        assert "log_level=debug" in process.stdout.readline()
        assert "msg=detail" in process.stdout.readline()
        process.send_signal(signal.SIGUSR2)
        while "msg=detail" in (line := process.stdout.readline()):
            pass
        assert "log_level=warning why=SIGUSR2 was=debug" in line
        process.terminate()
        rest = process.communicate(timeout=PATIENCE)[0]
        assert "detail" not in rest
        assert process.returncode == 0


async def test_the_cause_of_an_error_comes_out_with_it() -> None:
    async def child() -> None:
        await asyncio.Event().wait()

    with pytest.raises(UnavailableError) as caught:
        async with running(child(), name="child"):
            raise UnavailableError("away") from ValueError("why")
    assert isinstance(caught.value.__cause__, ValueError)
