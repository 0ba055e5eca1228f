"""Every method of every service, both ways, against grpc-go with Kubernetes' own generated types (`tests/wire/peer`)."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from dray.errors import Error, HardwareError, ProtocolError, UnavailableError
from dray.wire import cri, deviceplugin, dra, health, podresources, registration
from dray.wire.connect import connect
from dray.wire.deviceplugin import (
    DevicePluginClient,
    DevicePluginRegistrationClient,
    DevicePluginService,
)
from dray.wire.gen.deviceplugin_v1beta1_pb2 import Empty, RegisterRequest
from dray.wire.serve import serve
from dray.wire.service import Client, Service, Streaming, methods_of
from dray.wire.status import ERRORS, Code, status_of
from tests.e2e.wire_peer import peer_program
from tests.waiting import PATIENCE, wait_until
from tests.wire.samples import Plugin, devices, filled, ids_of, request_for

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
Answer = dict[str, Any]


@pytest.fixture(scope="module")
def peer() -> Path:
    return peer_program()


@pytest.fixture
def socket_path(tmp_path: Path) -> Path:
    return tmp_path / "s.sock"


def plain(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True)
    return found


class Scripted:
    """A handler for any service: answers with given messages, keeps the requests."""

    def __init__(self, table: type[Client], rng: random.Random) -> None:
        self.requests: list[Message] = []
        self.answers = {
            name: [filled(method.response, rng) for _ in range(2)] for name, method in methods_of(table)
        }
        self._methods = dict(methods_of(table))

    def __getattr__(self, name: str) -> Any:
        async def unary(request: Message) -> Message:
            self.requests.append(request)
            return self.answers[name][0]

        async def streaming(request: Message) -> AsyncIterator[Message]:
            self.requests.append(request)
            for answer in self.answers[name]:
                yield answer

        return streaming if isinstance(self._methods[name], Streaming) else unary


@asynccontextmanager
async def running(peer: Path, command: str, path: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        peer, command, path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, limit=2**26
    )
    try:
        yield process
    finally:
        async with asyncio.timeout(PATIENCE):
            await process.communicate(b"")
    assert process.returncode == 0


class GoClient:
    """Calls made by the peer, one after the other."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout

    async def call(
        self, method: str, request: Message | None = None, *, timeout_ms: int = 10_000, take: int = 0
    ) -> Answer:
        asked = {"method": method, "timeout_ms": timeout_ms, "take": take}
        if request is not None:
            asked["request"] = plain(request)
        self._in.write(json.dumps(asked).encode() + b"\n")
        answer: Answer = json.loads(await asyncio.wait_for(self._out.readline(), PATIENCE))
        return answer


@asynccontextmanager
async def go_client(peer: Path, path: Path) -> AsyncIterator[GoClient]:
    async with running(peer, "client", path) as process:
        yield GoClient(process)


@asynccontextmanager
async def go_server(
    peer: Path, path: Path, scripts: dict[str, Answer]
) -> AsyncIterator[asyncio.StreamReader]:
    """The peer answering by scripts; gives the requests it got, one a line."""
    async with running(peer, "server", path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(scripts).encode() + b"\n")
        assert await asyncio.wait_for(process.stdout.readline(), PATIENCE) == b'"serving"\n'
        yield process.stdout


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.__name__)
async def test_go_calls_us(peer: Path, socket_path: Path, service: type[Service[Any]]) -> None:
    rng = random.Random(service.__name__)
    handler = Scripted(service.tables[0], rng)
    async with serve(socket_path, [service(handler)]), go_client(peer, socket_path) as go:
        for table in service.tables:
            for name, method in methods_of(table):
                request = filled(method.request, rng)
                answer = await go.call(method.path, request)
                sent = handler.answers[name][: 2 if isinstance(method, Streaming) else 1]
                assert answer["code"] == "OK", answer
                assert answer["responses"] == [
                    plain(method.response.FromString(known(m, method.response))) for m in sent
                ]
                assert plain(handler.requests.pop()) == plain(request)


def known(message: Message, kind: type[Message]) -> bytes:
    """What remains of a message in an older version of it."""
    older = kind.FromString(message.SerializeToString())
    older.DiscardUnknownFields()
    return older.SerializeToString()


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.__name__)
async def test_we_call_go(peer: Path, socket_path: Path, service: type[Service[Any]]) -> None:
    rng = random.Random(service.__name__)
    methods = [(table, name, method) for table in service.tables for name, method in methods_of(table)]
    answers = {
        method.path: [filled(method.response, rng) for _ in range(2 if isinstance(method, Streaming) else 1)]
        for _, _, method in methods
    }
    scripts = {
        path: {"responses": [plain(answer) for answer in several]} for path, several in answers.items()
    }
    async with go_server(peer, socket_path, scripts) as requests, connect(socket_path) as channel:
        for table, name, method in methods:
            request = filled(method.request, rng)
            call: Any = getattr(table(channel), name)
            if isinstance(method, Streaming):
                async with call(request) as stream:
                    assert [answer async for answer in stream] == answers[method.path]
            else:
                assert await call(request) == answers[method.path][0]
            line = json.loads(await asyncio.wait_for(requests.readline(), PATIENCE))
            assert line == {"method": method.path, "request": plain(request)}


