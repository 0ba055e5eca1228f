"""Handlers and scripted peers for the tests of this room."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived

from dray.wire.gen.deviceplugin_v1beta1_pb2 import (
    AllocateRequest,
    AllocateResponse,
    ContainerAllocateRequest,
    ContainerAllocateResponse,
    Device,
    DevicePluginOptions,
    Empty,
    ListAndWatchResponse,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
    PreStartContainerRequest,
    PreStartContainerResponse,
)
from tests.waiting import PATIENCE


class Plugin:
    """A device plugin whose behaviour a test sets, and which keeps what happened to it."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.failure: BaseException | None = None
        self.gate = asyncio.Event()
        self.entered = asyncio.Event()
        self.left = asyncio.Event()
        self.listed = 0
        self.updates: list[ListAndWatchResponse] = [devices(2)]

    async def get_device_plugin_options(self, request: Empty) -> DevicePluginOptions:
        return DevicePluginOptions(get_preferred_allocation_available=True)

    async def list_and_watch(self, request: Empty) -> AsyncIterator[ListAndWatchResponse]:
        """All updates, then waits for the gate."""
        self.entered.set()
        try:
            for update in self.updates:
                self.listed += 1
                yield update
            await self.gate.wait()
        except asyncio.CancelledError:
            self.events.append("stream cancelled")
            raise
        finally:
            self.left.set()

    async def get_preferred_allocation(
        self, request: PreferredAllocationRequest
    ) -> PreferredAllocationResponse:
        """Raises what the test said."""
        if self.failure is not None:
            raise self.failure
        return PreferredAllocationResponse()

    async def allocate(self, request: AllocateRequest) -> AllocateResponse:
        """Echoes the ids of each container in an environment variable."""
        self.events.append("allocate")
        return AllocateResponse(
            container_responses=[
                ContainerAllocateResponse(envs={"IDS": ",".join(container.devices_ids)})
                for container in request.container_requests
            ]
        )

    async def pre_start_container(self, request: PreStartContainerRequest) -> PreStartContainerResponse:
        """Waits for the gate."""
        self.entered.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.events.append("call cancelled")
            raise
        finally:
            self.left.set()
        return PreStartContainerResponse()


def devices(count: int, size: int = 0) -> ListAndWatchResponse:
    """A list of `count` healthy devices, each with an id of at least `size` bytes."""
    return ListAndWatchResponse(
        devices=[Device(ID=f"{number}".ljust(size, "x"), health="Healthy") for number in range(count)]
    )


def request_for(*ids: str) -> AllocateRequest:
    return AllocateRequest(container_requests=[ContainerAllocateRequest(devices_ids=ids)])


def ids_of(response: AllocateResponse) -> str:
    return response.container_responses[0].envs["IDS"]


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


Script = Callable[[H2Connection, int], None]
"""What a scripted server does with a request: it gets the connection and the stream's number."""


@asynccontextmanager
async def scripted(path: Path, script: Script) -> AsyncIterator[list[str]]:
    """A server on plain h2 that answers each request by a script, right or wrong. Gives the paths asked for."""
    asked: list[str] = []
    writers: list[asyncio.StreamWriter] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        h2.initiate_connection()
        writer.write(h2.data_to_send())
        while data := await reader.read(65536):
            for event in h2.receive_data(data):
                if isinstance(event, RequestReceived):
                    asked.append(dict(event.headers)[":path"])  # type: ignore[arg-type, index]
                    script(h2, event.stream_id)
            writer.write(h2.data_to_send())
        writer.close()

    server = await asyncio.start_unix_server(talk, path)
    try:
        yield asked
    finally:
        server.close()
        for writer in writers:
            writer.close()
        await asyncio.sleep(0.01)


HEADERS = [(":status", "200"), ("content-type", "application/grpc")]


def frame(data: bytes, flag: int = 0, length: int | None = None) -> bytes:
    """A gRPC frame, wrong on demand."""
    size = len(data) if length is None else length
    return bytes([flag]) + size.to_bytes(4, "big") + data


class RawClient:
    """A client on plain h2, for what no gRPC client would do."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.flush()

    def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())

    def request(self, path: str, data: bytes | None = None, **extra: str) -> int:
        """Send headers (`grpc_timeout="1S"` becomes grpc-timeout) and, where given, a body with its end."""
        number = self.h2.get_next_available_stream_id()
        headers = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "localhost"}
        headers |= {"te": "trailers", "content-type": "application/grpc"}
        headers |= {name.replace("_", "-"): value for name, value in extra.items()}
        self.h2.send_headers(number, list(headers.items()))
        if data is not None:
            self.h2.send_data(number, data, end_stream=True)
        self.flush()
        return number

    async def events(self, until: str, seconds: float = PATIENCE) -> list[object]:
        """All events up to the first whose class has this name, or up to the end of the connection."""
        found: list[object] = []
        async with asyncio.timeout(seconds):
            while until not in [type(event).__name__ for event in found]:
                data = await self.reader.read(65536)
                if not data:
                    break
                found += self.h2.receive_data(data)
                self.flush()
        return found

    async def status(self, seconds: float = PATIENCE) -> dict[str, str]:
        """The headers of the one call in flight that hold its status."""
        for event in await self.events("StreamEnded", seconds):
            headers: dict[str, str] = dict(getattr(event, "headers", ()))
            if "grpc-status" in headers or headers.get(":status", "200") != "200":
                return headers
        raise AssertionError("no status arrived")


@asynccontextmanager
async def raw_client(path: Path) -> AsyncIterator[RawClient]:
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.close()
        await asyncio.sleep(0)


async def stuffed(path: Path) -> asyncio.StreamWriter:
    """A client with a huge window that never reads."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    raw = RawClient(reader, writer)
    raw.h2.increment_flow_control_window(2**30)
    raw.h2.update_settings({4: 2**30})
    raw.request("/v1beta1.DevicePlugin/ListAndWatch", b"\0\0\0\0\0")
    return writer


def filled(kind: type[Message], rng: random.Random, depth: int = 3) -> Message:
    """A message with most fields set to something."""
    message = kind()
    for field in kind.DESCRIPTOR.fields:
        if rng.random() < 0.8:
            fill(message, field, rng, depth)
    return message


def fill(message: Any, field: Any, rng: random.Random, depth: int) -> None:
    inner: Descriptor | None = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        values = getattr(message, field.name)
        for number in range(rng.randrange(3)):
            if inner.fields_by_name["value"].message_type is not None:
                values[f"key{number}"].SetInParent()
            else:
                values[f"key{number}"] = "value"
    elif inner is not None:
        if depth:
            made = [filled(GetMessageClass(inner), rng, depth - 1) for _ in range(rng.randrange(1, 3))]
            target = getattr(message, field.name)
            target.extend(made) if field.is_repeated else target.CopyFrom(made[0])
    else:
        value = scalar(field, rng)
        getattr(message, field.name).append(value) if field.is_repeated else setattr(
            message, field.name, value
        )


def scalar(field: Any, rng: random.Random) -> Any:
    if field.type == FieldDescriptor.TYPE_STRING:
        return rng.choice(["", "a", "ü", "x" * 200])
    if field.type == FieldDescriptor.TYPE_BYTES:
        return rng.randbytes(rng.randrange(20))
    if field.type == FieldDescriptor.TYPE_BOOL:
        return True
    if field.type == FieldDescriptor.TYPE_ENUM:
        return rng.choice(field.enum_type.values).number
    return rng.randrange(2**31)
