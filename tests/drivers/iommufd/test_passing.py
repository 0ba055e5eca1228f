from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from dray.cdi.edits import Mount
from dray.drivers.iommufd.passing import Opener, Passing, PassingLimits
from dray.drivers.iommufd.prepare import PASS
from dray.errors import DeniedError, HardwareError, UnavailableError
from dray.hardware.change import Relabel
from dray.hardware.change.executor import AuditEntry, Executor, Outcome
from dray.hardware.host_root import HostRoot
from dray.runtime.clock import FakeClock, SystemClock, settle
from dray.runtime.threads import Threads
from dray.testing.host import Host
from tests.campaign import campaign, seeded, seeds
from tests.waiting import PATIENCE, wait_until

RECEIVER = """
import os, socket, sys
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    data, descriptors, _, _ = socket.recv_fds(connection, 16, 4)
    print(len(data), len(descriptors), os.read(descriptors[0], 100).decode())
    connection.sendall(b"A")
    print(connection.recv(1) == b"")
"""
KILLED = """
import asyncio, os, sys
from pathlib import Path
from dray.drivers.iommufd.passing import Passing
from dray.drivers.iommufd.prepare import PASS
from dray.hardware.change.executor import Executor, log_changes
from dray.hardware.host_root import HostRoot
from dray.runtime.clock import SystemClock
from dray.runtime.threads import Threads

def opener(root, path):
    return os.open("/dev/null", os.O_RDWR)

async def main():
    root = Path(sys.argv[1])
    async with Passing(HostRoot(root), Executor(root, log_changes), SystemClock(), Threads(), opener=opener) as passing:
        print((await passing.offer(PASS)).host_path, (await passing.offer(PASS)).host_path, flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


@dataclass
class Bench:
    """A host, and what is passed: the read end of a pipe. The write end tells when all copies are closed."""

    root: Path
    clock: FakeClock = field(default_factory=FakeClock)
    entries: list[AuditEntry] = field(default_factory=list)
    writers: list[int] = field(default_factory=list)

    def opener(self, root: HostRoot, path: str) -> int:
        assert (root.path, path) == (self.root, "/dev/iommu")
        reader, writer = os.pipe()
        os.write(writer, b"from the host")
        self.writers.append(writer)
        return reader

    def passing(self, opener: Opener | None = None, limits: PassingLimits | None = None) -> Passing:
        executor = Executor(self.root, self.entries.append)
        return Passing(
            HostRoot(self.root), executor, self.clock, Threads(), opener=opener or self.opener, limits=limits
        )

    def place(self, mount: Mount) -> Path:
        return self.root / mount.host_path.lstrip("/")

    @property
    def files(self) -> list[str]:
        directory = self.root / "var/run/kubevirt"
        return sorted(os.listdir(directory)) if directory.exists() else []

    @property
    def open_copies(self) -> int:
        """How many of the passed descriptors are still open somewhere."""
        return sum(not is_closed(writer) for writer in self.writers)


def is_closed(writer: int) -> bool:
    try:
        os.write(writer, b".")
    except BrokenPipeError:
        return True
    return False


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    for writer in bench.writers:
        os.close(writer)


def take(path: Path) -> tuple[socket.socket, list[int]]:
    """Connect and receive; the connection stays open, without an answer."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(PATIENCE)
    connection.connect(str(path))
    _, descriptors, _, _ = socket.recv_fds(connection, 1, 4)
    return connection, descriptors


async def test_a_process_gets_the_descriptor_and_the_socket_goes(bench: Bench) -> None:
    async with bench.passing() as passing:
        mount = await passing.offer(PASS)
        assert mount.container_path == "/var/run/kubevirt/iommufd.sock" and not mount.read_only
        assert mount.host_path.startswith("/var/run/kubevirt/iommufd-")
        receiver = await asyncio.create_subprocess_exec(
            sys.executable, "-c", RECEIVER, str(bench.place(mount)), stdout=subprocess.PIPE
        )
        out, _ = await asyncio.wait_for(receiver.communicate(), PATIENCE)
        assert out.decode().splitlines() == ["1 1 from the host", "True"]
        await wait_until(lambda: bench.files == [])
        assert bench.open_copies == 0
        assert bench.clock.sleepers == 0


