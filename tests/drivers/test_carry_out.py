from __future__ import annotations

import asyncio
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dray.cdi.edits import ContainerEdits, DeviceNode
from dray.drivers.carry_out import HostWork, WorkLimits
from dray.drivers.contract import Device, Health, Prepared
from dray.drivers.iommufd import IommufdDriver
from dray.drivers.iommufd.passing import Passing
from dray.errors import HardwareError, InvariantError, NotFoundError, UnavailableError
from dray.hardware.change import Chmod, HostChange
from dray.hardware.change.executor import AuditEntry, Executor, Outcome
from dray.hardware.host_root import HostRoot
from dray.runtime.clock import FakeClock
from dray.runtime.files import syscalls
from dray.runtime.threads import Threads
from dray.testing.host import Host
from tests.waiting import PATIENCE, until

EDITS = ContainerEdits(env=(("A", "b"),))
IN_OPEN = 0x20


@dataclass
class Bench:
    """A host of files, an executor that keeps its reports, and what is to be held up."""

    path: Path
    limits: WorkLimits = field(default_factory=WorkLimits)
    entries: list[AuditEntry] = field(default_factory=list)
    held: dict[str, threading.Event] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.host = Host(self.path)
        self.root = HostRoot(self.path)
        self.threads = Threads()
        self.executor = Executor(self.path, self.audit)
        self.work = HostWork(self.root, self.executor, self.threads, limits=self.limits)

    def audit(self, entry: AuditEntry) -> None:
        self.entries.append(entry)
        if entry.outcome is Outcome.STARTED and entry.change.device in self.held:
            self.held[entry.change.device].wait(3600)  # as a kernel that does not answer

    @property
    def outcomes(self) -> list[tuple[str, Outcome]]:
        return [(entry.change.device, entry.outcome) for entry in self.entries]

    def file(self, path: str) -> Path:
        return self.host.file(path, "", mode=0o600)

    def mode(self, path: str) -> int:
        return stat.S_IMODE((self.path / path.lstrip("/")).stat().st_mode)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def terminal() -> Iterator[str]:
    """A device node that nobody else opens."""
    controller, terminal = os.openpty()
    yield os.ttyname(terminal)
    os.close(controller)
    os.close(terminal)


@pytest.fixture
def opened(terminal: str) -> Iterator[int]:
    """An inotify descriptor that is readable once the terminal was opened."""
    watch = syscalls.inotify_init()
    syscalls.inotify_add_watch(watch, terminal, IN_OPEN)
    yield watch
    os.close(watch)


def was_opened(watch: int) -> bool:
    with suppress(BlockingIOError):
        return bool(os.read(watch, 4096))
    return False


async def test_nothing_to_do_needs_no_thread(bench: Bench) -> None:
    bench.file("/dev/iommu")
    work = HostWork(bench.root, bench.executor, Threads(most=0))  # a call would never get its turn
    async with asyncio.timeout(PATIENCE):
        assert await work(Prepared(EDITS)) is EDITS
        assert await work(Prepared(EDITS, required=("/dev/iommu",))) is EDITS


async def test_what_is_required_is_looked_at_before_anything_is_touched(bench: Bench, opened: int) -> None:
    bench.file("/dev/x")
    prepared = Prepared(EDITS, (Chmod("/dev/x", 0o666),), ("/dev/gone",), ("/dev/x",))
    with pytest.raises(HardwareError, match="/dev/gone does not exist"):
        await bench.work(prepared)
    assert bench.mode("/dev/x") == 0o600 and not bench.entries


async def test_a_node_is_opened_first(bench: Bench, terminal: str, opened: int) -> None:
    work = HostWork(HostRoot(Path("/")), bench.executor, bench.threads)
    before = len(os.listdir("/proc/self/fd"))
    assert await work(Prepared(EDITS, open_first=(terminal,))) is EDITS
    assert was_opened(opened)
    assert len(os.listdir("/proc/self/fd")) == before


