from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dray.errors import ConflictError, InvariantError, UnavailableError
from dray.runtime.clock import FakeClock, settle
from dray.runtime.files.checkpoint import SetAside
from dray.runtime.files.checkpoint_format import Format
from dray.runtime.files.shared_checkpoint import Lost, SharedCheckpoint, SharedOptions
from dray.runtime.threads import Threads
from tests.campaign import campaign, seeds
from tests.runtime.files.conftest import RunProgram
from tests.runtime.files.programs.shared_counting import Names
from tests.waiting import PATIENCE

FORMAT = Format(Names)


class Rescue:
    """Goes on with what it is given; keeps what it was told."""

    def __init__(self, state: Names | None = None) -> None:
        self.state = state or Names()
        self.told: list[tuple[Names | None, SetAside | None]] = []

    def __call__(self, lost: Lost[Names]) -> Names:
        self.told.append((lost.last, lost.set_aside))
        return lost.last or lost.recent or self.state


def put(name: str) -> Callable[[Names], tuple[Names, int]]:
    def change(state: Names) -> tuple[Names, int]:
        return Names({**state.names, name: len(state.names)}), len(state.names)

    return change


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "var" / "state"


def shared(path: Path, rescue: Rescue | None = None, **limits: float) -> SharedCheckpoint[Names]:
    options = SharedOptions(clock=FakeClock(), **limits)
    return SharedCheckpoint(path, FORMAT, rescue or Rescue(), Threads(), options)


def stored(path: Path) -> dict[str, int]:
    return FORMAT.decode(path.read_bytes()).names


async def test_a_change_is_on_the_disk_when_it_is_answered(path: Path) -> None:
    async with shared(path) as checkpoint:
        assert await checkpoint.change(put("a")) == 0
        assert stored(path) == {"a": 0}
        assert checkpoint.latest == Names({"a": 0})
    async with shared(path) as checkpoint:
        assert (await checkpoint.read()).names == {"a": 0}


async def test_two_see_what_the_other_wrote(path: Path) -> None:
    async with shared(path) as one, shared(path) as other:
        for number in range(5):
            assert await one.change(put(f"one-{number}")) == 2 * number
            assert await other.change(put(f"other-{number}")) == 2 * number + 1
        assert len(one.latest.names) == 9
        assert len((await one.read()).names) == 10


async def test_many_changes_are_few_writes(path: Path) -> None:
    async with shared(path) as checkpoint:
        writes = set()

        async def one(number: int) -> None:
            await checkpoint.change(put(str(number)))
            writes.add(path.stat().st_mtime_ns)

        await asyncio.gather(*(one(number) for number in range(200)))
        assert len(stored(path)) == 200
        assert len(writes) <= 5


async def test_nothing_is_written_for_a_look(path: Path) -> None:
    async with shared(path) as checkpoint:
        await checkpoint.change(put("a"))
        before = path.stat().st_mtime_ns, path.stat().st_ino
        await checkpoint.read()
        assert (path.stat().st_mtime_ns, path.stat().st_ino) == before


async def test_a_refused_change_fails_alone(path: Path) -> None:
    def refuse(state: Names) -> tuple[Names, None]:
        raise ConflictError("taken")

    async with shared(path) as checkpoint:
        outcomes = await asyncio.gather(
            checkpoint.change(put("a")),
            checkpoint.change(refuse),
            checkpoint.change(put("b")),
            return_exceptions=True,
        )
        assert outcomes[0] == 0
        assert isinstance(outcomes[1], ConflictError)
        assert outcomes[2] == 1
        assert set(stored(path)) == {"a", "b"}


async def test_what_was_known_is_not_decoded_again(path: Path) -> None:
    decoded: list[int] = []

    class Counting(Format[Names]):
        def decode(self, content: bytes) -> Names:
            decoded.append(len(content))
            return FORMAT.decode(content)

    counting = SharedCheckpoint(path, Counting(Names), Rescue(), Threads())
    async with counting as checkpoint, shared(path) as other:
        for number in range(5):
            await checkpoint.change(put(str(number)))
        assert decoded == []
        await other.change(put("foreign"))
        await checkpoint.change(put("last"))
        await checkpoint.read()
        assert len(decoded) == 1


async def test_a_change_that_need_not_be_durable_is_there_for_the_other_process(path: Path) -> None:
    async with shared(path) as one, shared(path) as other:
        await one.change(put("a"))
        assert await one.change(put("b"), durable=False) == 1
        assert set(stored(path)) == {"a"}
        assert await other.change(put("c"), durable=False) == 2
        assert set((await one.read()).names) == {"a", "b", "c"}
        assert await other.change(lambda state: (state, len(state.names))) == 3
        assert set(stored(path)) == {"a"}
        assert await one.change(put("d")) == 3
        assert set(stored(path)) == {"a", "b", "c", "d"}
        assert set((await other.read()).names) == {"a", "b", "c", "d"}
        assert not path.with_name("state.recent").exists()


