from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from dray.dra.claims.locks import DeviceLocks, lock_name
from dray.errors import DeniedError, UnavailableError
from dray.runtime.clock import FakeClock, SystemClock, settle
from dray.runtime.threads import Threads
from tests.waiting import wait_until

LONGEST_PAUSE = 0.3
"""Seconds until another process is asked again."""


def locks(directory: Path, limit: float = 60.0) -> DeviceLocks:
    return DeviceLocks(directory, Threads(), SystemClock(), limit)


async def test_one_after_the_other_within_a_process(tmp_path: Path) -> None:
    mine, order = locks(tmp_path), list[str]()

    async def use(owner: str, *parts: str) -> None:
        async with mine.held(parts, owner):
            order.append(f"{owner} in")
            await settle()
            order.append(f"{owner} out")

    await asyncio.gather(use("a", "x", "y"), use("b", "y", "x"), use("c", "y"))
    assert [order[at].split()[0] for at in (0, 2, 4)] == [order[at].split()[0] for at in (1, 3, 5)]


async def test_different_devices_go_side_by_side(tmp_path: Path) -> None:
    mine = locks(tmp_path)
    async with mine.held(["x"], "a"), mine.held(["y"], "b"), mine.held([], "c"):
        assert sorted(os.listdir(tmp_path / "locks")) == sorted([lock_name("x"), lock_name("y")])


async def test_one_claim_is_done_once_at_a_time(tmp_path: Path) -> None:
    mine = locks(tmp_path, 0.05)
    async with mine.held(["x"], "a"):
        with pytest.raises(UnavailableError, match="claim a"):
            async with mine.held(["y"], "a"):
                pass


async def test_another_process_is_waited_for(tmp_path: Path) -> None:
    mine, other = locks(tmp_path), locks(tmp_path, 0.05)
    async with mine.held(["x"], "a"):
        with pytest.raises(
            UnavailableError, match=r"waited 0\.05 s: another process prepares or gives back x"
        ):
            async with other.held(["w", "x"], "b"):
                pass
        async with locks(tmp_path, 0.05).held(["w"], "c"):
            pass
    async with other.held(["x"], "b"):
        pass


async def test_in_any_order_nobody_blocks_for_ever(tmp_path: Path) -> None:
    async def use(mine: DeviceLocks, owner: str, *parts: str) -> None:
        for _ in range(5):
            async with mine.held(parts, owner):
                await asyncio.sleep(0)

    one, other = locks(tmp_path), locks(tmp_path)
    await asyncio.gather(use(one, "a", "x", "y", "z"), use(other, "b", "z", "y", "x"))


async def test_a_removed_lock_file_is_made_anew(tmp_path: Path) -> None:
    mine = locks(tmp_path)
    async with mine.held(["x"], "a"):
        pass
    (tmp_path / "locks" / lock_name("x")).unlink()
    (tmp_path / "locks").rmdir()
    async with mine.held(["x"], "a"):
        assert (tmp_path / "locks" / lock_name("x")).exists()


@pytest.mark.parametrize("where", ["directory", "file"])
async def test_links_are_refused(tmp_path: Path, where: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    data = tmp_path / "data"
    data.mkdir()
    if where == "directory":
        (data / "locks").symlink_to(outside)
    else:
        (data / "locks").mkdir()
        (data / "locks" / lock_name("x")).symlink_to(outside / "made")
    with pytest.raises(DeniedError, match="symbolic link"):
        async with locks(data).held(["x"], "a"):
            pass
    assert list(outside.iterdir()) == []


def test_names_of_files() -> None:
    parts = ["pci:0000:05:00.0", "pci:0000:05:00/0", "a b", "a-b", "a/b", "../x", "", "\ud800", "x" * 300]
    found = [lock_name(part) for part in parts]
    assert len(set(found)) == len(parts)
    assert all("/" not in name and not name.startswith(".") and len(name) < 100 for name in found)
    assert found[0].startswith("pci:0000:05:00.0-")


async def test_who_waits_for_another_process_gets_it_when_that_is_done(tmp_path: Path) -> None:
    mine, clock = locks(tmp_path), FakeClock()
    other = DeviceLocks(tmp_path, Threads(), clock, 60.0)

    async def wait() -> None:
        async with other.held(["x"], "b"):
            pass

    async with asyncio.TaskGroup() as group:
        async with mine.held(["x"], "a"):
            waiting = group.create_task(wait())
            for _ in range(10):
                await wait_until(lambda: clock.sleepers)  # it has looked, and will look again
                await clock.advance(LONGEST_PAUSE)
            await wait_until(lambda: clock.sleepers)
            assert not waiting.done()
        await clock.advance(LONGEST_PAUSE)


async def test_closed_locks_leave_no_file_open(tmp_path: Path) -> None:
    mine = locks(tmp_path)
    async with mine.held(["x", "y"], "a"):
        pass
    opened = {one for one in os.listdir("/proc/self/fd") if _leads_to(one, tmp_path)}
    assert len(opened) == 2
    mine.close()
    assert not any(_leads_to(one, tmp_path) for one in os.listdir("/proc/self/fd"))


def _leads_to(descriptor: str, directory: Path) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(directory))
    except FileNotFoundError:
        return False


async def test_locks_that_are_closed_while_they_are_held_are_free_for_others(tmp_path: Path) -> None:
    """The process ends: whoever holds them leaves the block without a word."""
    mine, other = locks(tmp_path), locks(tmp_path, 0.05)
    async with mine.held(["x"], "a"):
        mine.close()
        async with other.held(["x"], "b"):
            pass
    async with mine.held(["x"], "a"):
        with pytest.raises(UnavailableError):
            async with other.held(["x"], "b"):
                pass
