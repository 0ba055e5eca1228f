"""Both sides against another implementation, gRPC's C core. Against Go: `tests/e2e/test_wire_interop.py`."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dray.errors import Error, HardwareError, NotFoundError, ProtocolError, UnavailableError
from dray.wire.connect import connect
from dray.wire.deviceplugin import DevicePluginClient, DevicePluginService
from dray.wire.gen.deviceplugin_v1beta1_pb2 import Empty, PreferredAllocationRequest, PreStartContainerRequest
from dray.wire.limits import Limits
from dray.wire.serve import serve
from dray.wire.status import ERRORS, Code
from tests.waiting import PATIENCE
from tests.wire.samples import Plugin, devices, ids_of, request_for

PROGRAM = [sys.executable, "-m", "tests.wire.foreign"]
ROOT = Path(__file__).parents[2]


async def run_client(path: Path) -> dict[str, object]:
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, "client", str(path), stdout=subprocess.PIPE, cwd=ROOT
    )
    async with asyncio.timeout(60):
        output, _ = await process.communicate()
    assert process.returncode == 0
    answers: dict[str, object] = json.loads(output)
    return answers


async def test_a_foreign_client_is_served(socket_path: Path) -> None:
    plugin = Plugin()
    plugin.updates = [devices(3), devices(1000)]
    plugin.failure = HardwareError("Gerät ist weg: " + "ü" * 10_000)
    limits = Limits(send=2**23)
    async with serve(socket_path, [DevicePluginService(plugin)], limits=limits):
        answers = await run_client(socket_path)
        await asyncio.wait_for(plugin.left.wait(), PATIENCE)
    assert plugin.events.count("stream cancelled") == 1
    failure = answers.pop("failure")
    assert isinstance(failure, list)
    assert failure[0] == "FAILED_PRECONDITION"
    assert failure[1].startswith("Gerät ist weg: ü")
    assert failure[1].endswith("...")
    assert answers == {
        "options": True,
        "stream": [3, 1000],
        "many": [str(number) for number in range(100)],
        "large": 4_000_000,
        "too large": ["RESOURCE_EXHAUSTED", "a message of 5000010 bytes is larger than the limit of 4194304"],
        "after": "alive",
        "deadline": ["DEADLINE_EXCEEDED", answers["deadline"][1]],  # type: ignore[index]
        "unknown": ["UNIMPLEMENTED", "unknown method /v1beta1.DevicePlugin/Nothing"],
    }


@asynccontextmanager
async def foreign_server(path: Path) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, "server", str(path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            assert await process.stdout.readline() == b"serving\n"
        yield
    finally:
        await process.communicate(b"")


async def test_a_foreign_server_is_understood(socket_path: Path) -> None:
    async with foreign_server(socket_path), connect(socket_path) as channel:
        client = DevicePluginClient(channel)
        for size in (0, 1, 16_383, 16_384, 70_000, 4_000_000):
            assert ids_of(await client.allocate(request_for("x" * size))) == "x" * size
        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(client.allocate(request_for(str(number)))) for number in range(200)]
        assert [ids_of(call.result()) for call in calls] == [str(number) for number in range(200)]
        for code in Code:
            if code is not Code.OK:
                with pytest.raises(Error, match=f"wie gewünscht: !{code.name}") as caught:
                    await client.allocate(request_for(f"!{code.name}"))
                assert type(caught.value) is ERRORS[code]
        with pytest.raises(ProtocolError, match="larger than the limit of 4194304"):
            await client.allocate(request_for("+4200000"))
        with pytest.raises(UnavailableError, match=r"within 0\.1 s"):
            await client.pre_start_container(PreStartContainerRequest(), timeout=0.1)
        with pytest.raises(ProtocolError, match="UNIMPLEMENTED"):
            await client.get_preferred_allocation(PreferredAllocationRequest())
        assert ids_of(await client.allocate(request_for("alive"))) == "alive"


async def test_a_foreign_stream_is_read_to_its_end(socket_path: Path) -> None:
    seen: list[str] = []
    async with foreign_server(socket_path), connect(socket_path) as channel:
        async with DevicePluginClient(channel).list_and_watch(Empty()) as answers:
            with pytest.raises(NotFoundError, match="no more"):
                async for update in answers:
                    seen += [update.devices[-1].ID]
        async with DevicePluginClient(channel).list_and_watch(Empty()) as answers:
            await anext(answers)
        assert ids_of(await DevicePluginClient(channel).allocate(request_for("alive"))) == "alive"
    assert seen == [f"{number}-49" for number in range(2000)]
