from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

import dray
from dray.errors import InvalidError, InvariantError, UnavailableError
from dray.runtime.clock import FakeClock, settle
from dray.runtime.files.checkpoint import Checkpoint
from dray.runtime.files.checkpoint_format import Format
from dray.runtime.quarantine import DEATHS, DEATHS_FILE, OWNER_DEATHS, REST, Deaths, Quarantine

POD = "pods/default/a/0b7a5a29"
DIES = """
import os, signal, sys
from pathlib import Path
from dray.runtime.clock import SystemClock
from dray.runtime.quarantine import Quarantine

with Quarantine(Path(sys.argv[1]), SystemClock()) as quarantine:
    with quarantine.handling("pods/default/harmless/1"):
        pass
    with quarantine.handling(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
"""

STEPS = """
import asyncio, os, signal, sys
from pathlib import Path
from dray.runtime.clock import SystemClock
from dray.runtime.quarantine import Quarantine

def die():
    os.kill(os.getpid(), signal.SIGKILL)

async def work():
    await asyncio.sleep(0)
    if sys.argv[3] == "while it waits":
        asyncio.get_running_loop().call_soon(die)
    else:
        die()
    await asyncio.sleep(60)

with Quarantine(Path(sys.argv[1]), SystemClock()) as quarantine:
    asyncio.run(quarantine.steps(sys.argv[2], work()))
"""


def die(directory: Path, key: str = POD, program: str = DIES, *more: str) -> None:
    done = subprocess.run([sys.executable, "-c", program, str(directory), key, *more], check=False)
    assert done.returncode == -signal.SIGKILL


def lives(directory: Path, clock: FakeClock, *ended_by: type[BaseException]) -> None:
    """Processes that end while they handle the pod, each by such an exception."""
    for one in ended_by:
        with pytest.raises(one), Quarantine(directory, clock) as quarantine, quarantine.handling(POD):
            raise one("over")


def test_who_ends_the_process_three_times_is_set_aside(tmp_path: Path) -> None:
    now = FakeClock(datetime.now(UTC))
    for number in range(DEATHS):
        with Quarantine(tmp_path, now) as quarantine:
            assert quarantine.why(POD) == "", f"after {number} deaths"
        die(tmp_path)
    with Quarantine(tmp_path, now) as quarantine:
        assert list(quarantine.set_aside) == [POD]
        assert "Dray ended 3 times while it handled this object" in quarantine.why(POD)
        assert quarantine.why("pods/default/harmless/1") == ""
    with Quarantine(tmp_path, now) as quarantine:
        assert quarantine.set_aside[POD].count == 3, "a process that ends well counts for nobody"


def test_a_bug_counts_and_an_error_or_a_stop_does_not(tmp_path: Path) -> None:
    clock = FakeClock()
    lives(tmp_path, clock, *[InvalidError, asyncio.CancelledError] * DEATHS)
    with Quarantine(tmp_path, clock) as quarantine:
        assert not quarantine.set_aside
    lives(tmp_path, clock, InvariantError, ZeroDivisionError, InvariantError)
    with Quarantine(tmp_path, clock) as quarantine:
        assert quarantine.set_aside[POD].count == 3


def kill_with(directory: Path, clock: FakeClock, *keys: str) -> None:
    """Processes that meet a bug of ours, one for each of them."""
    for key in keys:
        with (
            pytest.raises(InvariantError),
            Quarantine(directory, clock) as quarantine,
            quarantine.handling(key),
        ):
            raise InvariantError("over")


def test_who_is_created_again_goes_on_counting(tmp_path: Path) -> None:
    clock = FakeClock()
    kill_with(tmp_path, clock, "pods/default/a/1", "pods/default/a/2", "pods/default/a/3")
    with Quarantine(tmp_path, clock) as quarantine:
        told = quarantine.why("pods/default/a/4")
        assert "Dray ended 3 times while it handled objects of this name or owner" in told
        assert quarantine.why("pods/default/b/4") == "" == quarantine.why("pods/other/a/4")
        assert quarantine.why("pods/default/a/3 leaves") == "" == quarantine.why("Prepare pods/default/a/3")
        assert [one.count for one in quarantine.set_aside.values()] == [3, 3, 3]


def test_objects_of_one_owner_count_together(tmp_path: Path) -> None:
    clock = FakeClock()
    kill_with(
        tmp_path, clock, *(f"pods/default/a-{number}/{number}/set" for number in range(OWNER_DEATHS - 1))
    )
    with Quarantine(tmp_path, clock) as quarantine:
        assert not quarantine.set_aside and quarantine.why("pods/default/a-x/x/set") == ""
    kill_with(tmp_path, clock, "pods/default/a-9/9/set")
    with Quarantine(tmp_path, clock) as quarantine:
        assert len(quarantine.set_aside) == OWNER_DEATHS
        assert quarantine.why("pods/default/a-x/x/set")
        assert quarantine.why("pods/default/a-x/x/other") == "" == quarantine.why("pods/default/a-x/x")