async def test_without_an_answer_it_counts_as_received(bench: Bench) -> None:
    async with bench.passing() as passing:
        silent = bench.place(await passing.offer(PASS))
        connection, descriptors = await asyncio.to_thread(take, silent)
        assert bench.files == [silent.name]
        await bench.clock.advance(10)
        assert bench.files == []
        assert os.read(descriptors[0], 4) == b"from"
        connection.close()
        os.close(descriptors[0])

        leaving = bench.place(await passing.offer(PASS))
        connection, descriptors = await asyncio.to_thread(take, leaving)
        connection.close()
        os.close(descriptors[0])
        await wait_until(lambda: bench.files == [])
    assert bench.open_copies == 0


async def test_a_client_that_never_comes_is_given_up(bench: Bench) -> None:
    async with bench.passing() as passing:
        await passing.offer(PASS)
        await bench.clock.advance(899)
        assert (len(bench.files), bench.open_copies) == (1, 1)
        await bench.clock.advance(1)
        assert (bench.files, bench.open_copies) == ([], 0)


async def test_only_the_first_gets_it(bench: Bench) -> None:
    async with bench.passing() as passing:
        path = bench.place(await passing.offer(PASS))
        with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
            for client in (first, second):
                client.settimeout(PATIENCE)
                client.connect(str(path))
            _, descriptors, _, _ = await asyncio.to_thread(socket.recv_fds, first, 1, 4)
            assert len(descriptors) == 1
            with pytest.raises(ConnectionResetError):
                await asyncio.to_thread(socket.recv_fds, second, 1, 4)
            with socket.socket(socket.AF_UNIX) as third, pytest.raises(ConnectionRefusedError):
                third.connect(str(path))
            first.sendall(b"A")
            await wait_until(lambda: bench.files == [])
            os.close(descriptors[0])


async def test_one_that_is_gone_before_it_got_anything_does_not_count(bench: Bench) -> None:
    async with bench.passing() as passing:
        path = bench.place(await passing.offer(PASS))
        with socket.socket(socket.AF_UNIX) as hasty:
            hasty.connect(str(path))
        await settle()
        connection, descriptors = await asyncio.to_thread(take, path)
        assert len(descriptors) == 1
        os.close(descriptors[0])
        connection.close()


async def test_stopping_leaves_nothing(bench: Bench) -> None:
    async with bench.passing() as passing:
        for _ in range(3):
            await passing.offer(PASS)
        connection, descriptors = await asyncio.to_thread(take, bench.place(await passing.offer(PASS)))
        assert (len(bench.files), bench.open_copies) == (4, 4)
    os.close(descriptors[0])
    connection.close()
    assert (bench.files, bench.open_copies, bench.clock.sleepers) == ([], 0, 0)
    with pytest.raises(UnavailableError, match="/dev/iommu to a container: the agent is stopping"):
        await passing.offer(PASS)
    assert (bench.files, bench.open_copies) == ([], 0)


async def test_a_failing_body_leaves_nothing_and_its_error_comes_out(bench: Bench) -> None:
    with pytest.raises(HardwareError, match="elsewhere"):
        async with bench.passing() as passing:
            await passing.offer(PASS)
            raise HardwareError("elsewhere")
    assert (bench.files, bench.open_copies) == ([], 0)


async def test_what_a_killed_agent_left_is_removed_at_the_next_start(bench: Bench) -> None:
    killed = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, str(bench.root), stdout=subprocess.PIPE
    )
    assert killed.stdout is not None
    told = (await asyncio.wait_for(killed.stdout.readline(), PATIENCE)).decode().split()
    async with bench.passing():  # a second one beside it: what is alive stays, and no client is seen
        assert [f"/var/run/kubevirt/{name}" for name in bench.files] == sorted(told)
        connection, descriptors = await asyncio.to_thread(take, bench.root / told[0].lstrip("/"))
        assert len(descriptors) == 1
        os.close(descriptors[0])
        connection.close()
    killed.send_signal(signal.SIGKILL)
    await asyncio.wait_for(killed.wait(), PATIENCE)
    assert bench.files
    async with bench.passing():
        assert bench.files == []


@pytest.mark.parametrize("seed", seeds(2, 60))
async def test_an_agent_killed_at_any_moment(bench: Bench, seed: int) -> None:
    busy = KILLED.replace("await asyncio.sleep(60)", "\n        while True: await passing.offer(PASS)")
    killed = await asyncio.create_subprocess_exec(
        sys.executable, "-c", busy, str(bench.root), stdout=subprocess.PIPE
    )
    assert killed.stdout is not None
    await asyncio.wait_for(killed.stdout.readline(), PATIENCE)
    await asyncio.sleep(Random(seed).uniform(0.0, 0.1))
    killed.send_signal(signal.SIGKILL)
    await asyncio.wait_for(killed.wait(), PATIENCE)
    assert bench.files
    async with bench.passing():
        assert bench.files == []


