"""Full logs of a CRI runtime's containers, with one that writes to whatever its log path names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dray.errors import UnavailableError
from dray.kubelet.runtimes.contract import ContainerConfig, LogLimits, PodIdentity, SandboxConfig
from dray.kubelet.runtimes.cri import CriRuntime, CriSettings
from dray.kubelet.runtimes.shim_log import put_aside
from dray.runtime.clock import FakeClock
from dray.wire.gen import cri_v1_pb2 as pb
from tests.kubelet.runtimes.small_cri import SmallCri
from tests.waiting import wait_until

POD = PodIdentity("u1", "ns", "p")


@dataclass
class Writing(SmallCri):
    """One container, whose log is at `path`."""

    path: Path = Path()
    file: Any = field(default=None)

    def write(self, count: int) -> None:
        self.file = self.file or self.path.open("ab", buffering=0)
        self.file.write(b"x" * count)

    def do_container_status(self, request: Any) -> Any:
        answer = super().do_container_status(request)
        answer.status.log_path = str(self.path)
        return answer

    def do_reopen_container_log(self, request: Any) -> Any:
        self.file.close()
        self.file = self.path.open("ab", buffering=0)
        return pb.ReopenContainerLogResponse()


@asynccontextmanager
async def world(tmp_path: Path) -> AsyncIterator[tuple[Writing, FakeClock]]:
    socket, clock = tmp_path / "cri.sock", FakeClock()
    small = Writing(path=tmp_path / "logs/0.log")
    settings = CriSettings("me", socket, logs=LogLimits(100, 3, tmp_path / "logs"))
    async with small.serving(socket), CriRuntime(settings, clock) as runtime:
        made = await runtime.run_sandbox(SandboxConfig(POD, "host", tmp_path / "logs"))
        await runtime.start(await runtime.create(made, ContainerConfig(POD, "c", "here", small.path)))
        small.write(1)
        try:
            yield small, clock
        finally:
            small.file.close()


async def look(clock: FakeClock) -> None:
    """The kubelet looks once more, and comes to rest."""
    for seconds in (10.0, 0.0):
        await wait_until(lambda: clock.sleepers)
        await clock.advance(seconds)


async def test_a_full_log_is_put_aside_and_the_oldest_removed(tmp_path: Path) -> None:
    async with world(tmp_path) as (small, clock):
        await look(clock)
        assert "reopen_container_log" not in small.calls
        for _ in range(4):
            small.write(150)
            await look(clock)
        assert small.calls.count("reopen_container_log") == 4
        assert len(put_aside(str(small.path))) == 2
        assert small.path.read_bytes() == b""
        small.write(7)
        assert small.path.stat().st_size == 7


async def test_a_runtime_that_does_not_reopen_keeps_its_file(tmp_path: Path) -> None:
    async with world(tmp_path) as (small, clock):
        small.faults["reopen_container_log"] = [UnavailableError("busy")]
        small.write(150)
        await look(clock)
        assert put_aside(str(small.path)) == []
        assert small.path.stat().st_size == 151
        await look(clock)
        assert [Path(one).stat().st_size for one in put_aside(str(small.path))] == [151]


async def test_a_kill_between_the_two_steps_is_made_up_for(tmp_path: Path) -> None:
    async with world(tmp_path) as (small, clock):
        small.write(150)
        small.path.rename(small.path.parent / "0.log.20300101-000000")
        small.write(5)  # goes into the file that was put aside
        await look(clock)
        assert small.calls.count("reopen_container_log") == 1
        small.write(3)
        assert small.path.stat().st_size == 3
        assert (small.path.parent / "0.log.20300101-000000").stat().st_size == 156


async def test_nothing_is_renamed_through_a_link_in_place_of_a_directory(tmp_path: Path) -> None:
    """A pod with a hostPath of the logs has put it there."""
    async with world(tmp_path) as (small, clock):
        small.write(150)
        small.path.parent.rename(tmp_path / "old")
        (tmp_path / "logs").mkdir()
        small.path = tmp_path / "logs" / "p" / "0.log"
        (tmp_path / "logs" / "p").symlink_to(tmp_path / "old")
        await look(clock)
        assert [one.name for one in (tmp_path / "old").iterdir()] == ["0.log"]