async def test_go_is_told_our_errors(peer: Path, socket_path: Path) -> None:
    plugin = Plugin()
    plugin.failure = HardwareError("Gerät weg " + "ü" * 5000)
    async with serve(socket_path, [DevicePluginService(plugin)]), go_client(peer, socket_path) as go:
        answer = await go.call("/v1beta1.DevicePlugin/GetPreferredAllocation")
        assert (answer["code"], answer["message"][:10]) == ("FailedPrecondition", "Gerät weg ")
        answer = await go.call("/v1beta1.DevicePlugin/PreStartContainer", timeout_ms=100)
        assert answer["code"] == "DeadlineExceeded"
        await wait_until(lambda: "call cancelled" in plugin.events)
        answer = await go.call("/v1beta1.Registration/Register")
        assert (answer["code"], answer["message"]) == (
            "Unimplemented",
            "unknown method /v1beta1.Registration/Register",
        )
        answer = await go.call("/v1beta1.DevicePlugin/Allocate", request_for("x" * 5_000_000))
        assert answer["code"] == "ResourceExhausted"
        assert "larger than the limit of 4194304" in answer["message"]
        answer = await go.call("/v1beta1.DevicePlugin/Allocate", request_for("alive"))
        assert answer["code"] == "OK"


async def test_a_go_stream_ends_when_either_side_says_so(peer: Path, socket_path: Path) -> None:
    plugin = Plugin()
    plugin.updates = [devices(0), devices(20_000, size=100), devices(1)]
    async with go_client(peer, socket_path) as go, asyncio.TaskGroup() as group:
        async with serve(socket_path, [DevicePluginService(plugin)]):
            answer = await go.call("/v1beta1.DevicePlugin/ListAndWatch", take=3)
            assert [len(update.get("devices", [])) for update in answer["responses"]] == [0, 20_000, 1]
            await asyncio.wait_for(plugin.left.wait(), PATIENCE)
            plugin.listed = 0
            stream = group.create_task(go.call("/v1beta1.DevicePlugin/ListAndWatch"))
            await wait_until(lambda: plugin.listed == 3)
        answer = await stream
        assert (answer["code"], answer["message"]) == ("Unavailable", "the server is stopping")
        assert len(answer["responses"]) == 3


async def test_a_go_client_finds_the_next_server(peer: Path, socket_path: Path) -> None:
    async with go_client(peer, socket_path) as go:
        for _ in range(3):
            async with serve(socket_path, [DevicePluginService(Plugin())]):
                answer = await go.call("/v1beta1.DevicePlugin/Allocate")
                while answer["code"] != "OK":  # grpc-go pauses a second between its tries to connect
                    assert answer["code"] == "Unavailable"
                    await asyncio.sleep(0.1)
                    answer = await go.call("/v1beta1.DevicePlugin/Allocate")
            answer = await go.call("/v1beta1.DevicePlugin/Allocate")
            assert answer["code"] == "Unavailable"


async def test_we_are_told_gos_errors(peer: Path, socket_path: Path) -> None:
    for code in Code:
        if code is Code.OK:
            continue
        scripts = {
            "/v1beta1.DevicePlugin/Allocate": {"code": code.value, "message": f"wie gewünscht: {code.name}"}
        }
        async with go_server(peer, socket_path, scripts), connect(socket_path) as channel:
            with pytest.raises(Error, match=f"wie gewünscht: {code.name}") as caught:
                await DevicePluginClient(channel).allocate(request_for("x"))
            assert type(caught.value) is ERRORS[code]


async def test_a_go_server_is_slow_plain_or_gone(peer: Path, socket_path: Path) -> None:
    scripts: dict[str, Answer] = {
        "/v1beta1.DevicePlugin/Allocate": {"plain": True, "message": "device is busy"},
        "/v1beta1.DevicePlugin/GetDevicePluginOptions": {"sleep_ms": 500, "responses": [{}]},
        "/v1beta1.DevicePlugin/ListAndWatch": {
            "responses": [plain(devices(50))] * 500,
            "code": 5,
            "message": "end",
        },
    }
    async with go_server(peer, socket_path, scripts), connect(socket_path) as channel:
        client = DevicePluginClient(channel)
        with pytest.raises(ProtocolError, match=r"device is busy \(gRPC status UNKNOWN\)") as caught:
            await client.allocate(request_for("x"))
        assert (status := status_of(caught.value)) is not None
        assert (status.code, status.message) == (Code.UNKNOWN, "device is busy")
        with pytest.raises(UnavailableError, match=r"within 0\.1 s"):
            await client.get_device_plugin_options(Empty(), timeout=0.1)
        async with client.list_and_watch(Empty()) as answers:
            count = 0
            with pytest.raises(Error, match="end"):
                async for _ in answers:
                    count += 1
        assert count == 500
    with pytest.raises(UnavailableError):
        async with connect(socket_path, timeout=1):
            pass


async def test_a_kubelet_calls_back_inside_register(peer: Path, tmp_path: Path) -> None:
    scripts: dict[str, Answer] = {
        "/v1beta1.Registration/Register": {
            "responses": [{}],
            "call_back": "/v1beta1.DevicePlugin/GetDevicePluginOptions",
        }
    }
    request = RegisterRequest(version="v1beta1", endpoint="plugin.sock", resource_name="example.com/x")
    async with (
        go_server(peer, tmp_path / "kubelet.sock", scripts),
        connect(tmp_path / "kubelet.sock") as channel,
    ):
        kubelet = DevicePluginRegistrationClient(channel)
        with pytest.raises(UnavailableError, match="failed to call back"):
            await kubelet.register(request)
        async with serve(tmp_path / "plugin.sock", [DevicePluginService(Plugin())]):
            assert await kubelet.register(request) == Empty()


async def test_many_go_callers_at_once(peer: Path, socket_path: Path) -> None:
    async with serve(socket_path, [DevicePluginService(Plugin())]):
        process = await asyncio.create_subprocess_exec(peer, "bench", socket_path, stdout=subprocess.PIPE)
        output, _ = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0
        assert b"unary c=16: " in output
        async with connect(socket_path) as channel:
            assert ids_of(await DevicePluginClient(channel).allocate(request_for("alive"))) == "alive"
