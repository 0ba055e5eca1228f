"""Plugins and drivers that break every rule, as a process of their own: `python -m tests.processes.bad_plugins quiet|floods DIR`.

`quiet` ones lie, hang or talk nonsense once; `floods` never stop talking. DIR/kubelet belongs to the kubelet. Each serves until
it is killed; DIR/KIND-ready is there once all of them did their worst for the first time.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from dray.errors import Error
from dray.wire.connect import connect
from dray.wire.deviceplugin import HEALTHY, DevicePluginRegistrationClient
from dray.wire.gen import dra_health_v1_pb2 as health_pb
from dray.wire.gen import dra_v1_pb2 as dra_pb
from dray.wire.gen.deviceplugin_v1beta1_pb2 import (
    AllocateResponse,
    ContainerAllocateResponse,
    ContainerPreferredAllocationResponse,
    Device,
    DevicePluginOptions,
    Empty,
    ListAndWatchResponse,
    NUMANode,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
    RegisterRequest,
    TopologyInfo,
)
from dray.wire.gen.pluginregistration_v1_pb2 import InfoRequest, PluginInfo
from tests.kubelet.claims.world import Driver
from tests.kubelet.plugins.real_plugin import Plugin, RawLists, devices

BAD = "bad.example"
ONE = devices("a", "b", "c")


class Liar(Plugin):
    """Prefers devices that nobody has, and answers for no container."""

    async def get_preferred_allocation(
        self, request: PreferredAllocationRequest
    ) -> PreferredAllocationResponse:
        lies = ContainerPreferredAllocationResponse(deviceIDs=["nobody", "a", "a", ""])
        return PreferredAllocationResponse(container_responses=[lies] * 3)


class Endless(Plugin):
    """Lists without end, each another one."""

    async def list_and_watch(self, request: Empty) -> AsyncIterator[ListAndWatchResponse]:
        for number in itertools.count():
            names = [f"{number % 7}-{one}" for one in range(500)]
            yield ListAndWatchResponse(devices=[Device(ID=name, health=HEALTHY) for name in names])


class Ending(Plugin):
    """Begins to list, and is gone."""

    async def list_and_watch(self, request: Empty) -> AsyncIterator[ListAndWatchResponse]:
        yield devices("x")
        raise Error("I do not feel like it")


class Sick(Driver):
    """Tells of the health of its devices without end, each time otherwise."""

    async def node_watch_resources(
        self, request: health_pb.NodeWatchResourcesRequest
    ) -> AsyncIterator[health_pb.NodeWatchResourcesResponse]:
        for number in itertools.count():
            yield health_pb.NodeWatchResourcesResponse(
                devices=[
                    health_pb.DeviceHealth(
                        device=health_pb.DeviceIdentifier(pool_name=f"p{number % 9}", device_name=f"d{one}"),
                        health=health_pb.HealthStatus.HEALTHY if number % 2 else "UNHEALTHY",
                        message="m" * 2000,
                        health_check_timeout_seconds=2**40,
                    )
                    for one in range(200)
                ]
            )


class Noisy(Driver):
    """Says that it serves where only nonsense is spoken."""

    async def get_info(self, request: InfoRequest) -> PluginInfo:
        found = await super().get_info(request)
        found.endpoint = str(self.path.with_name("noise.sock"))
        return found


class Shouting(Driver):
    """Has a name of a megabyte."""

    async def get_info(self, request: InfoRequest) -> PluginInfo:
        found = await super().get_info(request)
        return PluginInfo(
            type=found.type, name="n" * 2**20, endpoint=found.endpoint, supported_versions=self.versions
        )


def numa(*nodes: int) -> TopologyInfo:
    return TopologyInfo(nodes=[NUMANode(ID=node) for node in nodes])


def placed() -> ListAndWatchResponse:
    nowhere = [numa(-1), numa(-(2**63), 2**62), numa(0, -7), numa(*range(2000))]
    return ListAndWatchResponse(
        devices=[Device(ID=f"n{at}", health=HEALTHY, topology=where) for at, where in enumerate(nowhere)]
    )


def huge() -> ListAndWatchResponse:
    """700,000 devices in 12 MiB, written by hand because it is quicker."""
    entries = (b"\x0a\x10\x0a\x05%05x\x12\x07Healthy" % number for number in range(700_000))
    return ListAndWatchResponse.FromString(b"".join(entries))


def plugins() -> dict[str, Plugin]:
    big = ContainerAllocateResponse(envs={f"V{one}": "x" * 2**17 for one in range(64)})
    doubled = ListAndWatchResponse(devices=[*ONE.devices, *ONE.devices, Device(ID="", health=HEALTHY)])
    unknown = b"\x0a\x01a\x12\x07Healthy\x7a\x03???\xf8\x07\x05"
    return {
        "huge": Plugin(first=huge()),
        "large": Plugin(first=devices("x" * (17 * 2**20))),
        "utf8": RawLists(b"\x0a\x02\xff\xfe"),
        "fields": RawLists(unknown),
        "numa": Plugin(first=placed()),
        "lies": Liar(
            first=doubled,
            options=DevicePluginOptions(get_preferred_allocation_available=True),
            answer=AllocateResponse(),
        ),
        "hang": Plugin(first=devices(*"abcdefgh"), hang="allocate"),
        "options": Plugin(hang="options"),
        "big": Plugin(answer=AllocateResponse(container_responses=[big])),
    }


def wrong(request: dra_pb.NodePrepareResourcesRequest) -> dra_pb.NodePrepareResourcesResponse:
    """For claims that nobody asked about."""
    return dra_pb.NodePrepareResourcesResponse(
        claims={
            "u" * 2**19: dra_pb.NodePrepareResourceResponse(),
            "other": dra_pb.NodePrepareResourceResponse(),
        }
    )


def large(request: dra_pb.NodePrepareResourcesRequest) -> dra_pb.NodePrepareResourcesResponse:
    device = dra_pb.Device(pool_name="p", device_name="d", cdi_device_ids=["x" * 2**20])
    return dra_pb.NodePrepareResourcesResponse(
        claims={
            claim.uid: dra_pb.NodePrepareResourceResponse(devices=[device] * 3) for claim in request.claims
        }
    )


class Place:
    """The kubelet's directories."""

    def __init__(self, root: Path, stack: AsyncExitStack) -> None:
        self.root = root
        self.plugins = root / "kubelet/device-plugins"
        self.registry = root / "kubelet/plugins_registry"
        self.stack = stack

    async def register(self, resource: str, endpoint: str) -> None:
        """Whatever comes of it."""
        request = RegisterRequest(version="v1beta1", endpoint=endpoint, resource_name=resource)
        with contextlib.suppress(Error):
            async with connect(self.plugins / "kubelet.sock", timeout=60) as channel:
                await DevicePluginRegistrationClient(channel).register(request)

    async def serve(self, plugin: Plugin, endpoint: str) -> None:
        await self.stack.enter_async_context(plugin.serving(self.plugins / endpoint))

    async def drive(self, driver: Driver) -> None:
        """The registration socket is the driver's own."""
        await self.stack.enter_async_context(driver.serving())

    def driver(self, name: str, kind: type[Driver] = Driver) -> Driver:
        return kind(name, self.registry / f"{name}.sock")

    async def nonsense(self, path: Path) -> None:
        """A server that says random bytes to whoever comes."""
        noise = random.Random(7).randbytes(200_000)

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                writer.write(noise)
                await writer.drain()
                await reader.read()

        self.stack.callback((await asyncio.start_unix_server(talk, path)).close)

    def silence(self, path: Path) -> None:
        """A socket that listens and does nothing else."""
        silent = self.stack.enter_context(socket.socket(socket.AF_UNIX))
        silent.bind(str(path))
        silent.listen(128)


