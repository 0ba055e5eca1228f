from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dray import errors
from dray.errors import InvariantError, ProtocolError, UnavailableError
from dray.runtime.clock import settle
from dray.wire.connect import connect
from dray.wire.deviceplugin import DevicePluginClient, DevicePluginService
from dray.wire.gen.deviceplugin_v1beta1_pb2 import (
    Empty,
    PreferredAllocationRequest,
)
from dray.wire.limits import Limits
from dray.wire.serve import serve
from dray.wire.status import CODES, Code, StatusError, status_of
from tests.waiting import PATIENCE, wait_until
from tests.wire.samples import Plugin, devices, ids_of, raw_client, request_for, stuffed

QUICK = Limits(grace=0.1, stop=0.3, arrival=0.2)


# ---- what handlers raise


# Our own bug is no Error, and does not leave the server alive: see below.
@pytest.mark.parametrize("kind", sorted((kind for kind in CODES if issubclass(kind, errors.Error)), key=repr))
async def test_each_error_arrives_as_itself(
    plugin: Plugin, socket_path: Path, kind: type[errors.Error]
) -> None:
    plugin.failure = kind("what to do about it")
    async with connect(socket_path) as channel:
        with pytest.raises(errors.Error, match="what to do about it") as caught:
            await DevicePluginClient(channel).get_preferred_allocation(PreferredAllocationRequest())
    assert type(caught.value) is (ProtocolError if kind is errors.Error else kind)
    assert (status := status_of(caught.value)) is not None
    assert (status.code, status.message) == (CODES[kind], "what to do about it")


async def test_a_handler_may_choose_a_bare_status(plugin: Plugin, socket_path: Path) -> None:
    plugin.failure = StatusError(Code.UNIMPLEMENTED, "not in this kubelet")
    async with connect(socket_path) as channel:
        with pytest.raises(ProtocolError, match="not in this kubelet") as caught:
            await DevicePluginClient(channel).get_preferred_allocation(PreferredAllocationRequest())
    assert (status := status_of(caught.value)) is not None
    assert status.code is Code.UNIMPLEMENTED


