from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dray.errors import DeniedError, InvalidError, InvariantError
from dray.runtime.clock import FakeClock, settle
from dray.runtime.files.filewatch import Entry, FileWatch, Kind, Snapshot
from tests.campaign import LONG, campaign, seeded, seeds
from tests.runtime.files.conftest import ROOT, RunProgram
from tests.runtime.files.programs.file_storm import LISTED, TARGETS
from tests.waiting import PATIENCE, Sleeps, wait_until


async def changed(watch: FileWatch) -> Snapshot:
    return await asyncio.wait_for(watch.wait_changed(), PATIENCE)


async def entry(watch: FileWatch, path: Path) -> Entry | None:
    return (await changed(watch)).paths[path]


async def assert_silent(watch: FileWatch, other: Path, root: Path = Path("/")) -> None:
    """Nothing that happened so far is told: of all that is watched, only another path that comes now is different."""
    before = watch.snapshot
    assert before.paths[other] is None
    place = root / other.relative_to("/")
    place.mkdir()
    now = await changed(watch)
    assert {**now.paths, other: None} == before.paths
    assert now.directories == before.directories
    place.rmdir()
    assert await entry(watch, other) is None


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


MAKE: dict[Kind, Callable[[Path], object]] = {
    Kind.FILE: Path.touch,
    Kind.DIRECTORY: Path.mkdir,
    Kind.SYMLINK: lambda path: path.symlink_to("elsewhere"),
    Kind.SOCKET: bind,
    Kind.FIFO: os.mkfifo,
}


@pytest.mark.parametrize("kind", MAKE)
async def test_each_kind_of_file_is_seen_to_come_and_go(tmp_path: Path, kind: Kind) -> None:
    path = tmp_path / "x"
    async with FileWatch([path]) as watch:
        assert watch.snapshot.paths[path] is None
        MAKE[kind](path)
        seen = await entry(watch, path)
        assert seen is not None and seen.kind is kind and seen.inode == path.lstat().st_ino
        assert seen.device == path.lstat().st_dev
        assert seen.target == ("elsewhere" if kind is Kind.SYMLINK else "")
        path.rename(tmp_path / "y")
        assert await entry(watch, path) is None
        (tmp_path / "y").rename(path)
        again = await entry(watch, path)
        assert again is not None and again.inode == seen.inode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make device nodes")
async def test_a_device_node_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "null"
    async with FileWatch([path]) as watch:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        seen = await entry(watch, path)
        assert seen is not None and seen.kind is Kind.CHARACTER_DEVICE