async def quiet(place: Place) -> list[Awaitable[None]]:
    bad = plugins()
    for name, plugin in bad.items():
        await place.serve(plugin, f"{name}.sock")
    await place.serve(Plugin(), "../../outside.sock")
    for folder in (place.plugins, place.registry):
        await place.nonsense(folder / "noise.sock")
        place.silence(folder / "silent.sock")
    hanging, lying, sizing = (place.driver(f"{name}.{BAD}") for name in ("hang", "wrong", "big"))
    hanging.gate, lying.on_prepare, sizing.on_prepare = asyncio.Event(), wrong, large
    for driver in (
        hanging,
        lying,
        sizing,
        place.driver("shouts", Shouting),
        place.driver(f"noise.{BAD}", Noisy),
    ):
        await place.drive(driver)
    sockets = {name: f"{name}.sock" for name in (*bad, "noise", "silent")}
    sockets |= {"outside": "../../outside.sock", "missing": "nothing.sock", "self": "kubelet.sock"}
    return [place.register(f"{BAD}/{name}", path) for name, path in sockets.items()]


async def floods(place: Place) -> list[Awaitable[None]]:
    await place.serve(Endless(), "endless.sock")
    await place.serve(Ending(), "ending.sock")
    await place.drive(place.driver(f"sick.{BAD}", Sick))

    async def again_and_again(name: str, path: str) -> None:
        for number in itertools.count():
            resource = f"{BAD}/{name}-{number % 200}" if number % 5 else "x" * 10_000
            await place.register(resource, path)
            await asyncio.sleep(0.001)

    flood = [("endings", "ending.sock"), ("nobody", "nothing.sock"), ("again", "endless.sock")] * 20
    return [again_and_again(name, path) for name, path in flood]


async def main(kind: str, root: Path) -> None:
    """Until killed."""
    begin: Callable[[Place], Awaitable[list[Awaitable[None]]]] = {"quiet": quiet, "floods": floods}[kind]
    async with AsyncExitStack() as stack:
        calls = await begin(Place(root, stack))
        pending = asyncio.gather(*calls)
        await asyncio.sleep(0.5)
        (root / f"{kind}-ready").touch()
        await pending
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