async def test_what_is_not_durable_is_lost_with_a_damaged_copy_and_the_rest_stays(path: Path) -> None:
    """As after a power cut."""
    async with shared(path) as one:
        await one.change(put("a"))
        await one.change(put("b"), durable=False)
    path.with_name("state.recent").write_bytes(b"")
    async with shared(path) as next_one:
        assert set(next_one.latest.names) == {"a"}


async def test_what_is_not_durable_is_all_that_is_left_where_the_file_is_damaged(path: Path) -> None:
    async with shared(path) as one:
        await one.change(put("a"))
        await one.change(put("b"), durable=False)
    path.write_bytes(b"")
    async with shared(path) as next_one:
        assert set(next_one.latest.names) == {"a", "b"}


async def test_what_a_killed_process_was_about_to_write_goes(path: Path) -> None:
    async with shared(path) as one:
        await one.change(put("a"))
    path.with_name(".state.recent.tmp").touch()
    async with shared(path):
        assert not path.with_name(".state.recent.tmp").exists()


@pytest.mark.parametrize("harm", ["garbage", "cut", "empty", "newer", "link", "directory"])
async def test_an_unusable_file_is_set_aside(path: Path, harm: str) -> None:
    rescue = Rescue()
    async with shared(path, rescue) as checkpoint:
        await checkpoint.change(put("a"))
        good = path.read_bytes()
        path.unlink()
        content = {"garbage": os.urandom(300), "cut": good[:-3], "empty": b""}
        if harm == "newer":
            path.write_bytes(Format(Names, version=2).encode(Names()))
        elif harm == "link":
            path.symlink_to("/etc/passwd")
        elif harm == "directory":
            path.mkdir()
        else:
            path.write_bytes(content[harm])
        await checkpoint.change(put("b"))
        assert stored(path) == {"a": 0, "b": 1}
        last, set_aside = rescue.told[-1]
        assert last == Names({"a": 0})
        assert set_aside is not None
        assert set_aside.moved_to is not None
        assert os.path.lexists(set_aside.moved_to)


async def test_a_file_that_is_gone_is_told_too(path: Path) -> None:
    rescue = Rescue()
    async with shared(path, rescue) as checkpoint:
        await checkpoint.change(put("a"))
        path.unlink()
        await checkpoint.change(put("b"))
        assert set(stored(path)) == {"a", "b"}
        assert rescue.told == [(None, None), (Names({"a": 0}), None)]


async def test_the_wait_for_the_lock_has_a_limit_and_is_in_a_thread(path: Path) -> None:
    async with shared(path, lock_limit=0.2) as checkpoint:
        descriptor = os.open(path.with_name("state.turn"), os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            with pytest.raises(UnavailableError, match=r"waited 0\.2 s"):
                await checkpoint.change(put("a"))
        finally:
            os.close(descriptor)
        await checkpoint.change(put("b"))
        assert set(stored(path)) == {"b"}
    async with shared(path, lock_limit=PATIENCE) as checkpoint:
        descriptor = os.open(path.with_name("state.turn"), os.O_RDWR)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        waiting = asyncio.ensure_future(checkpoint.change(put("c")))
        await settle()  # comes back only if the loop is not held up
        assert not waiting.done()
        os.close(descriptor)
        await waiting
        assert set(stored(path)) == {"b", "c"}


async def test_who_is_cancelled_early_changes_nothing(path: Path) -> None:
    async with shared(path) as checkpoint, asyncio.TaskGroup() as group:
        first = group.create_task(checkpoint.change(put("a")))
        second = group.create_task(checkpoint.change(put("b")))
        await asyncio.sleep(0)
        second.cancel()
        assert await first == 0
        await asyncio.wait({second}, timeout=PATIENCE)
        await checkpoint.change(put("c"))
        assert set(stored(path)) == {"a", "c"}


async def test_too_large_a_state_fails_and_the_old_one_stays(path: Path) -> None:
    small = Format(Names, max_size=200)
    async with SharedCheckpoint(path, small, Rescue(), Threads()) as checkpoint:
        await checkpoint.change(put("a"))
        with pytest.raises(Exception, match="more than the limit of 200"):
            await checkpoint.change(put("x" * 300))
        assert await checkpoint.change(put("b")) == 1


def test_it_must_be_entered(path: Path) -> None:
    async def look() -> Any:
        return shared(path).latest

    with pytest.raises(InvariantError, match="before it was entered"):
        asyncio.run(look())


def test_processes_at_once_and_kills(tmp_path: Path, run_program: RunProgram) -> None:
    count = campaign(60, 1000)
    for seed in seeds(1, 10):
        directory = tmp_path / str(seed)
        directory.mkdir()
        outcome = run_program("shared_counting", directory, 4, count, seed)
        assert outcome["lost"] == []
        assert outcome["twice"] == []
        assert outcome["ends"][1::2] == [0, 0]
        assert outcome["told"] >= 2 * count
        assert [name for name in outcome["left"] if "corrupt" in name] == []
