"""What a peer may do to a connection, below gRPC."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dray.wire.connect import connect
from dray.wire.deviceplugin import DevicePluginClient
from tests.waiting import PATIENCE
from tests.wire.samples import Plugin, RawClient, raw_client, request_for

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\0\0\0\x04\0\0\0\0\0"


def http2_frame(kind: int, payload: bytes, flags: int = 0, stream: int = 0) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


async def still_serves(path: Path) -> None:
    async with connect(path) as channel:
        await DevicePluginClient(channel).allocate(request_for("alive"))


@asynccontextmanager
async def sent(path: Path, data: bytes) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection on which these bytes were sent at once."""
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        writer.write(data)
        async with asyncio.timeout(PATIENCE):
            yield reader, writer
    finally:
        writer.close()


HEADERS = b"\x83\x86\x44\x01/\x41\x01a"  # POST http, :path "/", :authority "a", as literals
BAD = {
    "http/1.1": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "random": random.Random(1).randbytes(1000),
    "a frame that is too large": PREFACE + SETTINGS + http2_frame(0, b"x" * 20000, stream=1),
    "a frame that says it is huge": PREFACE + SETTINGS + b"\xff\xff\xff\0\0\0\0\0\1",
    "data before headers": PREFACE + SETTINGS + http2_frame(0, b"abc", stream=1),
    "headers that do not decompress": PREFACE + SETTINGS + http2_frame(1, b"\xff" * 50, 4, 1),
    "an even stream": PREFACE + SETTINGS + http2_frame(1, HEADERS, 5, 2),
    "settings of odd length": PREFACE + http2_frame(4, b"12345"),
    "a window of zero": PREFACE + SETTINGS + http2_frame(8, b"\0\0\0\0"),
    "a window too large": PREFACE + SETTINGS + http2_frame(8, b"\x7f\xff\xff\xff") * 2,
    "headers without end": PREFACE
    + SETTINGS
    + http2_frame(1, HEADERS, 0, 1)
    + http2_frame(9, b"\0", 0, 1) * 1000,
    "a header bomb": PREFACE
    + SETTINGS
    + http2_frame(1, b"\x40\x01a\x7f\x81\x1e" + b"x" * 4096 + b"\xbe" * 5000, 4, 1),
    "ping of the wrong size": PREFACE + SETTINGS + http2_frame(6, b"123"),
    "bad padding": PREFACE + SETTINGS + http2_frame(1, HEADERS, 4, 1) + http2_frame(0, b"\xff", 8, 1),
    "a push": PREFACE + SETTINGS + http2_frame(5, b"\0\0\0\2" + HEADERS, 4, 1),
}


@pytest.mark.parametrize("case", BAD)
async def test_broken_bytes_end_only_their_own_connection(
    plugin: Plugin, socket_path: Path, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect(socket_path) as channel:
        client = DevicePluginClient(channel)
        await client.allocate(request_for("before"))
        async with sent(socket_path, BAD[case]) as (reader, _):
            await reader.read(-1)  # until the server hangs up
        await client.allocate(request_for("after"))
    await still_serves(socket_path)
    lines = [record for record in caplog.records if record.name.startswith("dray")]
    assert [record.getMessage() for record in lines] == ["connection ended"]
    assert not any(record.exc_info for record in lines)


GOOD = {
    "unknown frames": PREFACE + SETTINGS + http2_frame(200, b"whatever") + http2_frame(10, b"\0\0"),
    "unknown settings": PREFACE + http2_frame(4, b"\x99\x99\0\0\0\1"),
    "priority": PREFACE + SETTINGS + http2_frame(2, b"\0\0\0\0\x10", stream=1),
    "half a frame": PREFACE + SETTINGS + http2_frame(1, HEADERS, 4, 1)[:7],
}
REST = {"half a frame": http2_frame(1, HEADERS, 4, 1)[7:]}


@pytest.mark.parametrize("case", GOOD)
async def test_odd_but_legal_bytes_are_borne(plugin: Plugin, socket_path: Path, case: str) -> None:
    async with sent(socket_path, GOOD[case]) as (reader, writer):
        await reader.readuntil(http2_frame(4, b"", flags=1))  # it has read this much, and goes on
        writer.write(REST.get(case, b"") + http2_frame(6, b"12345678"))
        await reader.readuntil(http2_frame(6, b"12345678", flags=1))


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({":method": "GET"}, "405"),
        ({":method": ""}, "405"),
        ({"content_type": "text/plain"}, "415"),
        ({"content_type": "application/grpc-web"}, "415"),
        ({"content_type": "application/grpc+json"}, "415"),
    ],
)
async def test_what_is_not_grpc_gets_an_http_status(
    plugin: Plugin, socket_path: Path, change: dict[str, str], status: str
) -> None:
    async with raw_client(socket_path) as raw:
        raw.request("/v1beta1.DevicePlugin/Allocate", b"\0\0\0\0\0", **change)
        assert (await raw.status())[":status"] == status


@pytest.mark.parametrize("kind", ["application/grpc+proto", "application/grpc;charset=utf-8"])
async def test_other_names_of_grpc(plugin: Plugin, socket_path: Path, kind: str) -> None:
    async with raw_client(socket_path) as raw:
        raw.request("/v1beta1.DevicePlugin/Allocate", b"\0\0\0\0\0", content_type=kind)
        assert (await raw.status())["grpc-status"] == "0"


async def test_headers_may_hold_any_bytes(plugin: Plugin, socket_path: Path) -> None:
    async with raw_client(socket_path) as raw:
        raw.request("/v1beta1.DevicePlugin/Allocate", b"\0\0\0\0\0", x_odd="\xff\xfe ü")
        assert (await raw.status())["grpc-status"] == "0"


async def test_a_polite_goodbye_ends_the_connection(
    plugin: Plugin, socket_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with raw_client(socket_path) as raw:
        raw.request("/v1beta1.DevicePlugin/ListAndWatch", b"\0\0\0\0\0")
        await plugin.entered.wait()
        raw.h2.close_connection()
        raw.flush()
        await asyncio.wait_for(plugin.left.wait(), PATIENCE)
        assert await asyncio.wait_for(raw.reader.read(-1), PATIENCE) is not None
    assert caplog.records == []


async def test_more_calls_than_allowed_end_the_connection(plugin: Plugin, socket_path: Path) -> None:
    async with raw_client(socket_path) as raw:
        raw.h2.remote_settings.acknowledge()
        lie(raw)
        for _ in range(101):
            raw.request("/v1beta1.DevicePlugin/PreStartContainer", b"\0\0\0\0\0")
        assert "ConnectionTerminated" in [
            type(event).__name__ for event in await raw.events("ConnectionTerminated")
        ]
    await still_serves(socket_path)


def lie(raw: RawClient) -> None:
    """Pretend that the server never told its limit."""
    raw.h2.remote_settings[3] = 10**6
    raw.h2.remote_settings.acknowledge()
