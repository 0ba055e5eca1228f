"""Every gRPC socket from both sides: whatever a peer writes, ours goes on, stays within its bounds and believes nothing wrong.

The real `dray kubelet` and `dray agent` run as programs under a limit of memory. What is written to them is in `socket_attacks`.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import sys
from collections import Counter
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
from dray.wire.gen.dra_health_v1_pb2 import NodeWatchResourcesRequest, NodeWatchResourcesResponse
from dray.wire.gen.pluginregistration_v1_pb2 import InfoRequest, PluginInfo, RegistrationStatusResponse
from dray.wire.gen.podresources_v1_pb2 import (
    AllocatableResourcesRequest,
    AllocatableResourcesResponse,
    ListPodResourcesResponse,
)
from dray.wire.service import Client, methods_of
from tests.campaign import seeds
from tests.hostile.hostile_server import CONNECT, HostileServer
from tests.hostile.socket_attacks import CLIENT, SERVER, Method, client_case
from tests.hostile.socket_node import SIM, Program, SocketNode, socket_node

pytestmark = pytest.mark.asyncio(loop_scope="module")
AT_ONCE = 20
"""Hostile connections that are open together."""
LANES = 10
"""Hostile servers that are there together."""
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
    cases = list(itertools.product(seeds(2, 160), CLIENT))

    async def one(seed: int, attack: str) -> None:
        rng = random.Random(f"{seed} {attack}")
        target = served[rng.choice(sorted(served))]
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


NOTHING: Method = (CONNECT, plugin_pb.Empty)
OF_PLUGIN: tuple[Method, ...] = (
    NOTHING,
    (deviceplugin.DevicePluginClient.get_device_plugin_options.path, plugin_pb.DevicePluginOptions),
    (deviceplugin.DevicePluginClient.list_and_watch.path, plugin_pb.ListAndWatchResponse),
)
OF_DRIVER: tuple[Method, ...] = (
    NOTHING,
    (registration.RegistrationClient.get_info.path, PluginInfo),
    (registration.RegistrationClient.notify_registration_status.path, RegistrationStatusResponse),
    (health.HealthClient.node_watch_resources.path, NodeWatchResourcesResponse),
)
OF_CALLS: tuple[tuple[str, tuple[Method, ...]], ...] = tuple(
    (version, tuple((method.path, method.response) for _, method in methods_of(table)))
    for version, table in ((dra.V1, dra.DraClient), (dra.V1BETA1, dra.DraV1beta1Client))
)
"""By the version that is spoken."""
OF_CONTAINERS: tuple[Method, ...] = (
    NOTHING,
    *(
        (method.path, method.response)
        for method in (
            deviceplugin.DevicePluginClient.get_preferred_allocation,
            deviceplugin.DevicePluginClient.allocate,
            deviceplugin.DevicePluginClient.pre_start_container,
        )
    ),
)
"""What a kubelet asks of a device plugin before a container starts."""
OF_POD_RESOURCES: tuple[Method, ...] = (
    NOTHING,
    (podresources.PodResourcesClient.list.path, ListPodResourcesResponse),
    (podresources.PodResourcesClient.get_allocatable_resources.path, AllocatableResourcesResponse),
)


async def hostile_plugin(node: SocketNode, lane: int, server: HostileServer) -> None:
    """It registers its own resource, again and again the same one."""
    path = node.plugins / f"raw-{lane}.sock"
    request = plugin_pb.RegisterRequest(
        version=deviceplugin.VERSION, endpoint=path.name, resource_name=f"raw.example/r{lane}"
    )

    async def register() -> None:
        try:
            async with connect(node.plugins / "kubelet.sock", timeout=PATIENCE) as channel:
                await deviceplugin.DevicePluginRegistrationClient(channel).register(request)
        except Error:
            server.reached.set()  # it comes no further

    async with server.serving(path):
        call = asyncio.ensure_future(register())
        await asyncio.wait_for(server.reached.wait(), PATIENCE)
        await asyncio.sleep(0.02)
        call.cancel()


async def hostile_driver(node: SocketNode, lane: int, number: int, server: HostileServer) -> None:
    """It is found in the registry, and has everything on the one socket."""
    info = PluginInfo(
        type=registration.DRA_PLUGIN,
        name=f"raw{lane}.example",
        supported_versions=[*dra.VERSIONS, *health.VERSIONS],
    )
    server.honest = {
        registration.RegistrationClient.get_info.path: info,
        registration.RegistrationClient.notify_registration_status.path: RegistrationStatusResponse(),
    }
    async with server.serving(node.registry / f"raw-{number}.sock"):
        await asyncio.wait_for(server.reached.wait(), PATIENCE)
        await asyncio.sleep(0.02)


async def test_no_plugin_or_driver_hurts_the_kubelet(tmp_path: Path) -> None:
    async with socket_node(tmp_path, has_agent=False) as node:
        kubelet = node.kubelet
        good = await node.start_good_plugin()
        calm = kubelet.kilobytes("VmRSS"), kubelet.files()
        kubelet.limit()
        doors = (OF_PLUGIN, OF_DRIVER)
        cases = [(seed, door, attack) for seed in seeds(1, 60) for attack in SERVER for door in doors]

        async def one(number: int) -> None:
            seed, door, attack = cases[number]
            rng = random.Random(f"{seed} {number} {attack}")
            server = HostileServer({}, rng.choice(door), attack, rng, stays=rng.random() < 0.7)
            if door is OF_PLUGIN:
                server.honest = {OF_PLUGIN[1][0]: plugin_pb.DevicePluginOptions()}
                await hostile_plugin(node, number % LANES, server)
            else:
                await hostile_driver(node, number % LANES, number, server)

        for start in range(0, len(cases), LANES):
            async with asyncio.TaskGroup() as group:
                for number in range(start, min(start + LANES, len(cases))):
                    group.create_task(one(number))
            kubelet.check()
            await _register(node.plugins / "kubelet.sock")
        grown = kubelet.kilobytes("VmHWM") - calm[0]
        print(f"kubelet: {grown} kB, {kubelet.cpu_seconds():.1f} s of CPU time, {len(cases)} cases")
        assert grown < GROWTH
        await node.wait(partial(kubelet.has_closed, calm[1]), "the kubelet to close its files")
        assert await node.devices() == good
        of_raw = {name: count for name, count in node.extended().items() if name.startswith("raw.example/")}
        assert set(of_raw.values()) <= {"0"} and len(of_raw) <= LANES
        kubelet.check()


async def test_no_answer_hurts_a_caller(tmp_path: Path) -> None:
    """A kubelet's calls to a driver and to a plugin about a container, and an agent's to pod resources: they end, and what
    they had is given back."""
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.hostile.programs.socket_caller", str(tmp_path)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    stdin, stdout = program.stdin, program.stdout
    assert stdin is not None and stdout is not None

    async def ask(line: str) -> str:
        stdin.write(f"{line}\n".encode())
        answer = (await asyncio.wait_for(stdout.readline(), PATIENCE)).decode().strip()
        assert answer, f"it has ended at {line}"
        return answer

    outcomes: Counter[str] = Counter()
    socket = tmp_path / podresources.SOCKET
    socket.parent.mkdir()
    try:
        for seed, attack, caller in itertools.product(seeds(1, 60), SERVER, ("prepare", "plugin", "held")):
            rng = random.Random(f"{seed} {caller} {attack}")
            version, door = rng.choice(OF_CALLS)
            if caller != "prepare":
                door = OF_CONTAINERS if caller == "plugin" else OF_POD_RESOURCES
            line = {"prepare": f"prepare {version} {socket}", "plugin": f"plugin {socket}"}.get(
                caller, f"held {tmp_path}"
            )
            honest = {path: kind() for path, kind in door}
            server = HostileServer(honest, rng.choice(door), attack, rng, stays=rng.random() < 0.1)
            async with server.serving(socket):
                outcomes[f"{caller}: {await ask(line)}"] += 1
        grown, files = map(int, (await ask("")).split())
        assert {one.partition(":")[0] for one in outcomes} == {"prepare", "plugin", "held"}
        print(f"caller: {grown} kB, {sum(outcomes.values())} cases: {dict(outcomes)}")
        assert grown < GROWTH and files <= 3
        stdin.close()
        assert await program.wait() == 0
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()
