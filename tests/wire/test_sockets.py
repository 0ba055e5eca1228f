from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dray.errors import ConflictError, DeniedError, InvalidError, NotFoundError
from dray.runtime.clock import settle
from dray.wire.sockets import dial, listening, peer_of
from tests.campaign import campaign

OBSERVER = """
import errno, os, socket, stat, sys, time
path, seen, end = sys.argv[1], set(), time.monotonic() + 600

def look():
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None

print("ready", flush=True)
while os.path.exists(sys.argv[2]) and time.monotonic() < end:
    found = look()
    if found:
        seen.add(oct(stat.S_IMODE(found.st_mode)) if stat.S_ISSOCK(found.st_mode) else "no socket")
    probe = socket.socket(socket.AF_UNIX)
    try:
        probe.connect(path)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EAGAIN):
            after = look()
            # A door that closes behind its name is fine; one that is closed while its name stays is not.
            if found and after and (found.st_ino, found.st_ctime_ns) == (after.st_ino, after.st_ctime_ns):
                seen.add(errno.errorcode[error.errno])
    probe.close()
print(*sorted(seen))
"""

CONTENDER = """
import asyncio, sys
from pathlib import Path
from dray.errors import ConflictError
from dray.runtime.clock import settle
from dray.wire.sockets import listening

async def main():
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        async with listening(Path(sys.argv[1]), mode=0o600):
            print("won", flush=True)
            sys.stdin.readline()
    except ConflictError as error:
        print("lost", flush=True)

asyncio.run(main())
"""


@contextmanager
def umask(mask: int) -> Iterator[None]:
    former = os.umask(mask)
    try:
        yield
    finally:
        os.umask(former)