async def test_what_cannot_be_opened_is_no_error(bench: Bench, terminal: str, opened: int) -> None:
    bench.host.link("/dev/out", terminal)
    bench.host.link("/dev/up", f"../../../../../../../..{terminal}")
    os.mkfifo(bench.path / "dev/fifo")
    bench.host.char_device("/dev/stand-in", 10, 200)
    (bench.path / "dev/dir").mkdir()
    names = ("gone", "out", "up", "fifo", "stand-in", "dir")
    assert await bench.work(Prepared(EDITS, open_first=tuple(f"/dev/{name}" for name in names))) is EDITS
    assert not was_opened(opened)


async def test_a_node_that_hangs_when_it_is_opened_holds_up_one_container_at_most(tmp_path: Path) -> None:
    bench, release = Bench(tmp_path, WorkLimits(open_first=3600)), threading.Event()
    with pytest.raises(UnavailableError):
        await bench.threads.run(
            lambda: release.wait(3600), doing="open", seconds=0.02, alone_on=("open /dev/net/tun",)
        )
    async with asyncio.timeout(PATIENCE):
        assert await bench.work(Prepared(EDITS, open_first=("/dev/net/tun",))) is EDITS
    release.set()


async def test_changes_are_made_or_undone(bench: Bench) -> None:
    bench.file("/dev/x")
    assert await bench.work(Prepared(EDITS, (Chmod("/dev/x", 0o640),))) is EDITS
    assert bench.mode("/dev/x") == 0o640
    changes = (Chmod("/dev/x", 0o666), Chmod("/dev/gone", 0o666))
    with pytest.raises(NotFoundError, match="/dev/gone"):
        await bench.work(Prepared(EDITS, changes))
    assert bench.mode("/dev/x") == 0o640


async def test_changes_of_one_path_do_not_interleave(bench: Bench) -> None:
    """Each container sets two paths; a container's changes are never seen between those of another on the same path."""
    for name in "abc":
        bench.file(f"/dev/{name}")
    modes = [0o600 + number for number in range(1, 25)]
    async with asyncio.TaskGroup() as group:
        for number, mode in enumerate(modes):
            pair = [f"/dev/{name}" for name in ("ab", "bc", "ca")[number % 3]]
            group.create_task(bench.work(Prepared(EDITS, tuple(Chmod(path, mode) for path in pair))))
    told = [(entry.change.device, entry.change) for entry in bench.entries]
    for path in ("/dev/a", "/dev/b", "/dev/c"):
        changes = [change for device, change in told if device == path]
        assert len(changes) == 32 and changes[::2] == changes[1::2]  # STARTED and its end, side by side


async def works(bench: Bench, prepared: Prepared) -> bool:
    try:
        return await bench.work(prepared) is EDITS
    except UnavailableError:
        return False


async def test_a_hung_change_costs_its_own_device_only(tmp_path: Path) -> None:
    bench, before = Bench(tmp_path, WorkLimits(changes=0.1)), set(threading.enumerate())
    release = bench.held["/dev/x"] = threading.Event()
    bench.file("/dev/x")
    bench.file("/dev/y")
    hung = Prepared(EDITS, (Chmod("/dev/x", 0o666),))
    with pytest.raises(UnavailableError, match=r"could not set the mode of /dev/x to 0666 in 0\.1 s"):
        await bench.work(hung)
    for _ in range(100):
        with pytest.raises(UnavailableError, match="an earlier attempt still waits"):
            await bench.work(hung)
    assert len(set(threading.enumerate()) - before) <= 2  # the hung one, and maybe one that looked first
    other = HostWork(bench.root, bench.executor, bench.threads)
    assert await other(Prepared(EDITS, (Chmod("/dev/y", 0o666),))) is EDITS
    bench.held.clear()
    release.set()
    await until(lambda: works(bench, hung))
    assert bench.mode("/dev/x") == 0o666


