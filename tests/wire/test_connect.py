from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.settings import SettingCodes, Settings

from dray.errors import (
    DeniedError,
    Error,
    InvalidError,
    InvariantError,
    ProtocolError,
    UnavailableError,
)
from dray.runtime.clock import settle
from dray.wire.connect import connect
from dray.wire.deviceplugin import DevicePluginClient, DevicePluginService
from dray.wire.gen.deviceplugin_v1beta1_pb2 import Empty, PreStartContainerRequest
from dray.wire.limits import Limits
from dray.wire.serve import serve
from dray.wire.status import Code, status_of
from dray.wire.transport.messages import PREFIX
from dray.wire.transport.stream import CallStream
from tests.waiting import PATIENCE, wait_until
from tests.wire.samples import Plugin, devices, ids_of, request_for, scripted

# ---- reaching a server


async def fails_to_connect(path: Path, kind: type[Error], text: str, timeout: float = 1.0) -> None:
    with pytest.raises(kind, match=text):
        async with connect(path, timeout=timeout):
            pass


async def test_no_socket(socket_path: Path) -> None:
    await fails_to_connect(socket_path, UnavailableError, "no socket at .*is its server running")


async def test_no_directory(socket_path: Path) -> None:
    await fails_to_connect(socket_path / "below" / "it", UnavailableError, "no socket at")


async def test_nobody_listens(socket_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(socket_path))
    await fails_to_connect(socket_path, UnavailableError, "nobody listens on")


async def test_a_file_is_no_server(socket_path: Path) -> None:
    socket_path.write_text("x")
    await fails_to_connect(socket_path, UnavailableError, "nobody listens on")


