"""Every gRPC socket from both sides: whatever a peer writes, ours goes on, stays within its bounds and believes nothing wrong.

The real `dray kubelet` and `dray agent` run as programs under a limit of memory. What is written to them is in `socket_attacks`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from dray.errors import Error
from dray.wire import deviceplugin, dra, health, podresources, registration
from dray.wire.connect import connect
from dray.wire.gen import deviceplugin_v1beta1_pb2 as plugin_pb
from dray.wire.gen import dra_v1_pb2 as dra_pb
from dray.wire.gen.dra_health_v1_pb2 import NodeWatchResourcesRequest
from dray.wire.gen.pluginregistration_v1_pb2 import InfoRequest
from dray.wire.gen.podresources_v1_pb2 import AllocatableResourcesRequest
from dray.wire.service import Client, methods_of
from tests.campaign import seeds
from tests.hostile.socket_attacks import CLIENT, Method, client_case
from tests.hostile.socket_node import SIM, Program, SocketNode, socket_node

pytestmark = pytest.mark.asyncio(loop_scope="module")
AT_ONCE = 20
"""Hostile connections that are open together."""
PATIENCE = 60.0
GROWTH = 160 << 10
"""Kilobytes that a program may ever have had on top of what it takes when calm."""


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SocketNode]:
    async with socket_node(tmp_path_factory.mktemp("s")) as made:
        yield made


@dataclass(frozen=True)
class Target:
    """A socket of ours, all that is served there, and a call that shows that it is."""

    path: Path
    program: Program
    tables: tuple[type[Client], ...]
    honest: Callable[[Path], Awaitable[None]]

    def methods(self) -> list[Method]:
        return [(method.path, method.request) for table in self.tables for _, method in methods_of(table)]


async def _register(path: Path) -> None:
    request = plugin_pb.RegisterRequest(version="v0", endpoint="x.sock", resource_name="example.com/x")
    async with connect(path, timeout=PATIENCE) as channel:
        with pytest.raises(Error, match="requested API version"):
            await deviceplugin.DevicePluginRegistrationClient(channel).register(request)


async def _pod_resources(path: Path) -> None:
    async with connect(path, timeout=PATIENCE) as channel:
        client = podresources.PodResourcesClient(channel)
        try:
            await client.get_allocatable_resources(AllocatableResourcesRequest())
        except Error as error:
            assert "rejected by rate limit" in str(error)


async def _plugin(path: Path) -> None:
    async with connect(path, timeout=PATIENCE) as channel:
        client = deviceplugin.DevicePluginClient(channel)
        async with client.list_and_watch(plugin_pb.Empty()) as answers:
            async with asyncio.timeout(PATIENCE):
                assert len((await anext(answers)).devices) == 4


async def _driver(path: Path) -> None:
    claim = dra_pb.Claim(namespace="default", name="none", uid="none")
    async with connect(path, timeout=PATIENCE) as channel:
        answer = await dra.DraClient(channel).node_prepare_resources(
            dra_pb.NodePrepareResourcesRequest(claims=[claim])
        )
        assert "does not exist" in answer.claims["none"].error
        async with health.HealthClient(channel).node_watch_resources(NodeWatchResourcesRequest()) as answers:
            async with asyncio.timeout(PATIENCE):
                assert len((await anext(answers)).devices) == 4


async def _introduction(path: Path) -> None:
    async with connect(path, timeout=PATIENCE) as channel:
        assert (await registration.RegistrationClient(channel).get_info(InfoRequest())).name == SIM


def targets(node: SocketNode) -> dict[str, Target]:
    kubelet, agent = node.programs
    of_driver = (*dra.DraService.tables, *health.HealthService.tables)
    driver = node.root / f"kubelet/plugins/{SIM}/dra.sock"
    return {
        "kubelet.sock": Target(
            node.plugins / "kubelet.sock",
            kubelet,
            deviceplugin.DevicePluginRegistrationService.tables,
            _register,
        ),
        "pod resources": Target(
            node.root / "kubelet" / podresources.SOCKET,
            kubelet,
            podresources.PodResourcesService.tables,
            _pod_resources,
        ),
        "plugin": Target(node.plugin_socket(), agent, deviceplugin.DevicePluginService.tables, _plugin),
        "driver": Target(driver, agent, of_driver, _driver),
        "registration": Target(
            node.registry / f"{SIM}-reg.sock", agent, registration.RegistrationService.tables, _introduction
        ),
    }


async def hostile_client(path: Path, parts: Iterator[bytes], rng: random.Random) -> None:
    """Until all is written or nobody reads any more; then it stays for a while, or is gone at once."""
    try:
        reader, writer = await asyncio.open_unix_connection(path)
    except OSError:
        return
    if reads := rng.random() < 0.5:
        reading = asyncio.ensure_future(reader.read(2**20))
    else:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
    try:
        async with asyncio.timeout(PATIENCE):
            for part in parts:
                writer.write(part)
                await writer.drain()
        await asyncio.sleep(rng.choice((0, 0, 0.05)))
    except OSError:
        pass
    finally:
        writer.transport.abort()
        if reads:
            reading.cancel()


async def test_no_client_hurts_a_server(node: SocketNode) -> None:
    served = targets(node)
    for target in served.values():
        await target.honest(target.path)
    calm = {one.name: (one.kilobytes("VmRSS"), one.files()) for one in node.programs}
    before, devices = node.extended(), await node.devices()
    for program in node.programs:
        program.limit()
    cases = [(seed, target, attack) for seed in seeds(1, 30) for target in served for attack in CLIENT]

    async def one(seed: int, name: str, attack: str) -> None:
        rng = random.Random(f"{seed} {name} {attack}")
        target = served[name]
        await hostile_client(target.path, client_case(rng, attack, rng.choice(target.methods())), rng)

    for start in range(0, len(cases), AT_ONCE):
        async with asyncio.TaskGroup() as group:
            for case in cases[start : start + AT_ONCE]:
                group.create_task(one(*case))
        for target in served.values():
            target.program.check()
            await target.honest(target.path)
    for program in node.programs:
        program.check()
        resident, files = calm[program.name]
        grown = program.kilobytes("VmHWM") - resident
        print(f"{program.name}: {grown} kB, {program.cpu_seconds():.1f} s of CPU time, {len(cases)} cases")
        assert grown < GROWTH, program.name
        await node.wait(partial(program.has_closed, files), f"{program.name} to close its files")
    assert node.extended() == before and await node.devices() == devices
    assert not node.answers(node.root / "cdi")