def device(*upkeep: HostChange) -> Device:
    return Device("pr-helper", "socket", "x.io/pr-helper", Health.HEALTHY, upkeep=upkeep)


async def test_upkeep_makes_so_what_is_not(bench: Bench) -> None:
    path = bench.file("/run/pr.sock")
    kept = [device(Chmod("/run/pr.sock", 0o660)), device()]
    await bench.work.upkeep(kept)
    assert bench.mode("/run/pr.sock") == 0o660
    assert bench.outcomes == [("/run/pr.sock", Outcome.STARTED), ("/run/pr.sock", Outcome.CHANGED)]
    await bench.work.upkeep(kept)
    assert len(bench.entries) == 2
    path.unlink()
    bench.file("/run/pr.sock")
    await bench.work.upkeep(kept)
    assert bench.mode("/run/pr.sock") == 0o660
    assert len(bench.entries) == 4


async def test_a_failed_upkeep_is_told_once_until_it_changes(bench: Bench) -> None:
    bench.file("/run/good")
    bench.host.link("/run/bad", "good")
    kept = [device(Chmod("/run/bad", 0o660), Chmod("/run/good", 0o660))]

    async def told() -> list[str]:
        del bench.entries[:]
        await bench.work.upkeep(kept)
        return [entry.error for entry in bench.entries if entry.outcome is Outcome.FAILED]

    (first,) = await told()
    assert "symbolic link" in first
    assert bench.mode("/run/good") == 0o660  # the one behind it is made all the same
    assert await told() == [] == await told()
    (bench.path / "run/bad").unlink()
    (second,) = await told()
    assert "does not exist" in second
    assert await told() == []
    bench.file("/run/bad")
    assert await told() == []
    assert bench.mode("/run/bad") == 0o660
    (bench.path / "run/bad").unlink()
    assert await told() == [second]


async def test_a_hung_upkeep_holds_up_nobody_else(tmp_path: Path) -> None:
    bench = Bench(tmp_path, WorkLimits(changes=0.1))
    release = bench.held["/run/x"] = threading.Event()
    for path in ("/run/x", "/run/y"):
        bench.file(path)
    async with asyncio.timeout(PATIENCE):
        await bench.work.upkeep([device(Chmod("/run/x", 0o660)), device(Chmod("/run/y", 0o660))])
        await bench.work.upkeep([device(Chmod("/run/x", 0o660))])
    assert bench.mode("/run/y") == 0o660
    release.set()


def open_null(root: HostRoot, path: str) -> int:
    return os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)


async def test_three_containers_get_three_sockets(bench: Bench) -> None:
    bench.host.char_device("/dev/iommu", 10, 125)
    driver = IommufdDriver()
    (found,) = driver.discover(bench.root).devices
    prepared = driver.prepare(found.resource, [found])
    async with Passing(bench.root, bench.executor, FakeClock(), bench.threads, opener=open_null) as passing:
        work = HostWork(bench.root, bench.executor, bench.threads, passing)
        answers = await asyncio.gather(*(work(prepared) for _ in range(3)))
        for edits in answers:
            assert edits.device_nodes == (DeviceNode("/dev/iommu", "/dev/iommu", "mrw"),)
            assert [mount.container_path for mount in edits.mounts] == ["/var/run/kubevirt/iommufd.sock"]
        sources = {edits.mounts[0].host_path for edits in answers}
        assert len(sources) == 3
        assert all((bench.path / source.lstrip("/")).is_socket() for source in sources)
        bench.host.vanish("/dev/iommu")
        with pytest.raises(
            HardwareError, match="this host does not support iommufd: /dev/iommu does not exist"
        ):
            await work(prepared)
    assert os.listdir(bench.path / "var/run/kubevirt") == []


async def test_descriptors_need_somebody_who_passes_them(bench: Bench) -> None:
    driver = IommufdDriver()
    prepared = driver.prepare("x", driver.discover(bench.root).devices)
    with pytest.raises(InvariantError, match="descriptor"):
        await bench.work(prepared)