async def test_parents_may_be_missing_vanish_and_come_back(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c" / "x"
    async with FileWatch([path]) as watch:
        for _ in range(5):
            path.parent.mkdir(parents=True)
            path.touch()
            assert await entry(watch, path) is not None
            path.unlink()
            for parent in list(path.parents)[:3]:
                parent.rmdir()
            assert await entry(watch, path) is None


async def test_a_parent_moved_away_takes_the_file_along(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "x"
    path.parent.mkdir(parents=True)
    path.touch()
    async with FileWatch([path, tmp_path / "other"]) as watch:
        first = watch.snapshot.paths[path]
        (tmp_path / "a").rename(tmp_path / "away")
        assert await entry(watch, path) is None
        (tmp_path / "away" / "b" / "x").unlink()  # no longer ours
        await assert_silent(watch, tmp_path / "other")
        path.parent.mkdir(parents=True)
        path.touch()
        second = await entry(watch, path)
        assert first is not None and second is not None and second.generation > first.generation


async def test_a_file_in_the_place_of_a_parent_is_not_a_way(tmp_path: Path) -> None:
    path = tmp_path / "a" / "x"
    async with FileWatch([path, tmp_path / "other"]) as watch:
        (tmp_path / "a").touch()
        await assert_silent(watch, tmp_path / "other")
        (tmp_path / "a").unlink()
        path.parent.mkdir()
        path.touch()
        assert await entry(watch, path) is not None


async def test_a_file_replaced_between_two_looks_is_another_generation(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.touch()
    async with FileWatch([path]) as watch:
        last = watch.snapshot.paths[path]
        for _ in range(20):
            path.unlink()
            path.touch()  # ext4 and tmpfs hand out the same inode number again
            now = await entry(watch, path)
            assert last is not None and now is not None and now.generation > last.generation
            last = now


async def test_a_file_moved_away_and_back_may_be_another_one(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.touch()
    async with FileWatch([path]) as watch:
        before = watch.snapshot.paths[path]
        path.rename(tmp_path / "y")
        (tmp_path / "y").rename(path)
        after = await entry(watch, path)
        assert before is not None and after is not None and after.inode == before.inode
        assert after.generation > before.generation


@pytest.mark.parametrize("scenario", ["create", "many", *(["parent", "replace", "swap"] if LONG else [])])
def test_a_change_between_any_two_system_calls_is_noticed_and_told_once(
    run_program: RunProgram, scenario: str
) -> None:
    result = run_program("watch_steps", scenario)
    assert result["faults"] == []
    assert result["stops"] > 20


async def test_the_end_of_a_burst_is_never_missed(tmp_path: Path) -> None:
    path = tmp_path / "a" / "x"
    rng = seeded(1)

    def burst() -> None:
        for _ in range(rng.randrange(1, 60)):
            shutil.rmtree(path.parent) if path.parent.exists() else path.parent.mkdir()
            with contextlib.suppress(FileNotFoundError):
                path.touch()

    async with FileWatch([path]) as watch:
        for _ in range(campaign(15, 5000)):
            bursting = asyncio.ensure_future(asyncio.to_thread(burst))
            deadline = time.monotonic() + PATIENCE
            while not bursting.done() or not agrees(watch.snapshot):
                assert time.monotonic() < deadline, "the last change was missed"
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(watch.wait_changed(), 0.02)
            await bursting


async def test_content_mode_and_neighbours_are_not_told(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.touch()
    async with FileWatch([path, tmp_path / "other"]) as watch:
        path.chmod(0o600)
        path.write_text("new")
        (tmp_path / "y").touch()
        await assert_silent(watch, tmp_path / "other")


async def test_content_is_told_to_who_asks_when_its_writer_is_done(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("old")
    async with FileWatch([path, tmp_path / "other"], contents=True) as watch:
        before = watch.snapshot.paths[path]
        path.read_text()
        path.chmod(0o600)
        (tmp_path / "y").write_text("other")
        with path.open("w") as file:
            file.write("new")
            file.flush()
            await assert_silent(watch, tmp_path / "other")
        after = (await changed(watch)).paths[path]
    assert before and after and after.generation > before.generation


async def test_a_directory_is_told_with_all_its_entries(tmp_path: Path) -> None:
    directory = tmp_path / "plugins"
    async with FileWatch([tmp_path / "other"], directories=[directory]) as watch:
        assert watch.snapshot.directories[directory] is None
        directory.mkdir()
        assert (await changed(watch)).directories[directory] == {}
        (directory / "b").touch()
        bind(directory / "a")
        listing = (await changed(watch)).directories[directory]
        while listing is None or len(listing) < 2:
            listing = (await changed(watch)).directories[directory]
        assert {name: each.kind for name, each in listing.items()} == {"a": Kind.SOCKET, "b": Kind.FILE}
        (directory / "a").unlink()
        bind(directory / "a")
        second = (await changed(watch)).directories[directory]
        assert second is not None and second["a"].generation > listing["a"].generation
        assert second["b"] == listing["b"]
        directory.rename(tmp_path / "away")
        assert (await changed(watch)).directories[directory] is None
        directory.touch()
        await assert_silent(watch, tmp_path / "other")


async def test_a_link_among_the_parents_is_followed_and_watched(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "sub").mkdir(parents=True)
    (tmp_path / "one" / "sub" / "x").touch()
    (tmp_path / "link").symlink_to("one")
    (tmp_path / "far").symlink_to(tmp_path / "link" / ".." / "link")
    path = tmp_path / "far" / "sub" / "x"
    async with FileWatch([path]) as watch:
        assert watch.snapshot.paths[path] is not None
        (tmp_path / "new").symlink_to("two")
        (tmp_path / "new").rename(tmp_path / "link")
        assert await entry(watch, path) is None
        (tmp_path / "two" / "sub" / "x").touch()
        assert await entry(watch, path) is not None


async def test_below_another_root_no_link_leads_out(tmp_path: Path) -> None:
    """As with a host's root under /proc/1/root, whose /var/run is a link to /run."""
    root = tmp_path / "host"
    (root / "run" / "kubelet").mkdir(parents=True)
    (root / "var").mkdir()
    (root / "var" / "run").symlink_to("/run")
    (root / "up").symlink_to("../../../run")
    (tmp_path / "run").mkdir()
    paths, other = [Path("/var/run/kubelet/x"), Path("/up/kubelet/x")], Path("/other")
    async with FileWatch([*paths, other], directories=[Path("/var/run/kubelet")], root=root) as watch:
        assert list(watch.snapshot.paths.values()) == [None, None, None]
        (root / "run" / "kubelet" / "x").touch()
        seen = await changed(watch)
        assert all(seen.paths[path] is not None for path in paths)
        assert list(seen.directories[Path("/var/run/kubelet")] or {}) == ["x"]
        (tmp_path / "run" / "kubelet").mkdir()
        await assert_silent(watch, other, root)


async def test_links_in_a_circle_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    path = tmp_path / "a" / "x"
    async with FileWatch([path], follow=True) as watch:
        assert watch.snapshot.paths[path] is None
        (tmp_path / "b").unlink()
        (tmp_path / "b").mkdir()
        (tmp_path / "b" / "x").touch()
        assert await entry(watch, path) is not None


async def test_follow_sees_a_mounted_config_map_change(tmp_path: Path) -> None:
    """The kubelet swaps the link `..data`; the file's own link never changes."""
    for name in ("v1", "v2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").write_text(name)
    (tmp_path / "..data").symlink_to("v1")
    path = tmp_path / "token"
    path.symlink_to("..data/token")
    async with FileWatch([path], follow=True) as watch, FileWatch([path, tmp_path / "other"]) as plain:
        (tmp_path / "..tmp").symlink_to("v2")
        (tmp_path / "..tmp").rename(tmp_path / "..data")
        seen = await entry(watch, path)
        assert seen is not None and seen.kind is Kind.FILE and seen.inode == path.stat().st_ino
        await assert_silent(plain, tmp_path / "other")


async def test_the_iterator_gives_the_present_and_then_each_change(tmp_path: Path) -> None:
    path = tmp_path / "x"
    seen = []
    async with FileWatch([path]) as watch:
        async for snapshot in watch:
            seen.append(snapshot.paths[path] is not None)
            if len(seen) == 3:
                break
            path.unlink() if path.exists() else path.touch()
    assert seen == [False, True, False]


async def test_a_cancelled_wait_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x"
    async with FileWatch([path]) as watch:
        for _ in range(10):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(watch.wait_changed(), 0.001)
        path.touch()
        for _ in range(10):
            waiting = asyncio.ensure_future(watch.wait_changed())
            await asyncio.sleep(0)
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waiting
        if watch.snapshot.paths[path] is None:
            await changed(watch)
        assert watch.snapshot.paths[path] is not None


async def test_the_root_directory_can_be_watched() -> None:
    async with FileWatch([Path("/")], directories=[Path("/")]) as watch:
        root = watch.snapshot.paths[Path("/")]
        listing = watch.snapshot.directories[Path("/")]
        assert root is not None and root.kind is Kind.DIRECTORY
        assert listing is not None and "proc" in listing


@pytest.mark.parametrize("path", ["x", "./x", "/x\0y"])
def test_bad_paths_are_refused(path: str) -> None:
    with pytest.raises(InvalidError, match="absolute"):
        FileWatch([Path(path)])


async def test_reading_before_entering_is_our_own_bug() -> None:
    with pytest.raises(InvariantError):
        _ = FileWatch([Path("/x")]).snapshot


async def test_leaving_gives_every_descriptor_back(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for number in range(20):
        async with FileWatch([tmp_path / "x"], directories=[tmp_path], poll_interval=1) as watch:
            (tmp_path / str(number)).touch()
            await changed(watch)
    assert len(os.listdir("/proc/self/fd")) == before


# --- polling -------------------------------------------------------------------------------------------------------


async def test_polling_sees_what_the_kernel_does_not_tell() -> None:
    """procfs, like sysfs, gives no events."""
    clock = FakeClock()
    process = subprocess.Popen(["sleep", "60"])
    path = Path(f"/proc/{process.pid}/ns")
    async with FileWatch([path], poll_interval=5, clock=clock) as watch:
        assert watch.snapshot.paths[path] is not None
        waiting = asyncio.ensure_future(watch.wait_changed())
        await wait_until(lambda: clock.sleepers)
        process.kill()
        process.wait()
        await clock.advance(4.9)
        assert not waiting.done()
        await clock.advance(0.2)
        await settle()
        snapshot = await asyncio.wait_for(waiting, PATIENCE)
        assert snapshot.paths[path] is None and not watch.polling_because


async def test_a_directory_that_may_not_be_read_needs_polling(tmp_path: Path, not_root: None) -> None:
    path = tmp_path / "dark" / "x"
    path.parent.mkdir()
    path.parent.chmod(0o300)
    try:
        with pytest.raises(DeniedError, match="dark"):
            async with FileWatch([path]):
                pass
        async with FileWatch([path], poll_interval=0.02) as watch:
            path.touch()
            assert await entry(watch, path) is not None
            assert "dark" in watch.polling_because
    finally:
        path.parent.chmod(0o700)


def test_used_up_limits_are_told_with_the_setting_to_raise(
    tmp_path: Path, run_program: RunProgram, namespace_prefix: tuple[str, ...]
) -> None:
    result = run_program("watch_limits", tmp_path, prefix=namespace_prefix)
    assert "max_user_watches" in result["later"]
    assert "max_user_watches" in result["watches"]
    assert "max_user_instances" in result["instances"]
    assert result["polled"] == {"because": result["watches"], "seen": True}
    assert result["polled_without"] == {"because": result["instances"], "seen": True}


def test_mounts_and_unmounts_are_survived(
    tmp_path: Path, run_program: RunProgram, namespace_prefix: tuple[str, ...]
) -> None:
    assert run_program("watch_mounts", tmp_path, prefix=namespace_prefix) == [True, False, True, False]


# --- storms --------------------------------------------------------------------------------------------------------


def truth(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def told(seen: Entry | None) -> tuple[int, int] | None:
    return (seen.device, seen.inode) if seen else None


def agrees(snapshot: Snapshot) -> bool:
    for path, seen in snapshot.paths.items():
        if told(seen) != truth(path):
            return False
    for path, listing in snapshot.directories.items():
        names = sorted(os.listdir(path)) if path.is_dir() else None
        if (sorted(listing) if listing is not None else None) != names:
            return False
        if listing is not None and any(told(seen) != truth(path / name) for name, seen in listing.items()):
            return False
    return True


@pytest.mark.parametrize("seed", seeds(1, 30))
async def test_after_a_random_storm_the_snapshot_is_the_disk(tmp_path: Path, seed: int) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a")
    argv = [sys.executable, "-m", "tests.runtime.files.programs.file_storm", str(tmp_path)]
    async with FileWatch([tmp_path / name for name in TARGETS], directories=[tmp_path / LISTED]) as watch:
        generations: dict[Path, int] = {}
        changes = storms = 0
        while changes <= 3:  # a storm may be over in fewer looks; then there is another
            assert storms < 20
            words = (str(campaign(3000, 10000)), str(seed + 1000 * storms))
            storm = await asyncio.create_subprocess_exec(*argv, *words, cwd=ROOT)
            storms += 1
            ended = asyncio.ensure_future(storm.wait())
            while not ended.done():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(watch.wait_changed(), 0.1)
                    changes += 1
                for path, seen in watch.snapshot.paths.items():
                    assert seen is None or seen.generation >= generations.get(path, 0)
                    generations[path] = seen.generation if seen else generations.get(path, 0)
            assert ended.result() == 0
            await assert_settles(watch)


async def assert_settles(watch: FileWatch) -> None:
    """When nothing happens any more, the watch comes to tell what is on the disk."""
    while not agrees(watch.snapshot):
        await changed(watch)


async def test_an_overflow_is_survived_and_everything_counts_as_new(tmp_path: Path) -> None:
    queue = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if queue > 100_000:
        pytest.skip(f"this machine queues {queue} inotify events: too many to overflow in a test")
    kept = tmp_path / "kept"
    kept.touch()
    late = tmp_path / "late"
    async with FileWatch([kept, late], directories=[tmp_path]) as watch:
        before = watch.snapshot.paths[kept]
        one, other = str(tmp_path / "one"), str(tmp_path / "other")
        Path(one).touch()
        for _ in range(
            queue // 2 + 10
        ):  # two events each; the loop does not run meanwhile, so nothing is read
            os.rename(one, other)
            one, other = other, one
        late.touch()  # its event is lost
        snapshot = await changed(watch)
        after = snapshot.paths[kept]
        assert snapshot.paths[late] is not None
        assert before is not None and after is not None
        assert after.generation > before.generation and after.inode == before.inode
        assert agrees(snapshot)
        late.unlink()
        assert (await changed(watch)).paths[late] is None


def test_an_idle_watch_does_not_wake_up(tmp_path: Path) -> None:
    sleeps = Sleeps()

    async def scenario() -> None:
        async with FileWatch([tmp_path / "x"]) as watch:
            waiting = asyncio.ensure_future(watch.wait_changed())
            await sleeps.wait_asleep()
            assert not waiting.done()
            waiting.cancel()

    sleeps.run(scenario)


@pytest.mark.parametrize("name", ["x", "neighbour"])
def test_a_storm_wakes_it_a_bounded_number_of_times(tmp_path: Path, name: str) -> None:
    program = (
        "import os, sys, time\nprint(flush=True)\nend = time.monotonic() + 600\n"
        "while time.monotonic() < end:\n  os.close(os.open(sys.argv[1], os.O_CREAT)); os.unlink(sys.argv[1])"
    )
    sleeps = Sleeps()
    loop = asyncio.SelectorEventLoop(sleeps)

    async def scenario() -> None:
        argv = [sys.executable, "-c", program, str(tmp_path / name)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as storm:
            assert storm.stdout is not None and storm.stdout.readline()
            async with FileWatch([tmp_path / "x"]) as watch:
                before, began = sleeps.wakeups, loop.time()
                try:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(0.3):
                            while True:
                                await watch.wait_changed()
                    # Two turns of the loop for each look, at most a hundred looks a second, however long it took.
                    assert sleeps.wakeups - before < (loop.time() - began) * 100 * 4 + 20
                finally:
                    storm.kill()
                storm.wait()
                await assert_settles(watch)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(scenario())
