"""An embedded API server in this process, with a hollow fleet, and on wish scheduler and controllers: a `--sim` cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from dray.api.codec import load_documents
from dray.api.core import Pod
from dray.api.kinds import PODS, by_kind
from dray.apiserver.http.server import Address
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.controllers import choice
from dray.controllers.pictures import Surroundings
from dray.drivers.sim.profile import SimProfile
from dray.processes.apiserver import ApiServerOptions, api_server
from dray.processes.controllers import ControllersOptions, controllers
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.tasks import running
from dray.scheduler.scheduler import SchedulerConfig, run
from dray.up.fleet.hollow_fleet import HollowFleet
from dray.up.fleet.profile_file import read_profile
from tests.waiting import until

NS = "default"
GPUS = """
classes:
  - name: gpu
    expression: device.driver == "gpu.example.com"
groups:
  - name: n
    count: {count}
    zones: [a, b]
    resources: {{example.com/plugin: 4}}
    devices:
      - driver: gpu.example.com
        count: {devices}
        product: Test
        numaNodes: 1
        pcieRoots: 1
"""


def small(count: int = 2, devices: int = 2) -> SimProfile:
    return read_profile(GPUS.format(count=count, devices=devices), "small.yaml")


@asynccontextmanager
async def server(directory: Path) -> AsyncIterator[Client]:
    async with (
        api_server(ApiServerOptions(directory / "data", Address("127.0.0.1", 0))) as at,
        Client(find_access(at.kubeconfig)) as client,
    ):
        yield client


@asynccontextmanager
async def fleet(
    client: Client, profile: SimProfile, clock: Clock | None = None
) -> AsyncIterator[HollowFleet]:
    """Entered: all nodes are there."""
    made = HollowFleet(client, profile, clock or SystemClock())
    async with made.running():
        async with asyncio.timeout(60):
            await made.wait_written()
        yield made


@asynccontextmanager
async def sim_cluster(
    directory: Path, profile: SimProfile, clock: Clock | None = None
) -> AsyncIterator[Client]:
    """The server, both schedulers' names, all controllers and the fleet, whose clock it is."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(server(directory))
        options = ControllersOptions(None, choice.ALL, choice.policies("correct", ""))
        await stack.enter_async_context(controllers(Surroundings.of(client), options))
        ready = asyncio.Event()
        work = run(client, SchedulerConfig("default-scheduler"), ready=ready.set)
        await stack.enter_async_context(running(work, name="scheduler"))
        await ready.wait()
        await stack.enter_async_context(fleet(client, profile, clock))
        yield client


async def apply(client: Client, *files: Path) -> None:
    for file in files:
        for one in load_documents(file.read_text(), str(file)):
            resource = by_kind(one.api_version, one.kind)
            namespace = NS if resource.namespaced else None
            await client.apply(resource, one, manager="test", force=True, namespace=namespace)


async def in_phase(client: Client, name: str, phase: str) -> Pod:
    async def look() -> Pod | None:
        pod = await client.get(PODS, name, namespace=NS)
        return pod if pod.status.phase == phase else None

    return await until(look)