def test_a_file_without_groups_is_read(tmp_path: Path) -> None:
    clock = FakeClock()
    old = msgspec.defstruct("Old", [("deaths", dict[str, Deaths])])
    with Checkpoint(tmp_path / DEATHS_FILE, Format(old), clock=clock) as file:
        file.open()
        file.save(old({POD: Deaths(3, clock.now(), dray.__version__)}))
    with Quarantine(tmp_path, clock) as quarantine:
        assert quarantine.why(POD)


async def test_it_is_tried_again_after_a_day_and_by_another_version(tmp_path: Path) -> None:
    clock = FakeClock()
    lives(tmp_path, clock, *[InvariantError] * DEATHS)
    with Quarantine(tmp_path, clock) as quarantine:
        await clock.advance((REST - timedelta(seconds=1)).total_seconds())
        assert quarantine.why(POD)
        await clock.advance(1)
        assert quarantine.why(POD) == ""
    lives(tmp_path, clock, *[InvariantError] * (DEATHS - 1))
    with Quarantine(tmp_path, clock) as quarantine:
        assert quarantine.why(POD) == "", "its count began anew"
    lives(tmp_path, clock, InvariantError)
    with Quarantine(tmp_path, clock, version="another") as quarantine:
        assert not quarantine.set_aside


def test_of_more_than_there_is_room_for_the_one_that_never_came_back_counts(tmp_path: Path) -> None:
    clock = FakeClock(datetime.now(UTC))
    with Quarantine(tmp_path, clock) as quarantine:
        handled = [quarantine.handling(f"pods/default/p{number}/uid") for number in range(100)]
        for one in handled:
            one.__enter__()
        for one in handled[1:]:
            one.__exit__(None, None, None)
    for _ in range(DEATHS - 1):
        die(tmp_path, "pods/default/p0/uid")
    with Quarantine(tmp_path, clock) as quarantine:
        assert list(quarantine.set_aside) == ["pods/default/p0/uid"]


def test_names_of_any_length(tmp_path: Path) -> None:
    clock, key = FakeClock(), "pods/" + "é" * 400
    for _ in range(DEATHS):
        with (
            pytest.raises(InvariantError),
            Quarantine(tmp_path, clock) as quarantine,
            quarantine.handling(key),
        ):
            raise InvariantError("over")
    with Quarantine(tmp_path, clock) as quarantine:
        (found,) = quarantine.set_aside
        assert key.startswith(found) and quarantine.why(key)


@pytest.mark.parametrize("content", [b"", b"x", b"\xff" * 64 * 512, b"\0\5\xff\xfe\xfd\xfc\xfb" * 5000])
def test_garbage_in_its_file_hurts_nobody(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "handled").write_bytes(content)
    with Quarantine(tmp_path, FakeClock()) as quarantine:
        assert quarantine.why(POD) == ""
        with quarantine.handling(POD):
            pass


def test_without_a_disk_it_only_forgets(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "handled").mkdir()
    with Quarantine(tmp_path, FakeClock()) as quarantine, quarantine.handling(POD):
        assert quarantine.why(POD) == ""
    assert "not noted" in caplog.text


@pytest.mark.parametrize(("when", "deaths"), [("while it waits", 0), ("in a step of its own", 1)])
def test_work_that_waits_is_noted_step_by_step(tmp_path: Path, when: str, deaths: int) -> None:
    die(tmp_path, POD, STEPS, when)
    with Quarantine(tmp_path, FakeClock(datetime.now(UTC))) as quarantine:
        assert {key: one.count for key, one in quarantine.deaths.items()} == ({POD: deaths} if deaths else {})


async def test_steps_change_nothing_of_the_work(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def answers() -> int:
        await gate.wait()
        return 7

    async def cleans_up() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            gate.set()

    async def meets_a_failure() -> str:
        failing = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(failing.set_exception, UnavailableError("away"))
        try:
            await failing
        except UnavailableError as error:
            return str(error)
        return ""

    async def fails() -> None:
        await asyncio.sleep(0)
        raise InvalidError("over")

    with Quarantine(tmp_path, FakeClock()) as quarantine:
        cancelled = asyncio.ensure_future(quarantine.steps(POD, cleans_up()))
        answered = asyncio.ensure_future(quarantine.steps(POD, answers()))
        await settle()
        cancelled.cancel()
        assert await answered == 7
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert await quarantine.steps(POD, meets_a_failure()) == "away"
        with pytest.raises(InvalidError):
            await quarantine.steps(POD, fails())
        assert quarantine.handled() == []


async def test_work_that_meets_a_bug_of_ours_counts_once(tmp_path: Path) -> None:
    async def meets_a_bug() -> None:
        await asyncio.sleep(0)
        raise InvariantError("over")

    with Quarantine(tmp_path, FakeClock()) as quarantine, pytest.raises(InvariantError):
        await quarantine.steps(POD, meets_a_bug())
    with Quarantine(tmp_path, FakeClock()) as quarantine:
        assert quarantine.deaths[POD].count == 1