async def test_a_datagram_socket_is_no_server(socket_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(str(socket_path))
        await fails_to_connect(socket_path, InvalidError, "another kind")


@pytest.mark.parametrize("path", ["", "/", "a\0b", "/tmp/" + "x" * 120])
async def test_an_impossible_path(path: str) -> None:
    await fails_to_connect(Path(path), InvalidError, "socket (path|name)")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_no_permission(plugin: Plugin, socket_path: Path) -> None:
    os.seteuid(65534)
    try:
        await fails_to_connect(socket_path, DeniedError, "permission denied")
    finally:
        os.seteuid(0)


async def test_a_full_queue_is_waited_for(socket_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(str(socket_path))
        busy.listen(0)
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(3)]
        try:
            for one in waiting:
                one.setblocking(False)
                one.connect_ex(str(socket_path))
            await fails_to_connect(socket_path, UnavailableError, "no answer within 0.2 s", timeout=0.2)
        finally:
            for one in waiting:
                one.close()


async def test_a_server_that_says_nothing(socket_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(socket_path))
        silent.listen()
        await fails_to_connect(socket_path, UnavailableError, "no answer within 0.2 s", timeout=0.2)


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", bytes(range(100))])
async def test_a_server_that_speaks_something_else(socket_path: Path, greeting: bytes) -> None:
    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(talk, socket_path)
    await fails_to_connect(socket_path, UnavailableError, "handshake failed")
    server.close()


async def test_waiting_for_a_server_that_is_not_there_yet(socket_path: Path) -> None:
    async def later() -> None:
        await settle()  # by now the first try has found nothing
        async with serve(socket_path, [DevicePluginService(Plugin())]):
            await done.wait()

    done = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(later())
        async with connect(socket_path, wait=PATIENCE) as channel:
            await DevicePluginClient(channel).allocate(request_for("a"))
        done.set()


async def test_paths_longer_than_the_kernel_takes(tmp_path: Path) -> None:
    path = tmp_path / ("d" * 100) / ("e" * 100) / "plugin.sock"
    assert len(os.fsencode(path)) > 200
    async with serve(path, [DevicePluginService(Plugin())], directory_mode=0o755), connect(path) as channel:
        assert ids_of(await DevicePluginClient(channel).allocate(request_for("far"))) == "far"
    assert os.listdir(path.parent) == []


# ---- losing it


@asynccontextmanager
async def restartable(path: Path) -> AsyncIterator[asyncio.Queue[Plugin]]:
    """Serve a fresh plugin for each one put into the queue; the former is stopped first."""
    plugins: asyncio.Queue[Plugin] = asyncio.Queue()

    async def run() -> None:
        current: Plugin | None = None
        while True:
            current = current or await plugins.get()
            async with serve(path, [DevicePluginService(current)], limits=Limits(grace=0, stop=0.2)):
                current = await plugins.get()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(run())
        yield plugins
        task.cancel()


async def test_a_restarted_server_is_found_again(socket_path: Path) -> None:
    async with restartable(socket_path) as plugins:
        first, second = Plugin(), Plugin()
        plugins.put_nowait(first)
        async with connect(socket_path, wait=PATIENCE) as channel:
            client = DevicePluginClient(channel)
            async with asyncio.TaskGroup() as group:
                lost = group.create_task(fails_unavailable(client))
                await first.entered.wait()
                plugins.put_nowait(second)
                await lost
            await wait_until(socket_path.exists)
            async with asyncio.TaskGroup() as group:
                for number in range(10):
                    group.create_task(client.allocate(request_for(str(number))))
    assert len(second.events) == 10


async def fails_unavailable(client: DevicePluginClient) -> None:
    with pytest.raises(UnavailableError):
        await client.pre_start_container(PreStartContainerRequest())
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_lost_connection_does_not_spoil_the_callers_task(socket_path: Path) -> None:
    """A library that cancels its caller's task to wake it leaves a mark that breaks the next TaskGroup."""
    async with restartable(socket_path) as plugins:
        plugin = Plugin()
        plugins.put_nowait(plugin)
        async with connect(socket_path, wait=PATIENCE) as channel:
            async with DevicePluginClient(channel).list_and_watch(Empty()) as answers:
                await anext(answers)
                plugins.put_nowait(Plugin())
                with pytest.raises(UnavailableError):
                    await anext(answers)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await asyncio.sleep(5)
            with pytest.raises(ExceptionGroup):
                async with asyncio.TaskGroup() as group:
                    group.create_task(failing())


async def failing() -> None:
    raise ValueError("child")


async def test_a_server_that_dies_while_we_wait_to_write(socket_path: Path) -> None:
    """It allows everything and reads nothing: our side is full when it goes."""
    full = asyncio.Event()

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        h2 = H2Connection(H2Configuration(client_side=False))
        h2.local_settings = Settings(client=False, initial_values={SettingCodes.INITIAL_WINDOW_SIZE: 2**30})
        h2.initiate_connection()
        h2.increment_flow_control_window(2**30)
        writer.write(h2.data_to_send())
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await full.wait()
        writer.transport.abort()

    server = await asyncio.start_unix_server(talk, socket_path)
    limits = Limits(send=2**26)
    async with connect(socket_path, limits=limits) as channel:
        protocol = channel._usable()
        assert protocol is not None
        request = request_for("x" * 2**25)
        call = asyncio.ensure_future(DevicePluginClient(channel).allocate(request, timeout=PATIENCE))
        await wait_until(lambda: not protocol.connection.write_ready.is_set())
        full.set()
        with pytest.raises(UnavailableError, match="Connection lost"):
            await call
    server.close()


async def test_what_had_arrived_before_the_loss_can_still_be_read(socket_path: Path) -> None:
    plugin = Plugin()
    plugin.updates = [devices(100, size=250)] * 8
    async with AsyncExitStack() as stack:
        async with serve(socket_path, [DevicePluginService(plugin)]):
            channel = await stack.enter_async_context(connect(socket_path))
            call = DevicePluginClient(channel).list_and_watch(Empty())
            answers = await stack.enter_async_context(call)
            protocol = channel._usable()
            assert protocol is not None
            (stream,) = protocol.processor.streams.values()
            assert isinstance(stream, CallStream)
            sent = sum(PREFIX + update.ByteSize() for update in plugin.updates)
            await wait_until(lambda: sum(len(data) for data, _ in stream.buffer._chunks) == sent)
        await wait_until(lambda: channel._usable() is None)
        for _ in range(8):
            assert len((await anext(answers)).devices) == 100
        with pytest.raises(UnavailableError, match="the server is stopping"):
            await anext(answers)


async def test_a_call_that_waits_its_turn_is_told_of_the_loss(socket_path: Path) -> None:
    """The one call allowed is a stream that its reader does not look at; it still ends the waiting of the other."""
    plugin = Plugin()
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        async with serve(socket_path, [DevicePluginService(plugin)], limits=Limits(calls=1)):
            channel = await stack.enter_async_context(connect(socket_path, timeout=3600))
            client = DevicePluginClient(channel)
            await stack.enter_async_context(client.list_and_watch(Empty()))
            waiting = group.create_task(fails_unavailable(client))
            await settle()
        assert plugin.events == ["stream cancelled"], "the call was still waiting"
        await asyncio.wait_for(waiting, PATIENCE)


async def test_no_call_is_sent_twice(socket_path: Path) -> None:
    def drop(h2: H2Connection, number: int) -> None:
        h2.reset_stream(number, ErrorCodes.REFUSED_STREAM)

    async with scripted(socket_path, drop) as asked, connect(socket_path) as channel:
        with pytest.raises(UnavailableError, match="reset by remote party"):
            await DevicePluginClient(channel).allocate(request_for("once"))
    assert asked == ["/v1beta1.DevicePlugin/Allocate"]


async def test_calls_that_find_the_connection_lost_share_a_new_one(socket_path: Path) -> None:
    async with (
        serve(socket_path, [DevicePluginService(Plugin())]) as server,
        connect(socket_path) as channel,
        asyncio.TaskGroup() as group,
    ):
        client = DevicePluginClient(channel)
        for protocol in list(server._protocols):
            protocol.abort()
        await wait_until(lambda: channel._usable() is None)
        calls = [group.create_task(client.allocate(request_for(str(number)))) for number in range(20)]
        most = 0
        while not all(call.done() for call in calls):
            most = max(most, len(server._protocols))
            await asyncio.sleep(0)
        assert most == 1


async def test_a_connection_whose_numbers_are_used_up_is_replaced(plugin: Plugin, socket_path: Path) -> None:
    async with connect(socket_path) as channel:
        client = DevicePluginClient(channel)
        await client.allocate(request_for("a"))
        protocol = channel._usable()
        assert protocol is not None
        protocol.connection._connection.highest_outbound_stream_id = 2**31 - 1
        with pytest.raises(UnavailableError):
            await client.allocate(request_for("b"))
        assert ids_of(await client.allocate(request_for("c"))) == "c"


async def test_a_closed_channel_stays_closed(plugin: Plugin, socket_path: Path) -> None:
    async with connect(socket_path) as channel:
        pass
    await channel.close()
    with pytest.raises(InvariantError, match="used after it was closed"):
        await DevicePluginClient(channel).allocate(request_for("a"))


async def test_closing_fails_the_calls_in_flight(plugin: Plugin, socket_path: Path) -> None:
    async with asyncio.TaskGroup() as group:
        async with connect(socket_path) as channel:
            call = group.create_task(fails_unavailable(DevicePluginClient(channel)))
            await plugin.entered.wait()
        await call


# ---- giving up


async def test_a_calls_own_timeout_beats_the_channels(plugin: Plugin, socket_path: Path) -> None:
    async with connect(socket_path, timeout=0.3) as channel:
        client = DevicePluginClient(channel)
        patient = asyncio.ensure_future(
            client.pre_start_container(PreStartContainerRequest(), timeout=PATIENCE)
        )
        await settle()  # it began first, and would end first with the channel's timeout
        with pytest.raises(
            UnavailableError, match=r"PreStartContainer at .* no answer within 0.3 s"
        ) as caught:
            await client.pre_start_container(PreStartContainerRequest())
        assert (status := status_of(caught.value)) is not None
        assert status.code is Code.DEADLINE_EXCEEDED
        assert not patient.done()
        plugin.gate.set()
        await patient
        plugin.gate.clear()
    async with connect(socket_path, timeout=PATIENCE) as channel:
        with pytest.raises(UnavailableError, match=r"within 0\.05 s"):
            await DevicePluginClient(channel).pre_start_container(PreStartContainerRequest(), timeout=0.05)


async def test_a_cancelled_caller_cancels_the_handler(plugin: Plugin, socket_path: Path) -> None:
    async with connect(socket_path) as channel, asyncio.TaskGroup() as group:
        call = group.create_task(DevicePluginClient(channel).pre_start_container(PreStartContainerRequest()))
        await plugin.entered.wait()
        call.cancel()
        await asyncio.wait({call})
        assert call.cancelled()
        await asyncio.wait_for(plugin.left.wait(), PATIENCE)
    assert plugin.events == ["call cancelled"]


async def test_leaving_a_stream_cancels_the_handler(plugin: Plugin, socket_path: Path) -> None:
    async with connect(socket_path) as channel:
        async with DevicePluginClient(channel).list_and_watch(Empty()) as answers:
            await anext(answers)
        await asyncio.wait_for(plugin.left.wait(), PATIENCE)
        await DevicePluginClient(channel).allocate(request_for("alive"))
    assert plugin.events[0] == "stream cancelled"


async def test_a_stream_may_be_quiet_for_longer_than_the_default(plugin: Plugin, socket_path: Path) -> None:
    async with (
        connect(socket_path, timeout=0.3) as channel,
        DevicePluginClient(channel).list_and_watch(Empty()) as answers,
    ):
        await anext(answers)
        waiting = asyncio.ensure_future(anext(answers, None))
        await settle()
        await fails_unavailable(
            DevicePluginClient(channel)
        )  # a call that began later has used up the default
        assert not waiting.done()
        plugin.gate.set()
        assert await waiting is None
        assert [update async for update in answers] == []


async def test_a_streams_timeout_counts_from_its_start(plugin: Plugin, socket_path: Path) -> None:
    async with (
        connect(socket_path) as channel,
        DevicePluginClient(channel).list_and_watch(Empty(), timeout=0.1) as answers,
    ):
        await anext(answers)
        with pytest.raises(UnavailableError, match=r"within 0\.1 s|deadline of the call"):
            await anext(answers)


@pytest.mark.parametrize("failure", [TimeoutError("mine"), KeyError("mine"), asyncio.CancelledError("mine")])
async def test_the_bodys_exceptions_are_not_renamed(
    plugin: Plugin, socket_path: Path, failure: BaseException
) -> None:
    async with connect(socket_path) as channel:
        with pytest.raises(type(failure), match="mine"):
            async with DevicePluginClient(channel).list_and_watch(Empty(), timeout=5):
                raise failure


async def test_a_request_over_the_limit_is_not_sent(plugin: Plugin, socket_path: Path) -> None:
    async with connect(socket_path, limits=Limits(send=1000)) as channel:
        with pytest.raises(InvalidError, match="larger than the limit of 1000"):
            await DevicePluginClient(channel).allocate(request_for("x" * 1000))
    assert plugin.events == []


async def test_an_answer_over_the_limit_is_the_servers_fault(plugin: Plugin, socket_path: Path) -> None:
    plugin.updates = [devices(1), devices(100, size=100)]
    async with connect(socket_path, limits=Limits(receive=5000)) as channel:
        client = DevicePluginClient(channel)
        async with client.list_and_watch(Empty()) as answers:
            await anext(answers)
            with pytest.raises(ProtocolError, match="larger than the limit of 5000"):
                await anext(answers)
        await client.allocate(request_for("alive"))
