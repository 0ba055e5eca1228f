from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from dray.kubelet.runtimes.liveness import Identity, find_marked, open_process, send, wait_ended
from dray.kubelet.runtimes.shim import identity


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"], env={**os.environ, "DRAY_TEST_MARK": str(os.getpid())}) as process:
        yield process
        process.kill()


def of(process: subprocess.Popen[bytes]) -> Identity:
    return Identity(**identity(process.pid))


def test_a_zombie_is_dead(child: subprocess.Popen[bytes]) -> None:
    known = of(child)
    assert known.is_alive
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not known.is_alive
    assert not known.is_at_work
    assert open_process(known) is None
    assert not send(known, signal.SIGTERM)


def test_another_start_time_or_boot_is_another_process(child: subprocess.Popen[bytes]) -> None:
    known = of(child)
    for other in (Identity(known.pid, known.start + 1, known.boot), Identity(known.pid, known.start, "x")):
        assert not other.is_alive
        assert not send(other, signal.SIGKILL)
    assert child.poll() is None
    assert not Identity(2**22 + 1, 1, known.boot).is_alive


async def test_wait_ended(child: subprocess.Popen[bytes]) -> None:
    assert not await wait_ended(of(child), 0.01)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(wait_ended(of(child), 10.0))
        await asyncio.sleep(0)
        child.send_signal(signal.SIGKILL)
    assert waiting.result()
    child.wait()
    assert await wait_ended(Identity(child.pid, 1, "x"), 10.0)


def test_find_marked(child: subprocess.Popen[bytes]) -> None:
    mark = f"DRAY_TEST_MARK={os.getpid()}"
    while not list(find_marked(mark)):  # between fork and exec the child has our environment
        pass
    assert [one.pid for one in find_marked(mark)] == [child.pid]
    assert list(find_marked(mark + "0")) == []


def test_this_process_knows_itself() -> None:
    known = Identity(**identity(os.getpid()))
    assert known.is_alive
    assert known.is_at_work
    assert known.is_of_this_boot