async def test_any_mix_of_clients_leaves_nothing(bench: Bench) -> None:
    chance = seeded(7)

    def behave(path: Path, how: str) -> None:
        if how == "never":
            return
        if how == "hasty":
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(path))
            return
        connection, descriptors = take(path)
        if how == "answer":
            connection.sendall(b"A")
        connection.close()
        assert len(descriptors) == 1 and os.read(descriptors[0], 4) == b"from"
        os.close(descriptors[0])

    async with bench.passing() as passing:
        for _ in range(campaign(5, 200)):
            mounts = await asyncio.gather(*(passing.offer(PASS) for _ in range(10)))
            hows = [chance.choice(("never", "hasty", "answer", "silent")) for _ in mounts]
            places = [bench.place(mount) for mount in mounts]
            await asyncio.gather(
                *(asyncio.to_thread(behave, *pair) for pair in zip(places, hows, strict=True))
            )
            taken = {
                place.name for place, how in zip(places, hows, strict=True) if how in ("answer", "silent")
            }
            await wait_until(lambda gone=taken: gone.isdisjoint(bench.files))  # type: ignore[misc]
            left = {place.name for place, how in zip(places, hows, strict=True) if how == "never"}
            assert left <= set(bench.files)  # a hasty one is served or not: it may be slower than we are
            await bench.clock.advance(900)
            assert (bench.files, bench.open_copies) == ([], 0)
            for writer in bench.writers:
                os.close(writer)
            bench.writers.clear()


async def test_when_there_are_too_many_the_oldest_is_given_up(bench: Bench) -> None:
    async with bench.passing(limits=PassingLimits(offers=3)) as passing:
        mounts = [await passing.offer(PASS) for _ in range(5)]
        await wait_until(lambda: len(bench.files) == 3)
        assert bench.files == sorted(bench.place(mount).name for mount in mounts[2:])
        assert bench.open_copies == 3


async def test_labels_where_selinux_is_on(bench: Bench) -> None:
    Host(bench.root).selinux("permissive")
    async with bench.passing() as passing:
        mount = await passing.offer(PASS)
    wanted = [Relabel(path, enforcing=False) for path in ("/var/run/kubevirt", mount.host_path)]
    assert [entry.change for entry in bench.entries if entry.outcome is Outcome.STARTED] == wanted


async def test_a_label_that_cannot_be_set_leaves_nothing(bench: Bench) -> None:
    Host(bench.root).selinux("enforcing")

    def refuse(entry: AuditEntry) -> None:
        raise HardwareError("the audit log is full")

    executor = Executor(bench.root, refuse)
    async with Passing(
        HostRoot(bench.root), executor, SystemClock(), Threads(), opener=bench.opener
    ) as passing:
        with pytest.raises(HardwareError, match="audit log"):
            await passing.offer(PASS)
        assert (bench.files, bench.open_copies) == ([], 0)


async def test_a_link_in_place_of_the_directory_is_refused(bench: Bench, tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "var/run").mkdir(parents=True)
    outside.mkdir()
    (root / "var/run/kubevirt").symlink_to(outside)
    linked = Bench(root)
    async with linked.passing() as passing:
        with pytest.raises(DeniedError, match=r"kubevirt.*symbolic link"):
            await passing.offer(PASS)
    assert (os.listdir(outside), linked.open_copies) == ([], 0)


async def test_a_node_that_does_not_open_in_time(bench: Bench) -> None:
    release = threading.Event()

    def slow(root: HostRoot, path: str) -> int:
        release.wait(PATIENCE)
        return bench.opener(root, path)

    async with bench.passing(slow, PassingLimits(open=0.05)) as passing:
        with pytest.raises(UnavailableError, match=r"could not open /dev/iommu for a container in 0\.05 s"):
            await passing.offer(PASS)
        with pytest.raises(UnavailableError, match="an earlier attempt"):
            await passing.offer(PASS)
        release.set()
        await wait_until(lambda: bool(bench.writers) and bench.open_copies == 0)
        await wait_until(lambda: bench.files == [])


async def test_the_real_opener_says_what_is_missing(bench: Bench) -> None:
    executor = Executor(bench.root, bench.entries.append)
    async with Passing(HostRoot(bench.root), executor, bench.clock, Threads()) as passing:
        with pytest.raises(HardwareError, match="does not support iommufd: /dev/iommu"):
            passing.check(PASS)
        with pytest.raises(HardwareError, match="does not support iommufd: /dev/iommu"):
            await passing.offer(PASS)
    assert bench.files == []
