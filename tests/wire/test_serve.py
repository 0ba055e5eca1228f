from __future__ import annotations

import asyncio
import os
import socket
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from dray.errors import ConflictError, InvariantError, UnavailableError
from dray.runtime.clock import settle
from dray.wire.connect import connect
from dray.wire.deviceplugin import DevicePluginClient, DevicePluginService
from dray.wire.gen.deviceplugin_v1beta1_pb2 import (
    Empty,
    ListAndWatchResponse,
    PreStartContainerRequest,
    PreStartContainerResponse,
)
from dray.wire.limits import Limits
from dray.wire.serve import serve
from dray.wire.status import Code
from tests.campaign import campaign
from tests.waiting import PATIENCE, wait_until
from tests.wire.samples import Plugin, devices, ids_of, raw_client, request_for, stuffed

QUICK = Limits(grace=0.1, stop=0.3, arrival=0.2)


async def test_entered_is_ready_and_left_is_gone(socket_path: Path) -> None:
    async with serve(socket_path, [DevicePluginService(Plugin())]):
        async with connect(socket_path) as channel:
            assert ids_of(await DevicePluginClient(channel).allocate(request_for("a", "b"))) == "a,b"
        assert stat.S_IMODE(socket_path.stat().st_mode) == 0o600
    assert os.listdir(socket_path.parent) == []


async def test_fifty_calls_at_once(plugin: Plugin, socket_path: Path) -> None:
    async with connect(socket_path) as channel, asyncio.TaskGroup() as group:
        client = DevicePluginClient(channel)
        calls = [group.create_task(client.allocate(request_for(str(number)))) for number in range(50)]
    assert [ids_of(call.result()) for call in calls] == [str(number) for number in range(50)]


async def test_a_stream_gives_every_update_and_its_end(plugin: Plugin, socket_path: Path) -> None:
    plugin.updates = [devices(count) for count in range(5)]
    plugin.gate.set()
    async with (
        connect(socket_path) as channel,
        DevicePluginClient(channel).list_and_watch(Empty()) as answers,
    ):
        assert [len(update.devices) async for update in answers] == [0, 1, 2, 3, 4]


async def test_an_unknown_method_is_unimplemented(plugin: Plugin, socket_path: Path) -> None:
    async with raw_client(socket_path) as raw:
        raw.request("/v1beta1.DevicePlugin/Nothing", b"\0\0\0\0\0")
        assert (await raw.status())["grpc-status"] == str(Code.UNIMPLEMENTED.value)


async def test_one_method_has_one_owner(socket_path: Path) -> None:
    twice = [DevicePluginService(Plugin()), DevicePluginService(Plugin())]
    with pytest.raises(InvariantError, match="two services answer"):
        async with serve(socket_path, twice):
            pass
    assert not socket_path.exists()


async def test_a_second_server_is_a_conflict(plugin: Plugin, socket_path: Path) -> None:
    with pytest.raises(ConflictError, match="in use by another server"):
        async with serve(socket_path, []):
            pass
    async with connect(socket_path) as channel:
        await DevicePluginClient(channel).allocate(request_for("still here"))


async def test_the_bodys_exception_comes_through_as_it_was(socket_path: Path) -> None:
    with pytest.raises(KeyError, match="body"):
        async with serve(socket_path, [DevicePluginService(Plugin())]):
            raise KeyError("body")
    assert not socket_path.exists()


# ---- stopping


async def test_stopping_ends_streams_and_lets_calls_finish(socket_path: Path) -> None:
    plugin = Plugin()
    async with asyncio.TaskGroup() as group, Visitor(socket_path) as visitor:
        async with serve(socket_path, [DevicePluginService(plugin)]):
            client = await visitor.client()
            call = group.create_task(client.pre_start_container(PreStartContainerRequest()))
            await plugin.entered.wait()
            answers = await visitor.stream(client)
            assert len((await anext(answers)).devices) == 2
            group.create_task(open_gate_when_gone(plugin, socket_path))
        assert await call == PreStartContainerResponse()
        with pytest.raises(UnavailableError, match="the server is stopping"):
            await anext(answers)


