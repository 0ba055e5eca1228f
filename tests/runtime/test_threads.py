from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time

import pytest

from dray.errors import HardwareError, UnavailableError
from dray.runtime.threads import Threads
from tests.waiting import PATIENCE, wait_until


async def test_results_and_errors_come_back() -> None:
    threads = Threads()

    def fail() -> None:
        raise HardwareError("broken")

    assert await threads.run(lambda: threading.current_thread().daemon, doing="look", seconds=60) is True
    with pytest.raises(HardwareError, match="broken"):
        await threads.run(fail, doing="fail", seconds=60)


async def test_a_call_that_hangs_is_left_behind_and_those_behind_it_are_refused_at_once() -> None:
    threads, release, late = Threads(), threading.Event(), list[str]()

    def hang() -> str:
        release.wait(PATIENCE)
        return "opened"

    with pytest.raises(UnavailableError, match=r"could not open /dev/x in 0.05 s: the kernel"):
        await threads.run(hang, doing="open /dev/x", seconds=0.05, alone_on=("/dev/x",), late=late.append)
    with pytest.raises(UnavailableError, match="cannot open /dev/x: an earlier attempt"):
        await threads.run(hang, doing="open /dev/x", seconds=30, alone_on=("/dev/x",))
    assert await threads.run(lambda: 7, doing="go on", seconds=60, alone_on=("/dev/y",)) == 7
    release.set()
    await wait_until(lambda: late)
    assert late == ["opened"]
    assert await threads.run(lambda: 8, doing="open /dev/x", seconds=60, alone_on=("/dev/x",)) == 8


async def test_calls_on_the_same_thing_do_not_interleave() -> None:
    threads, inside, most = Threads(), list[int](), list[int]()

    def work(number: int) -> None:
        inside.append(number)
        most.append(len(inside))
        time.sleep(0.001)
        inside.remove(number)

    async with asyncio.TaskGroup() as group:
        for number in range(20):
            names = ("a", "b") if number % 2 else ("b", "c")
            group.create_task(threads.run(lambda n=number: work(n), doing="x", seconds=60, alone_on=names))  # type: ignore[misc]
    assert len(most) == 20 and set(most) == {1}


async def test_no_more_than_so_many_at_once() -> None:
    threads, release = Threads(most=3), threading.Event()
    before, running = set(threading.enumerate()), 0
    guard = threading.Lock()

    def work() -> None:
        nonlocal running
        with guard:
            running += 1
        release.wait(PATIENCE)

    async with asyncio.TaskGroup() as group:
        for _ in range(7):
            group.create_task(threads.run(work, doing="wait", seconds=60))
        await wait_until(lambda: running >= 3)
        assert len(set(threading.enumerate()) - before) == 3  # one for each call that has begun
        with pytest.raises(UnavailableError, match="others are still at it"):
            await threads.run(work, doing="wait", seconds=0.02)
        release.set()
    assert running == 7


async def test_a_cancelled_caller_gets_nothing_and_nothing_is_lost() -> None:
    """Whatever the moment of the cancellation: a result that nobody takes is given to `late`."""
    threads = Threads()
    made, taken, late = list[int](), list[int](), list[int]()

    def make(number: int) -> int:
        time.sleep(0.0005)
        made.append(number)
        return number

    async def take(number: int) -> None:
        taken.append(await threads.run(lambda: make(number), doing="make", seconds=60, late=late.append))

    for number in range(60):
        task = asyncio.create_task(take(number))
        await asyncio.sleep(0.0008 * (number % 5) / 4)
        task.cancel()
        await asyncio.wait({task})
    await wait_until(lambda: len(late) + len(taken) == 60)
    assert late and sorted(taken + late) == sorted(made)


def test_a_hung_call_does_not_keep_the_process_from_ending() -> None:
    program = """
import asyncio, time
from dray.errors import UnavailableError
from dray.runtime.threads import Threads
async def main():
    try:
        await Threads().run(lambda: time.sleep(600), doing="sleep", seconds=0.05)
    except UnavailableError as error:
        print(error)
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith("could not sleep in 0.05 s")


async def test_a_thread_that_is_done_takes_the_next_call() -> None:
    threads = Threads()
    seen = [await threads.run(threading.current_thread, doing="look", seconds=60) for _ in range(5)]
    assert set(seen) == {seen[0]}

    def fail() -> None:
        raise HardwareError("broken")

    with pytest.raises(HardwareError):
        await threads.run(fail, doing="fail", seconds=60)
    assert await threads.run(threading.current_thread, doing="look", seconds=60) is seen[0]


async def test_idle_threads_end_and_calls_in_that_moment_are_not_lost() -> None:
    idle = 0.02
    threads, seen = Threads(idle=idle), set[threading.Thread]()
    for number in range(60):
        seen.add(await threads.run(threading.current_thread, doing="look", seconds=PATIENCE))
        await asyncio.sleep(idle + 0.0002 * (number % 20 - 10))  # as it is about to end
    await wait_until(lambda: not any(each.is_alive() for each in seen))
    assert len(seen) > 1
