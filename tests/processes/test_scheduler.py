"""`dray scheduler` as a process, against the embedded API server."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from dray.api.kinds import EVENTS, LEASES
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.client.leader import LeaderConfig
from dray.client.lease import LeaseTimes
from dray.errors import NotFoundError
from dray.processes.scheduler import SchedulerOptions, run_scheduler
from dray.runtime.tasks import running
from tests.campaign import campaign
from tests.scheduler.live import CONFIG, Live, live, scheduling
from tests.waiting import until


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Live]:
    async with live(tmp_path) as found:
        yield found


class Program:
    """The command. `lines` is what it logged so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []

    async def read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.lines.append(line.decode())

    async def wait_line(self, text: str) -> str:
        async def is_there() -> bool:
            return any(text in line for line in self.lines) or self.process.returncode is not None

        await until(is_there)
        found = [line for line in self.lines if text in line]
        assert found, self.lines
        return found[0]

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self.process.returncode is None:
            os.kill(self.process.pid, number)
        return await asyncio.wait_for(self.process.wait(), 60)


@asynccontextmanager
async def program(server: Live, *flags: str) -> AsyncIterator[Program]:
    kubeconfig = server.directory / "server" / "admin.kubeconfig"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "dray", "scheduler", f"--kubeconfig={kubeconfig}",
        "--metrics-address=127.0.0.1:0", *flags, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    made = Program(process)
    async with running(made.read(), name="log"):
        try:
            yield made
        finally:
            await made.stop(signal.SIGKILL)


async def get(port: int, path: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    text = (await reader.read()).decode()
    writer.close()
    return text


def port_in(line: str) -> int:
    return int(line.rpartition("port=")[2])


async def test_it_schedules_tells_numbers_and_ends(server: Live) -> None:
    await server.node("n", 4)
    async with program(server, "--seed=3", "--score=best-fit") as one:
        port = port_in(await one.wait_line("msg=metrics"))
        await one.wait_line("msg=ready")
        for number in range(4):
            await server.both(f"p{number}")
        await server.wait_bound("p0", "p1", "p2", "p3")
        assert " 200 " in await get(port, "/healthz") and " 200 " in await get(port, "/readyz")
        assert 'scheduler_pending_pods{queue="unschedulable"} 0' in await get(port, "/metrics")

        async def all_told() -> bool:
            events = [event.reason for event in (await server.client.list(EVENTS)).items]
            return events.count("Scheduled") == 4

        await until(all_told)
        assert await one.stop() == 0
        assert not [line for line in one.lines if "level=error" in line or "Traceback" in line]


async def test_the_second_leads_when_the_first_ends(server: Live) -> None:
    await server.node("n", 2)
    times = LeaseTimes(lease=2.0, renew=1.0, retry=0.1)
    kubeconfig = server.directory / "server" / "admin.kubeconfig"

    def one(name: str) -> SchedulerOptions:
        lease = LeaderConfig("default", "s", name, times)
        return SchedulerOptions(kubeconfig, config=CONFIG, lease=lease)

    async def holder() -> str | None:
        try:
            return (await server.client.get(LEASES, "s", namespace="default")).spec.holder_identity
        except NotFoundError:
            return None

    async def first_leads() -> bool:
        return await holder() == "first"

    async def second_leads() -> bool:
        return await holder() == "second"

    async with AsyncExitStack() as last, AsyncExitStack() as first:
        await first.enter_async_context(running(run_scheduler(one("first")), name="first"))
        await until(first_leads)
        await last.enter_async_context(running(run_scheduler(one("second")), name="second"))
        await server.both("p")
        await server.wait_bound("p")
        assert await first_leads()
        await first.aclose()
        await until(second_leads)
        await server.both("q")
        await server.wait_bound("q")


async def test_the_server_is_killed_again_and_again(tmp_path: Path) -> None:
    """While pods are scheduled. In the end each is bound once, where its device is, and nothing is left over."""
    kills, count = campaign(1, 100), campaign(8, 1000)
    data = tmp_path / "data"
    port = free_port()

    async def start() -> asyncio.subprocess.Process:
        made = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "dray", "apiserver", f"--data-dir={data}", f"--listen=127.0.0.1:{port}",
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert made.stderr is not None
        async with asyncio.timeout(60):
            while b"msg=ready" not in await made.stderr.readline():
                assert not made.stderr.at_eof()
        return made

    process = await start()
    try:
        async with Client(find_access(data / "admin.kubeconfig")) as client:
            server = Live(client, tmp_path)
            await server.device_class()
            for number in range(0, count, 100):
                await server.node(f"n{number}", min(count, 100), has={"cpu": "64"})
            names = [f"p{number}" for number in range(count)]
            for name in names:
                await server.both(name)
            async with Client(find_access(data / "admin.kubeconfig")) as own, scheduling(server, client=own):
                for _ in range(kills):
                    await asyncio.sleep(0.05)
                    process.kill()
                    await process.communicate()
                    process = await start()

                async def all_bound() -> bool:
                    return all((await server.where()).values())

                await until(all_bound, seconds=campaign(60, 120))
            held, where, devices = await server.held(), await server.where(), await server.devices()
            assert len(devices) == len(set(devices)) == count
            for name in names:
                assert held[name][0].startswith(f"{where[name]}/")
                assert [one.name for one in (await server.get_claim(name)).status.reserved_for] == [name]
    finally:
        process.kill()
        await process.communicate()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


async def test_one_that_is_killed_leaves_nothing_undone(server: Live) -> None:
    """Killed while it writes; the next one binds the rest."""
    count = 12
    await server.node("n1", count // 2)
    await server.node("n2", count // 2)
    names = [f"p{number}" for number in range(count)]
    for name in names:
        await server.both(name)
    async with program(server) as one:

        async def has_begun() -> bool:
            return bool(await server.held())

        await until(has_begun)
        await one.stop(signal.SIGKILL)
    async with program(server) as other:
        await other.wait_line("msg=ready")
        await server.wait_bound(*names)
    held, where = await server.held(), await server.where()
    devices = await server.devices()
    assert len(devices) == len(set(devices)) == count
    assert all(held[name][0].startswith(f"{where[name]}/") for name in names)


async def test_bad_flags(server: Live) -> None:
    async with program(server, "--feature-gates=Nonsense=true") as one:
        assert await asyncio.wait_for(one.process.wait(), 60) == 2
        await one.wait_line("no gate 'Nonsense': there are DRAAdminAccess")
