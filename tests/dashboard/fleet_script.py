"""A dashboard to look at: `python -m tests.dashboard.fleet_script [--nodes N]` prints its address and keeps its fleet alive.

An API server, controllers, a scheduler and the dashboard in one process. Kubelets and drivers are played: their objects are
written as they would write them.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dray.api.core import ObjectReference
from dray.api.kinds import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from dray.apiserver.http.server import Address
from dray.client.client import Client
from dray.client.event_recorder import EventRecorder
from dray.client.kubeconfig import find_access
from dray.controllers import choice
from dray.controllers.pictures import Surroundings
from dray.errors import NotFoundError
from dray.processes.apiserver import ApiServerOptions, api_server
from dray.processes.controllers import ControllersOptions, controllers
from dray.processes.dashboard import DashboardAt, DashboardOptions, dashboard
from dray.runtime.clock import SystemClock
from dray.runtime.tasks import running
from dray.scheduler.scheduler import SchedulerConfig
from dray.scheduler.scheduler import run as schedule
from tests.dashboard import small_fleet as objects

Json = dict[str, Any]


@dataclass
class Shown:
    """The server's client, and where the dashboard is."""

    client: Client
    kubeconfig: Path
    at: DashboardAt


async def make(client: Client, resource: Resource[Any], document: Json) -> Any:
    return await client.create(resource, document, namespace=document["metadata"].get("namespace"))


async def add_node(client: Client, name: str, **how: Any) -> None:
    document, status = objects.node(name, **how)
    await client.create(NODES, document)
    await client.patch(NODES, name, status, subresource="status")


async def fill(client: Client, more_nodes: int = 0) -> None:
    """Everything but pods: two nodes with GPUs, one of them cut into partitions, hollow ones, and one that is not ready."""
    await make(client, NAMESPACES, {"metadata": {"name": objects.NS}})
    for one in (objects.device_class(), objects.device_class("tape.example.com", "tape.example.com")):
        await make(client, DEVICE_CLASSES, one)
    await add_node(client, "gpu-a", plugin=4)
    ill = {
        "taints": [
            {"key": f"{objects.DRIVER}/unhealthy", "value": "fell-off-the-bus", "effect": "NoSchedule"}
        ]
    }
    gpus = [objects.gpu(one) | (ill if one == 5 else {}) for one in range(8)]
    await make(client, RESOURCE_SLICES, objects.slice_of("gpu-a", gpus))
    await add_node(client, "gpu-b")
    await make(client, RESOURCE_SLICES, objects.counters("gpu-b", 4))
    cut = [one for number in range(4) for one in objects.partitioned(number)]
    await make(client, RESOURCE_SLICES, objects.slice_of("gpu-b", cut, 2))
    await add_node(client, "old-c", ready=False)
    await make(
        client, RESOURCE_SLICES, objects.slice_of("old-c", [objects.gpu(0, model=objects.MODELS["b"])])
    )
    await make(client, RESOURCE_SLICES, objects.everywhere())
    await make(client, DEVICE_TAINT_RULES, objects.rule("fan", "gpu-a", "gpu-6"))
    for number in range(more_nodes):
        name = f"hollow-{number:04d}"
        await add_node(client, name, hollow=True)
        await make(client, RESOURCE_SLICES, objects.slice_of(name, [objects.gpu(one) for one in range(8)]))


async def start_pods(client: Client) -> None:
    """Two that find devices, one that shares a claim, one for a device plugin's, and one that asks for what there is not."""
    await make(client, RESOURCE_CLAIM_TEMPLATES, objects.template("one-gpu", objects.request(objects.WHOLE)))
    await make(
        client, RESOURCE_CLAIM_TEMPLATES, objects.template("one-part", objects.request(objects.PARTITION))
    )
    await make(client, RESOURCE_CLAIMS, objects.claim("pair", objects.request(objects.WHOLE, 2)))
    await make(client, RESOURCE_CLAIMS, objects.claim("dream", objects.request(objects.IMPOSSIBLE)))
    for one in (
        objects.pod("train-0", templates={"gpu": "one-gpu"}),
        objects.pod("serve-0", templates={"gpu": "one-part"}),
        objects.pod("pair-0", claims={"gpus": "pair"}),
        objects.pod("filter-0", fpga=2),
        objects.pod("dreamer", claims={"gpu": "dream"}),
    ):
        await make(client, PODS, one)


class Play:
    """Plays the kubelets and the drivers: prepares what is reserved, and lets pods run, but for those labelled `starts: never`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._prepared = set[str]()

    async def run(self) -> None:
        for _ in itertools.count():
            await self.step()
            await asyncio.sleep(0.3)

    async def step(self) -> None:
        for claim in (await self._client.list(RESOURCE_CLAIMS)).items:
            if claim.status.reserved_for and claim.metadata.uid not in self._prepared:
                self._prepared.add(claim.metadata.uid)
                await self._prepare(claim)
        for pod in (await self._client.list(PODS)).items:
            is_to_run = pod.spec.node_name and pod.metadata.labels.get("starts") != "never"
            if is_to_run and pod.status.phase != "Running":
                status = {"status": {"phase": "Running"}}
                meta = pod.metadata
                with suppress(NotFoundError):  # deleted meanwhile
                    await self._client.patch(
                        PODS, meta.name, status, namespace=meta.namespace, subresource="status"
                    )

    async def _prepare(self, claim: Any) -> None:
        meta = claim.metadata
        results = claim.status.allocation.devices.results
        recorder = EventRecorder(self._client, "dray-agent", SystemClock(), host=results[0].pool)
        about = ObjectReference(
            api_version=RESOURCE_CLAIMS.api_version, kind="ResourceClaim", namespace=meta.namespace, name=meta.name, uid=meta.uid
        )  # fmt: skip
        names = ", ".join(one.device for one in results)
        recorder.tell(about, "Normal", "DevicePrepared", f"prepared {names}")
        await recorder.flush(5.0)


@asynccontextmanager
async def shown_fleet(directory: Path, *, more_nodes: int = 0, port: int = 0) -> AsyncIterator[Shown]:
    """Entered: everything runs, and the pods were made."""
    async with AsyncExitStack() as stack:
        found = await stack.enter_async_context(api_server(ApiServerOptions(directory, Address(port=0))))
        access = find_access(found.kubeconfig)
        client = await stack.enter_async_context(Client(access))
        await fill(client, more_nodes)
        options = ControllersOptions(None, (choice.CLAIMS,), choice.policies("correct", ""))
        await stack.enter_async_context(controllers(Surroundings.of(client), options))
        ready = asyncio.Event()
        work = schedule(client, SchedulerConfig(), ready=ready.set)
        await stack.enter_async_context(running(work, name="scheduler"))
        await ready.wait()
        await start_pods(client)
        await stack.enter_async_context(running(Play(client).run(), name="play"))
        at = await stack.enter_async_context(dashboard(DashboardOptions(access, ("127.0.0.1", port))))
        yield Shown(client, found.kubeconfig, at)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=6, help="hollow nodes of eight GPUs (default 6)")
    parser.add_argument("--port", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dray-fleet-") as directory:
        async with shown_fleet(Path(directory), more_nodes=arguments.nodes, port=arguments.port) as shown:
            print(shown.at.entrance, flush=True)
            print(f"kubeconfig {shown.kubeconfig}", flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())
