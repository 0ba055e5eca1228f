"""Random, truncated and mutated bytes on every socket, both ways: a clear error, the server alive, nothing left."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived
from h2.exceptions import H2Error

from dray.errors import Error
from dray.wire import cri, deviceplugin, dra, health, podresources, registration
from dray.wire.connect import connect
from dray.wire.limits import Limits
from dray.wire.serve import serve
from dray.wire.service import Client, Service, Streaming, methods_of
from tests.campaign import campaign
from tests.wire.samples import HEADERS, frame, request_for

SERVICES: list[type[Service[Any]]] = [
    cri.RuntimeService,
    cri.ImagesService,
    deviceplugin.DevicePluginService,
    deviceplugin.DevicePluginRegistrationService,
    dra.DraService,
    health.HealthService,
    podresources.PodResourcesService,
    registration.RegistrationService,
]
TABLES: list[type[Client]] = [table for service in SERVICES for table in service.tables]
PATHS = [method.path for table in TABLES for _, method in methods_of(table)]
QUICK = Limits(receive=100_000, arrival=0.2, grace=0.1, stop=1.0, connections=1000)


class Obliging:
    """A handler for any service: every call gets an empty answer, every stream two."""

    def __init__(self, table: type[Client]) -> None:
        self._methods = dict(methods_of(table))

    def __getattr__(self, name: str) -> Any:
        method = self._methods[name]

        async def unary(request: Any) -> Any:
            return method.response()

        async def streaming(request: Any) -> AsyncIterator[Any]:
            yield method.response()
            yield method.response()

        return streaming if isinstance(method, Streaming) else unary


def client_bytes(rng: random.Random) -> bytes:
    """What a client sends that makes a few calls, some of them with broken bodies."""
    h2 = H2Connection(H2Configuration(client_side=True))
    h2.initiate_connection()
    for _ in range(rng.randrange(1, 4)):
        number = h2.get_next_available_stream_id()
        headers = {
            ":method": "POST",
            ":scheme": "http",
            ":path": rng.choice(PATHS),
            ":authority": "localhost",
        }
        headers |= {"te": "trailers", "content-type": "application/grpc", "grpc-timeout": "300m"}
        h2.send_headers(number, list(headers.items()))
        h2.send_data(number, body(rng), end_stream=rng.random() < 0.8)
    return h2.data_to_send()


def body(rng: random.Random) -> bytes:
    if rng.random() < 0.6:
        return frame(b"")
    data = rng.choice([b"", rng.randbytes(rng.randrange(40)), request_for("a").SerializeToString()])
    length = rng.choice([None, None, None, rng.randrange(100), rng.randrange(2**32)])
    return frame(data, flag=rng.choice([0, 0, 0, 0, 1, 255]), length=length)


def answer_bytes(h2: H2Connection, number: int, rng: random.Random) -> bytes:
    """What a server sends in answer to a call."""
    h2.send_headers(number, HEADERS)
    for _ in range(rng.choice([0, 1, 1, 1, 2])):
        h2.send_data(number, body(rng))
    h2.send_headers(number, [("grpc-status", rng.choice(["0", "0", "0", "5", "99", "x"]))], end_stream=True)
    return h2.data_to_send()


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The same with some damage; now and then none, or nothing but damage."""
    kind = rng.randrange(8)
    if kind == 0:
        return rng.randbytes(rng.randrange(300))
    if kind == 1:
        return data[: rng.randrange(len(data))]
    result = bytearray(data)
    for _ in range(rng.randrange(kind)):
        place = rng.randrange(len(result))
        how = rng.randrange(4)
        if how == 0:
            result[place] = rng.randrange(256)
        elif how == 1:
            result[place] ^= 1 << rng.randrange(8)
        elif how == 2:
            result[place:place] = rng.randbytes(rng.randrange(1, 30))
        else:
            del result[place : place + rng.randrange(1, 30)]
    return bytes(result)


async def batches(count: int, one: Callable[[int], Any]) -> None:
    """Run `one` for each number, some at a time."""
    for start in range(0, count, 25):
        async with asyncio.TaskGroup() as group:
            for number in range(start, min(start + 25, count)):
                group.create_task(one(number))


async def send(path: Path, data: bytes, rng: random.Random) -> None:
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        cut = rng.randrange(len(data) + 1)
        for part in (data[:cut], data[cut:]):
            writer.write(part)
            await writer.drain()
        if rng.random() < 0.5:
            async with asyncio.timeout(rng.random() * 0.02):
                await reader.read(rng.randrange(1, 10_000))
    except (ConnectionError, TimeoutError):
        pass
    finally:
        writer.transport.abort()


async def test_no_bytes_hurt_a_server(socket_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def one(number: int) -> None:
        rng = random.Random(number)
        await send(socket_path, mutated(client_bytes(rng), rng), rng)

    services = [service(Obliging(service.tables[0])) for service in SERVICES]
    async with serve(socket_path, services, limits=QUICK):
        await batches(campaign(400, 40_000), one)
        async with connect(socket_path) as channel:
            client = deviceplugin.DevicePluginClient(channel)
            for _ in range(10):
                await client.allocate(request_for("alive"))
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
    assert {record.getMessage() for record in caplog.records} <= {"connection ended"}


async def outcomes_of_fuzz(socket_path: Path, *, stays: bool) -> set[str]:
    """What callers got from a server with damaged answers that says no more after them, or that `stays` silent."""
    count = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        rng = random.Random(count)
        h2 = H2Connection(H2Configuration(client_side=False))
        h2.initiate_connection()
        greeting = h2.data_to_send()
        writer.write(greeting if rng.random() < 0.8 else mutated(greeting, rng))
        try:
            while data := await reader.read(65536):
                for event in h2.receive_data(data):
                    if isinstance(event, RequestReceived):
                        writer.write(mutated(answer_bytes(h2, event.stream_id, rng), rng))
                        if not stays:
                            writer.write_eof()
        except (ConnectionError, H2Error):
            pass
        writer.close()

    outcomes: dict[str, int] = {}

    async def one(number: int) -> None:
        outcome = "answered"
        try:
            async with connect(socket_path, timeout=0.1 if stays else 30, limits=QUICK) as channel:
                await deviceplugin.DevicePluginClient(channel).allocate(request_for("a"))
        except Error as error:
            assert "\n" not in str(error)
            outcome = type(error).__name__
        outcomes[outcome] = outcomes.get(outcome, 0) + 1

    server = await asyncio.start_unix_server(answer, socket_path)
    await batches(campaign(200, 20_000), one)
    server.close()
    return set(outcomes)


async def test_no_bytes_hurt_a_client(socket_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    outcomes = await outcomes_of_fuzz(socket_path, stays=False)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
    # A damaged status may be any of our errors; these three must all have been seen.
    assert outcomes >= {"answered", "UnavailableError", "ProtocolError"}


async def test_no_bytes_hurt_a_client_that_waits_for_more(
    socket_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """How many are answered in time is the machine's affair."""
    assert "UnavailableError" in await outcomes_of_fuzz(socket_path, stays=True)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