@pytest.mark.parametrize(
    "failure", [KeyError("secret"), TimeoutError("secret"), asyncio.CancelledError("secret")]
)
async def test_a_handlers_bug_is_answered_and_logged_in_one_line(
    plugin: Plugin, socket_path: Path, failure: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    plugin.failure = failure
    async with connect(socket_path) as channel:
        client = DevicePluginClient(channel)
        with pytest.raises(ProtocolError, match=type(failure).__name__) as caught:
            await client.get_preferred_allocation(PreferredAllocationRequest())
        assert "secret" not in str(caught.value)
        await client.allocate(request_for("alive"))
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert not record.exc_info
    fields: dict[str, str] = record.fields  # type: ignore[attr-defined]
    assert "secret" in fields["error"]
    assert "samples.py:" in fields["at"]


async def test_an_answer_of_the_wrong_kind_is_a_handlers_bug(
    plugin: Plugin, socket_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plugin.updates = [devices(1), None]  # type: ignore[list-item]
    async with (
        connect(socket_path) as channel,
        DevicePluginClient(channel).list_and_watch(Empty()) as answers,
    ):
        await anext(answers)
        with pytest.raises(ProtocolError, match="TypeError"):
            await anext(answers)
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "not a ListAndWatchResponse" in record.fields["error"]  # type: ignore[attr-defined]


async def test_our_own_bug_is_answered_and_ends_the_server(socket_path: Path) -> None:
    plugin = Plugin()
    plugin.failure = InvariantError("two holders of one device")
    with pytest.raises(InvariantError, match="two holders of one device"):
        async with (
            serve(socket_path, [DevicePluginService(plugin)], limits=QUICK),
            connect(socket_path) as channel,
        ):
            with pytest.raises(ProtocolError, match="two holders"):
                await DevicePluginClient(channel).get_preferred_allocation(PreferredAllocationRequest())
            await asyncio.Event().wait()
    assert not socket_path.exists()


async def test_a_long_message_is_cut_to_fit_a_header(plugin: Plugin, socket_path: Path) -> None:
    plugin.failure = errors.InvalidError("ä" * 100_000)
    async with connect(socket_path) as channel:
        with pytest.raises(errors.InvalidError, match=r"ää\.\.\.$"):
            await DevicePluginClient(channel).get_preferred_allocation(PreferredAllocationRequest())


# ---- how calls end early


async def test_a_deadline_stops_the_handler(plugin: Plugin, socket_path: Path) -> None:
    async with raw_client(socket_path) as raw:
        raw.request("/v1beta1.DevicePlugin/PreStartContainer", b"\0\0\0\0\0", grpc_timeout="50m")
        headers = await raw.status()
    assert headers["grpc-status"] == str(Code.DEADLINE_EXCEEDED.value)
    assert plugin.events == ["call cancelled"]


@pytest.mark.parametrize("timeout", ["", "5", "S", "-1S", "123456789S", "1x", "9" * 5000 + "H"])
async def test_a_malformed_deadline_is_refused(plugin: Plugin, socket_path: Path, timeout: str) -> None:
    async with raw_client(socket_path) as raw:
        raw.request("/v1beta1.DevicePlugin/Allocate", b"\0\0\0\0\0", grpc_timeout=timeout)
        assert "grpc-timeout" in (await raw.status())["grpc-message"]


async def test_a_far_deadline_is_fine(plugin: Plugin, socket_path: Path) -> None:
    async with raw_client(socket_path) as raw:
        raw.request("/v1beta1.DevicePlugin/Allocate", b"\0\0\0\0\0", grpc_timeout="99999999H")
        assert (await raw.status())["grpc-status"] == "0"


async def test_a_caller_that_gives_up_stops_the_handler(plugin: Plugin, socket_path: Path) -> None:
    async with raw_client(socket_path) as raw:
        number = raw.request("/v1beta1.DevicePlugin/PreStartContainer", b"\0\0\0\0\0")
        await plugin.entered.wait()
        raw.h2.reset_stream(number)
        raw.flush()
        await asyncio.wait_for(plugin.left.wait(), PATIENCE)
    assert plugin.events == ["call cancelled"]


async def test_a_caller_that_vanishes_stops_the_handler(plugin: Plugin, socket_path: Path) -> None:
    async with raw_client(socket_path) as raw:
        raw.request("/v1beta1.DevicePlugin/ListAndWatch", b"\0\0\0\0\0")
        await plugin.entered.wait()
        raw.writer.transport.abort()
        await asyncio.wait_for(plugin.left.wait(), PATIENCE)
    assert plugin.events == ["stream cancelled"]


async def test_a_thousand_calls_given_up_at_once_leave_nothing(socket_path: Path) -> None:
    async with serve(socket_path, [DevicePluginService(Plugin())]) as server, raw_client(socket_path) as raw:
        for _ in range(1000):
            number = raw.request("/v1beta1.DevicePlugin/PreStartContainer", b"\0\0\0\0\0")
            raw.h2.reset_stream(number)
            raw.flush()
        raw.request("/v1beta1.DevicePlugin/Allocate", b"\0\0\0\0\0")
        assert (await raw.status())["grpc-status"] == "0"
        (protocol,) = server._protocols
        await wait_until(lambda: not protocol.processor.streams)
        assert not server._calls


# ---- messages that are too large, and bytes that are too slow


async def test_a_message_at_the_limit_passes_and_one_byte_more_does_not(socket_path: Path) -> None:
    limits = Limits(receive=100_000)
    fits = request_for("x" * (100_000 - 8))
    assert fits.ByteSize() == 100_000
    async with (
        serve(socket_path, [DevicePluginService(Plugin())], limits=limits),
        connect(socket_path) as channel,
    ):
        client = DevicePluginClient(channel)
        assert len(ids_of(await client.allocate(fits))) == 99_992
        for _ in range(20):
            with pytest.raises(UnavailableError, match="100001 bytes is larger than the limit of 100000"):
                await client.allocate(request_for("x" * (100_000 - 7)))
        await client.allocate(request_for("alive"))


async def test_a_huge_declared_length_is_refused_before_it_arrives(plugin: Plugin, socket_path: Path) -> None:
    async with raw_client(socket_path) as raw:
        raw.request("/v1beta1.DevicePlugin/Allocate", b"\0\xff\xff\xff\xffabc")
        headers = await raw.status()
    assert headers["grpc-status"] == str(Code.RESOURCE_EXHAUSTED.value)


async def test_an_answer_over_the_limit_is_not_sent(socket_path: Path) -> None:
    plugin = Plugin()
    plugin.updates = [devices(1), devices(100, size=100), devices(1)]
    async with (
        serve(socket_path, [DevicePluginService(plugin)], limits=Limits(send=5000)),
        connect(socket_path) as channel,
        DevicePluginClient(channel).list_and_watch(Empty()) as answers,
    ):
        await anext(answers)
        with pytest.raises(UnavailableError, match="larger than the limit of 5000"):
            await anext(answers)


async def test_messages_of_many_megabytes(socket_path: Path) -> None:
    limits = Limits(receive=2**25, send=2**25)
    async with (
        serve(socket_path, [DevicePluginService(Plugin())], limits=limits),
        connect(socket_path, limits=limits) as channel,
    ):
        answer = await DevicePluginClient(channel).allocate(request_for("x" * 2**23))
    assert len(ids_of(answer)) == 2**23


async def test_a_slow_reader_holds_back_the_handler(socket_path: Path) -> None:
    plugin = Plugin()
    plugin.updates = [devices(100, size=100)] * 2000  # 22 MB
    plugin.gate.set()
    async with (
        serve(socket_path, [DevicePluginService(plugin)]) as server,
        connect(socket_path) as channel,
        DevicePluginClient(channel).list_and_watch(Empty()) as answers,
    ):
        await anext(answers)
        (protocol,) = server._protocols
        (number,) = protocol.processor.streams
        window = protocol.connection._connection.local_flow_control_window
        await wait_until(lambda: plugin.left.is_set() or not window(number))
        assert plugin.listed < 200
        assert sum([len(update.devices) async for update in answers]) == 199_900


async def test_a_reader_that_stops_holds_back_the_handler_whatever_its_window(socket_path: Path) -> None:
    plugin = Plugin()
    plugin.updates = [devices(100, size=1000)] * 500  # 50 MB
    async with serve(socket_path, [DevicePluginService(plugin)]) as server:
        writer = await stuffed(socket_path)
        await plugin.entered.wait()
        (protocol,) = server._protocols
        writable = protocol.connection.write_ready
        await wait_until(lambda: not writable.is_set() or plugin.listed == len(plugin.updates))
        await settle()
        assert not writable.is_set()
        assert plugin.listed < 20
        writer.close()
        await asyncio.wait_for(plugin.left.wait(), PATIENCE)


async def test_a_peer_without_handshake_is_dropped(
    socket_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(socket_path, [DevicePluginService(Plugin())], limits=QUICK):
        for start in (b"", b"PRI * HTTP/2.0\r\n"):
            reader, writer = await asyncio.open_unix_connection(socket_path)
            writer.write(start)
            await asyncio.wait_for(reader.read(), PATIENCE)
            writer.close()
        assert caplog.text.count("connection ended") == 2


async def test_a_request_that_never_comes_is_given_up(socket_path: Path) -> None:
    async with (
        serve(socket_path, [DevicePluginService(Plugin())], limits=QUICK),
        raw_client(socket_path) as raw,
    ):
        number = raw.request("/v1beta1.DevicePlugin/Allocate")
        raw.h2.send_data(number, b"\0\0\0\0\x09ab")
        raw.flush()
        assert (await raw.status())["grpc-status"] == str(Code.DEADLINE_EXCEEDED.value)


async def test_a_peer_that_floods_without_reading_is_cut_off(
    plugin: Plugin, socket_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writer = await stuffed(socket_path)
    ping = b"\0\0\x08\x06\0\0\0\0\0" + b"12345678"
    with pytest.raises(ConnectionError):
        for _ in range(2000):
            writer.write(ping * 1000)
            await asyncio.wait_for(writer.drain(), PATIENCE)
    writer.close()
    assert [record.fields["reason"] for record in caplog.records] == ["the peer sends and does not read"]  # type: ignore[attr-defined]
    async with connect(socket_path) as channel:
        await DevicePluginClient(channel).allocate(request_for("alive"))


def test_the_limit_of_a_kubelet_is_the_default() -> None:
    assert Limits().receive == Limits().send == 4 * 1024 * 1024