class Visitor:
    """Opens clients while the server runs, and closes them after it is gone."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Visitor:
        return self

    async def client(self) -> DevicePluginClient:
        return DevicePluginClient(await self._stack.enter_async_context(connect(self._path)))

    async def stream(self, client: DevicePluginClient) -> AsyncIterator[ListAndWatchResponse]:
        return await self._stack.enter_async_context(client.list_and_watch(Empty()))

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()


async def open_gate_when_gone(plugin: Plugin, path: Path) -> None:
    await wait_until(lambda: not path.exists() and plugin.events == ["stream cancelled"])
    await settle()
    plugin.gate.set()


async def test_a_call_that_does_not_finish_is_cancelled(socket_path: Path) -> None:
    plugin = Plugin()
    async with Visitor(socket_path) as visitor, asyncio.TaskGroup() as group:
        async with serve(socket_path, [DevicePluginService(plugin)], limits=QUICK):
            client = await visitor.client()
            call = group.create_task(expect_unavailable(client))
            await plugin.entered.wait()
        assert plugin.events == ["call cancelled"]
        await call


async def expect_unavailable(client: DevicePluginClient) -> None:
    with pytest.raises(UnavailableError, match="the server is stopping"):
        await client.pre_start_container(PreStartContainerRequest())


async def test_a_handler_that_refuses_to_stop_is_left_behind(
    socket_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Stubborn(Plugin):
        async def pre_start_container(self, request: PreStartContainerRequest) -> PreStartContainerResponse:
            self.entered.set()
            while not self.gate.is_set():
                try:
                    await self.gate.wait()
                except asyncio.CancelledError:
                    self.events.append("ignored")
            return PreStartContainerResponse()

    plugin = Stubborn()
    async with Visitor(socket_path) as visitor, asyncio.TaskGroup() as group:
        async with serve(socket_path, [DevicePluginService(plugin)], limits=QUICK):
            client = await visitor.client()
            group.create_task(expect_lost(client))
            await plugin.entered.wait()
        assert not plugin.gate.is_set(), "left although the handler goes on"
        plugin.gate.set()
    assert "left behind" in caplog.text


async def expect_lost(client: DevicePluginClient) -> None:
    with pytest.raises(UnavailableError):
        await client.pre_start_container(PreStartContainerRequest())


async def test_idle_connections_do_not_delay_the_stop(socket_path: Path) -> None:
    async with Visitor(socket_path) as visitor:
        # Any wait for them would last until these limits.
        endless = Limits(grace=3600, stop=3600)
        async with (
            asyncio.timeout(PATIENCE),
            serve(socket_path, [DevicePluginService(Plugin())], limits=endless),
        ):
            for _ in range(5):
                await visitor.client()


async def test_a_connection_made_while_the_server_stops_is_closed(socket_path: Path) -> None:
    async def leave_in_the_middle(turns: int) -> None:
        with socket.socket(socket.AF_UNIX) as client:
            async with serve(socket_path, []):
                client.connect(str(socket_path))
                for _ in range(turns):
                    await asyncio.sleep(0)

    await leave_in_the_middle(0)
    before = len(os.listdir("/proc/self/fd"))
    for number in range(campaign(50, 5000)):
        await leave_in_the_middle(number % 6)
        assert len(os.listdir("/proc/self/fd")) == before


async def test_a_client_that_does_not_read_does_not_delay_the_stop(
    socket_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = Plugin()
    plugin.updates = [devices(100, size=1000)] * 50
    async with serve(socket_path, [DevicePluginService(plugin)], limits=QUICK):
        _, writer = await asyncio.open_unix_connection(socket_path)
        raw = await stuffed(socket_path)
        await wait_until(lambda: plugin.listed > 1)
    assert "connections dropped with bytes unsent" in caplog.text
    raw.close()
    writer.close()
    await asyncio.sleep(0)


async def test_cancelled_while_it_opens_it_leaves_nothing_that_listens(socket_path: Path) -> None:
    """At any step: a reader left in the loop would take the connections of the next socket with this number."""

    async def serve_for_ever() -> None:
        async with serve(socket_path, []):
            await asyncio.Event().wait()

    for steps in range(40):
        opening = asyncio.ensure_future(serve_for_ever())
        for _ in range(steps):
            await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait({opening}, timeout=PATIENCE)
        service = DevicePluginService(Plugin())
        async with serve(socket_path, [service]), asyncio.timeout(PATIENCE), connect(socket_path) as channel:
            await DevicePluginClient(channel).get_device_plugin_options(Empty())


async def test_a_file_that_replaced_ours_is_left_alone(socket_path: Path) -> None:
    async with serve(socket_path, []):
        socket_path.unlink()
        socket_path.write_text("someone else's")
    assert socket_path.read_text() == "someone else's"


# ---- who may come, and how many


async def test_other_users_are_turned_away(socket_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with serve(socket_path, [DevicePluginService(Plugin())], allowed_uids={os.getuid() + 1}):
        with pytest.raises(UnavailableError):
            async with connect(socket_path):
                pass
    assert "user not allowed" in caplog.text
    async with (
        serve(socket_path, [DevicePluginService(Plugin())], allowed_uids={os.getuid()}),
        connect(socket_path) as channel,
    ):
        await DevicePluginClient(channel).allocate(request_for("a"))


async def test_connections_beyond_the_limit_are_turned_away(socket_path: Path) -> None:
    limits = Limits(connections=2)
    async with serve(socket_path, [DevicePluginService(Plugin())], limits=limits):
        async with connect(socket_path), connect(socket_path):
            with pytest.raises(UnavailableError):
                async with connect(socket_path):
                    pass
        async with connect(socket_path, wait=PATIENCE) as channel:
            await DevicePluginClient(channel).allocate(request_for("room again"))


async def test_calls_beyond_the_limit_wait_their_turn(socket_path: Path) -> None:
    plugin = Plugin()
    async with (
        serve(socket_path, [DevicePluginService(plugin)], limits=Limits(calls=4)),
        connect(socket_path) as channel,
        asyncio.TaskGroup() as group,
    ):
        client = DevicePluginClient(channel)
        for number in range(20):
            group.create_task(client.allocate(request_for(str(number))))
    assert len(plugin.events) == 20


async def test_one_process_has_a_part_of_the_connections(socket_path: Path) -> None:
    limits = Limits(connections=8, per_process=2)
    async with serve(socket_path, [DevicePluginService(Plugin())], limits=limits):
        async with connect(socket_path), connect(socket_path):
            with pytest.raises(UnavailableError):
                async with connect(socket_path):
                    pass
            other = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.settimeout(60); "
                "print(len(s.recv(9)))",
                str(socket_path),
                stdout=asyncio.subprocess.PIPE,
            )
            async with asyncio.timeout(PATIENCE):
                out, _ = await other.communicate()
            assert out == b"9\n", "another process is let in: it gets the first frame"
        async with connect(socket_path, wait=PATIENCE) as channel:
            await DevicePluginClient(channel).allocate(request_for("room again"))