def stale(path: Path) -> None:
    """A socket whose server died without cleaning up."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
        dead.listen()


@pytest.mark.parametrize("mask", [0, 0o022, 0o077, 0o777])
@pytest.mark.parametrize("mode", [0o600, 0o660, 0o777])
async def test_the_mode_is_the_one_asked_for_whatever_the_umask(
    socket_path: Path, mode: int, mask: int
) -> None:
    with umask(mask):
        async with listening(socket_path, mode=mode):
            found = socket_path.lstat()
            assert stat.S_ISSOCK(found.st_mode)
            assert stat.S_IMODE(found.st_mode) == mode


async def test_nobody_ever_sees_a_wrong_mode_or_a_closed_door(tmp_path: Path) -> None:
    path, running = tmp_path / "s", tmp_path / "running"
    running.touch()
    command = [sys.executable, "-c", OBSERVER, str(path), str(running)]
    with umask(0), subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as observer:
        assert observer.stdout is not None
        assert observer.stdout.readline() == "ready\n"
        for _ in range(campaign(100, 20_000)):
            async with listening(path, mode=0o600):
                pass
        running.unlink()
        assert observer.stdout.readline().split() in (["0o600"], [])
    assert os.listdir(tmp_path) == []


async def test_a_stale_socket_is_replaced_without_a_gap(socket_path: Path) -> None:
    stale(socket_path)
    former = socket_path.lstat().st_ino
    async with listening(socket_path, mode=0o600) as listener:
        assert socket_path.lstat().st_ino != former
        (await dial(socket_path)).close()
        assert listener.path == str(socket_path)
    assert not socket_path.exists()


async def test_a_live_socket_is_left_alone(socket_path: Path) -> None:
    async with listening(socket_path, mode=0o600):
        with pytest.raises(ConflictError, match=f"'{socket_path}' is in use by another server"):
            async with listening(socket_path, mode=0o600):
                pass
        (await dial(socket_path)).close()


async def test_a_busy_socket_counts_as_live(socket_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(str(socket_path))
        busy.listen(0)
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(3)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(str(socket_path))
        with pytest.raises(ConflictError, match="in use"):
            async with listening(socket_path, mode=0o600):
                pass
        for one in waiting:
            one.close()


async def test_a_datagram_socket_counts_as_live(socket_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(str(socket_path))
        with pytest.raises(ConflictError, match="in use"):
            async with listening(socket_path, mode=0o600):
                pass


async def test_what_is_no_socket_is_never_removed(tmp_path: Path) -> None:
    kept = tmp_path / "kept.sock"
    stale(kept)
    (tmp_path / "file").write_text("precious")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(kept)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    before = {name: (tmp_path / name).lstat().st_ino for name in os.listdir(tmp_path)}
    for name in ("file", "folder", "link", "dangling", "pipe"):
        with pytest.raises(InvalidError, match="is no socket: remove it or choose another path") as caught:
            async with listening(tmp_path / name, mode=0o600):
                pass
        assert caught.value.field == str(tmp_path / name)
    assert {name: (tmp_path / name).lstat().st_ino for name in os.listdir(tmp_path)} == before
    assert (tmp_path / "file").read_text() == "precious"


async def test_of_several_that_start_at_once_one_wins(socket_path: Path) -> None:
    command = [sys.executable, "-c", CONTENDER, str(socket_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    for _ in range(campaign(1, 50)):
        stale(socket_path)
        several = [subprocess.Popen(command, text=True, **pipes) for _ in range(4)]  # type: ignore[call-overload]
        outputs = [process.stdout.readline() for process in several]
        assert outputs == ["ready\n"] * 4
        for process in several:
            process.stdin.write("\n")
            process.stdin.flush()
        outcomes = sorted(process.stdout.readline() for process in several)
        for process in several:
            process.communicate("\n")
        assert outcomes == ["lost\n", "lost\n", "lost\n", "won\n"]
        assert not socket_path.exists()


async def test_a_lock_on_the_directory_delays_but_does_not_stop(
    socket_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    holder = os.open(socket_path.parent, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    async with listening(socket_path, mode=0o600):
        assert "going on without" in caplog.text
    caplog.clear()
    entered = asyncio.Event()

    async def listen() -> None:
        async with listening(socket_path, mode=0o600):
            entered.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(listen())
        await settle()
        assert not entered.is_set(), "it waits for the lock"
        os.close(holder)
        await entered.wait()
    assert "going on without" not in caplog.text


async def test_what_a_killed_process_left_is_swept_up(tmp_path: Path) -> None:
    stale(tmp_path / ".dray-socket-deadbeef")
    (tmp_path / ".dray-socket-notasocket").write_text("")
    async with listening(tmp_path / "s", mode=0o600):
        assert sorted(os.listdir(tmp_path)) == [".dray-socket-notasocket", "s"]


async def test_a_successors_socket_is_not_removed(socket_path: Path) -> None:
    async with listening(socket_path, mode=0o600):
        socket_path.unlink()
        stale(socket_path)
        theirs = socket_path.lstat().st_ino
    assert socket_path.lstat().st_ino == theirs


async def test_a_moved_directory_is_cleaned_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    async with listening(tmp_path / "a" / "s", mode=0o600):
        (tmp_path / "a").rename(tmp_path / "b")
    assert os.listdir(tmp_path / "b") == []


async def test_a_removed_directory_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    async with listening(tmp_path / "a" / "s", mode=0o600):
        (tmp_path / "a" / "s").unlink()
        (tmp_path / "a").rmdir()
    assert os.listdir(tmp_path) == []


async def test_missing_parents(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "s"
    with pytest.raises(NotFoundError, match="directory of socket"):
        async with listening(path, mode=0o600):
            pass
    with umask(0o077):
        async with listening(path, mode=0o600, directory_mode=0o755):
            assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o755
            assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o755
    async with listening(path, mode=0o600, directory_mode=0o700):
        assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o755


async def test_a_parent_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for directory_mode in (None, 0o755):
        with pytest.raises(InvalidError, match="not a directory"):
            async with listening(tmp_path / "file" / "s", mode=0o600, directory_mode=directory_mode):
                pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_a_directory_of_somebody_else(tmp_path: Path) -> None:
    for folder in (tmp_path, *list(tmp_path.parents)[:2]):
        folder.chmod(0o755)
    os.seteuid(65534)
    try:
        with pytest.raises(DeniedError, match="permission denied"):
            async with listening(tmp_path / "s", mode=0o600):
                pass
    finally:
        os.seteuid(0)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 120])
async def test_an_impossible_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name if name else Path("/")
    with pytest.raises(InvalidError):
        async with listening(path, mode=0o600):
            pass


async def test_odd_but_possible_names(tmp_path: Path) -> None:
    for name in ("ü ö.sock", "new\nline", os.fsdecode(b"\xff\xfe")):
        async with listening(tmp_path / name, mode=0o600):
            (await dial(tmp_path / name)).close()
    assert os.listdir(tmp_path) == []


async def test_who_is_at_the_other_end(socket_path: Path) -> None:
    async with listening(socket_path, mode=0o600) as listener:
        with await dial(socket_path) as connection:
            accepted, _ = await asyncio.get_running_loop().sock_accept(listener.socket)
            with accepted:
                for end in (accepted, connection):
                    peer = peer_of(end)
                    assert (peer.pid, peer.uid, peer.gid) == (os.getpid(), os.getuid(), os.getgid())
