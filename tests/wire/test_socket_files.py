from __future__ import annotations

import fcntl
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dray.errors import ConflictError, InvalidError, NotFoundError
from dray.runtime.files.inotify import Inotify
from dray.wire.socket_files import remove_dead
from dray.wire.sockets import dial, listening
from tests.campaign import campaign

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["same file system", "another file system"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A directory for sockets, and one to make them in, from which they can be moved or cannot."""
    (tmp_path / "sockets").mkdir()
    with tempfile.TemporaryDirectory(
        dir=_other(tmp_path, same=request.param == "same file system")
    ) as staging:
        yield tmp_path / "sockets", Path(staging)


def _other(path: Path, *, same: bool) -> Path:
    if same:
        return path
    shared = Path("/dev/shm")
    if not os.access(shared, os.W_OK) or shared.stat().st_dev == path.stat().st_dev:
        pytest.skip("there is no second file system to write to")
    return shared


def stale(path: Path) -> None:
    """A socket whose server died without cleaning up."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
        dead.listen()


@contextmanager
def watched(directory: Path) -> Iterator[set[str]]:
    """The names that anything happened to, when the block is over."""
    inotify, seen = Inotify(), set[str]()
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        inotify.watch_directory(descriptor)
        yield seen
        seen.update(event.name for event in inotify.drain())
    finally:
        os.close(descriptor)
        inotify.close()


async def test_no_other_name_ever_appears_beside_it(places: tuple[Path, Path]) -> None:
    directory, staging = places
    stale(directory / "s")
    with watched(directory) as seen:
        for _ in range(campaign(20, 2000)):
            async with listening(directory / "s", mode=0o600, staging=staging):
                (await dial(directory / "s")).close()
                assert os.listdir(staging) == []
    assert seen == {"s"}
    assert os.listdir(directory) == []


@pytest.mark.parametrize("mask", [0, 0o077, 0o777])
async def test_the_mode_is_the_one_asked_for_whatever_the_umask(places: tuple[Path, Path], mask: int) -> None:
    directory, staging = places
    former = os.umask(mask)
    try:
        async with listening(directory / "s", mode=0o660, staging=staging):
            assert stat.S_IMODE((directory / "s").lstat().st_mode) == 0o660
    finally:
        os.umask(former)


async def test_what_is_there_already(places: tuple[Path, Path]) -> None:
    directory, staging = places
    async with listening(directory / "s", mode=0o600):
        with pytest.raises(ConflictError, match="in use by another server"):
            async with listening(directory / "s", mode=0o600, staging=staging):
                pass
        (await dial(directory / "s")).close()
    (directory / "file").write_text("precious")
    with pytest.raises(InvalidError, match="is no socket"):
        async with listening(directory / "file", mode=0o600, staging=staging):
            pass
    assert (directory / "file").read_text() == "precious"
    assert os.listdir(staging) == []


async def test_the_directory_itself_may_be_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with listening(tmp_path / "s", mode=0o600, staging=tmp_path / "." / ".." / tmp_path.name):
        assert os.listdir(tmp_path) == ["s"]
    assert "locked by somebody" not in caplog.text


async def test_a_directory_to_make_it_in_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"open the directory of socket .*/gone/s"):
        async with listening(tmp_path / "s", mode=0o600, staging=tmp_path / "gone"):
            pass


async def test_what_kills_left_in_both_directories_is_swept_up(places: tuple[Path, Path]) -> None:
    directory, staging = places
    for one in places:
        stale(one / ".dray-socket-deadbeef")
    async with listening(directory / "s", mode=0o600, staging=staging):
        assert (os.listdir(directory), os.listdir(staging)) == (["s"], [])


@pytest.mark.parametrize("before", ["free", "taken"])
def test_a_kill_at_every_system_call_leaves_nothing_that_a_start_does_not_clean(
    places: tuple[Path, Path], before: str
) -> None:
    argv = [sys.executable, "-m", "tests.wire.socket_steps", *map(str, places), before]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    if "skip" in result:
        pytest.skip(result["skip"])
    assert result["faults"] == []
    assert result["finished"]
    assert result["kills"] > 30


async def test_dead_sockets_are_removed_and_nothing_else(tmp_path: Path) -> None:
    stale(tmp_path / "ours-dead")
    stale(tmp_path / "theirs-dead")
    (tmp_path / "ours-file").write_text("")
    (tmp_path / "ours-link").symlink_to("ours-dead")
    async with listening(tmp_path / "ours-live", mode=0o600):
        await remove_dead(tmp_path, lambda name: name.startswith("ours-"))
        assert sorted(os.listdir(tmp_path)) == ["ours-file", "ours-link", "ours-live", "theirs-dead"]
    await remove_dead(tmp_path / "nowhere", lambda _: True)


async def test_dead_sockets_stay_while_somebody_else_works_on_the_directory(tmp_path: Path) -> None:
    """It may be one that is between bind and listen."""
    stale(tmp_path / "dead")
    holder = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        await remove_dead(tmp_path, lambda _: True)
        assert os.listdir(tmp_path) == ["dead"]
    finally:
        os.close(holder)
    await remove_dead(tmp_path, lambda _: True)
    assert os.listdir(tmp_path) == []
