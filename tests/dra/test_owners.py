from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest

from dray.dra.owners import find_owner, refuse_second
from dray.dra.register import DriverSockets, Registrar
from dray.errors import ConflictError, HardwareError
from dray.runtime.clock import FakeClock, SystemClock
from dray.wire.gen.pluginregistration_v1_pb2 import InfoRequest, PluginInfo
from dray.wire.registration import RegistrationService
from dray.wire.serve import serve
from tests.dra.tiny import DRIVER
from tests.waiting import wait_until


@pytest.fixture
def kubelet(tmp_path: Path) -> Path:
    (tmp_path / "plugins_registry").mkdir()
    return tmp_path


@asynccontextmanager
async def served(sockets: DriverSockets, path: Path | None = None) -> AsyncIterator[None]:
    registrar = Registrar(sockets, lambda: None)
    async with serve(path or sockets.registration, [RegistrationService(registrar)], directory_mode=0o750):
        yield


@contextmanager
def process(kubelet: Path, *instance: str) -> Iterator[subprocess.Popen[str]]:
    """The small driver in a process of its own, ready; killed at the end."""
    command = [sys.executable, "-m", "tests.dra.tiny_driver", str(kubelet), str(kubelet), *instance]
    environment = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            yield child
        finally:
            child.kill()


class Silent:
    """Sockets that take connections and say nothing; `most` were connected at the same time."""

    at_once = 0
    most = 0

    async def listen(self, path: Path) -> asyncio.Server:
        return await asyncio.start_unix_server(self._take, path)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        with suppress(ConnectionError):
            await reader.read()
        self.at_once -= 1
        writer.close()


async def test_a_process_is_named(kubelet: Path) -> None:
    ours = DriverSockets(DRIVER, kubelet, "mine")
    with process(kubelet) as other:
        with pytest.raises(ConflictError) as caught:
            await refuse_second(ours, SystemClock(), patience=0.1)
        text = str(caught.value)
        assert text.startswith(f"driver {DRIVER} is served on this node by ")
        assert f"tests.dra.tiny_driver {kubelet}" in text
        assert f"(pid {other.pid})" in text
        assert f"registration socket {kubelet}/plugins_registry/{DRIVER}-reg.sock" in text
        assert text.endswith("stop that process, or give this driver another name")
        assert await find_owner(DriverSockets("other.example.com", kubelet)) is None
        other.kill()
        other.wait()
        # Its sockets are still there, and nobody answers.
        assert (kubelet / "plugins_registry" / f"{DRIVER}-reg.sock").is_socket()
        await refuse_second(ours, SystemClock(), patience=0)


async def test_an_instance_of_the_same_update_is_no_rival(kubelet: Path) -> None:
    mine, other = DriverSockets(DRIVER, kubelet, "mine"), DriverSockets(DRIVER, kubelet, "other")
    async with served(other):
        assert await find_owner(mine) is None
        assert await find_owner(DriverSockets(DRIVER, kubelet)) is not None
        # The same instance on another socket is nobody's sibling, nor is another data directory.
    async with served(mine, kubelet / "plugins_registry" / "x-reg.sock"):
        assert await find_owner(mine) is not None
    elsewhere = DriverSockets(DRIVER, kubelet / "elsewhere", "other")
    async with served(elsewhere, other.registration):
        assert await find_owner(mine) is not None


async def test_sockets_below_are_asked_and_hidden_ones_are_not(kubelet: Path) -> None:
    ours = DriverSockets(DRIVER, kubelet)
    async with served(ours, ours.registry / "a" / "b" / "any.sock"):
        found = await find_owner(ours)
        assert found is not None
        assert found.registration == ours.registry / "a" / "b" / "any.sock"
    async with served(ours, ours.registry / ".hidden.sock"):
        assert await find_owner(ours) is None


async def test_one_that_leaves_gets_time(kubelet: Path) -> None:
    ours = DriverSockets(DRIVER, kubelet)
    entered, gone, clock = asyncio.Event(), asyncio.Event(), FakeClock()

    async def other() -> None:
        async with served(ours):
            entered.set()
            await wait_until(lambda: bool(clock.sleepers))
        gone.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(other())
        await entered.wait()
        refusing = group.create_task(refuse_second(ours, clock, patience=5))
        await gone.wait()
        assert not refusing.done()
        await clock.advance(4)


async def test_peers_that_talk_nonsense_are_nobody(kubelet: Path) -> None:
    class Angry(Registrar):
        async def get_info(self, request: InfoRequest) -> PluginInfo:
            raise HardwareError("go away")

    registry = kubelet / "plugins_registry"
    (registry / "file.sock").write_text("no socket")
    (registry / "link.sock").symlink_to("/nowhere")

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" * 100)
        with suppress(ConnectionError):
            await writer.drain()
        writer.close()

    loud = await asyncio.start_unix_server(talk, registry / f"{DRIVER}-x-reg.sock")
    csi, silent = DriverSockets(DRIVER, kubelet, "csi"), Silent()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(loud)
        for number in range(4):
            await stack.enter_async_context(await silent.listen(registry / f"silent{number}.sock"))
        await stack.enter_async_context(
            serve(registry / "angry.sock", [RegistrationService(Angry(csi, lambda: None))])
        )
        assert await find_owner(csi) is None
        await wait_until(lambda: silent.at_once == 0)
    # Each gets a second, and they get the same one.
    assert silent.most == 4
