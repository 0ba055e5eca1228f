"""A real embedded API server with nodes and devices, and schedulers that run against it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dray.api.codec import encode
from dray.api.core import Pod
from dray.api.kinds import (
    DEVICE_CLASSES,
    EVENTS,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from dray.api.resource import ResourceClaim
from dray.apiserver.http.server import Address
from dray.client import requests
from dray.client.client import Client
from dray.client.http import Request
from dray.client.kubeconfig import find_access
from dray.client.rate_limit import RateLimit
from dray.client.requests import DeleteOptions
from dray.errors import NotFoundError
from dray.processes.apiserver import ApiServerOptions, api_server
from dray.runtime.clock import Clock
from dray.runtime.metrics import Metrics
from dray.runtime.tasks import running
from dray.scheduler.queue.waiting import QueueOptions
from dray.scheduler.scheduler import SchedulerConfig, run
from tests import waiting
from tests.scheduler.unreliable import Line, unreliable

Json = dict[str, Any]
DRIVER = "d.example.com"
NS = "default"
CONFIG = SchedulerConfig(
    queue=QueueOptions(first_backoff=0.05, longest_backoff=0.1, is_eager=False),
    events=RateLimit(1000.0, 100),
)


@dataclass
class Live:
    """The server, seen by an administrator."""

    client: Client
    directory: Path

    async def node(
        self, name: str = "n", devices: int = 2, labels: Json | None = None, has: Json | None = None
    ) -> None:
        await self.client.create(NODES, {"metadata": {"name": name, "labels": labels or {}}})
        allocatable = {"cpu": "8", "memory": "16Gi", "pods": "110"} | (has or {})
        await self.client.patch(NODES, name, {"status": {"allocatable": allocatable}}, subresource="status")
        if devices:
            await self.slice(name, devices)

    async def slice(self, node: str, devices: int, **device: Any) -> None:
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        listed = [{"name": f"g{number}", **device} for number in range(devices)]
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": listed}
        await self.client.create(RESOURCE_SLICES, {"metadata": {"name": f"s-{node}"}, "spec": spec})

    async def device_class(self, name: str = "c", **spec: Any) -> None:
        selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
        await self.client.create(
            DEVICE_CLASSES, {"metadata": {"name": name}, "spec": {"selectors": [selector], **spec}}
        )

    async def claim(self, name: str, count: int = 1) -> ResourceClaim:
        request = {"name": "r", "exactly": {"deviceClassName": "c", "count": count}}
        document = {"metadata": {"name": name, "namespace": NS}, "spec": {"devices": {"requests": [request]}}}
        return await self.client.create(RESOURCE_CLAIMS, document)

    async def pod(self, name: str, *claims: str, cpu: str = "100m", **spec: Any) -> Pod:
        entries = [{"name": one, "resourceClaimName": one} for one in claims]
        uses = {"requests": {"cpu": cpu}, "claims": [{"name": one} for one in claims]}
        container = {"name": "c", "image": "i", "resources": uses}
        body = {"schedulerName": "dray", "resourceClaims": entries, "containers": [container], **spec}
        return await self.client.create(PODS, {"metadata": {"name": name, "namespace": NS}, "spec": body})

    async def both(self, name: str, **spec: Any) -> Pod:
        """A pod and its claim of the same name."""
        await self.claim(name)
        return await self.pod(name, name, **spec)

    async def end(self, name: str) -> None:
        """Delete a pod as if its kubelet had ended it, and free its claim as the claim controller would."""
        with suppress(NotFoundError):
            await self.client.delete(PODS, name, namespace=NS, options=DeleteOptions(grace_period=0))
        with suppress(NotFoundError):
            gone = {"status": {"allocation": None, "reservedFor": None}}
            await self.client.patch(RESOURCE_CLAIMS, name, gone, namespace=NS, subresource="status")

    async def priority_class(self, name: str, value: int) -> None:
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        data = encode(body | {"value": value})
        await self.client.raw(Request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body=data))

    async def bind(self, name: str, node: str) -> None:
        """As somebody else would."""
        document = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        await self.client.raw(requests.create_sub(PODS, name, "binding", document, namespace=NS))

    async def get_pod(self, name: str) -> Pod:
        return await self.client.get(PODS, name, namespace=NS)

    async def get_claim(self, name: str) -> ResourceClaim:
        return await self.client.get(RESOURCE_CLAIMS, name, namespace=NS)

    async def where(self) -> dict[str, str]:
        """The node of each pod."""
        pods = (await self.client.list(PODS)).items
        return {one.metadata.name: one.spec.node_name for one in pods}

    async def held(self) -> dict[str, list[str]]:
        """The devices of each claim, as POOL/DEVICE."""
        claims = (await self.client.list(RESOURCE_CLAIMS)).items
        return {
            one.metadata.name: [f"{r.pool}/{r.device}" for r in one.status.allocation.devices.results]
            for one in claims
            if one.status.allocation is not None
        }

    async def devices(self) -> list[str]:
        """All that are held, as often as they are."""
        return sorted(device for some in (await self.held()).values() for device in some)

    async def message(self, name: str) -> str:
        """What its condition PodScheduled says, "" where it says nothing against it."""
        pod = await self.get_pod(name)
        found = [one for one in pod.status.conditions if one.type == "PodScheduled" and one.status == "False"]
        return f"{found[0].reason}: {found[0].message}" if found else ""

    async def events(self, name: str) -> list[str]:
        found = (await self.client.list(EVENTS)).items
        return [f"{one.reason}: {one.message}" for one in found if one.involved_object.name == name]

    async def wait_bound(self, *names: str) -> dict[str, str]:
        async def all_bound() -> bool:
            where = await self.where()
            return all(where.get(name) for name in names)

        await waiting.until(all_bound)
        return await self.where()

    async def wait_message(self, name: str, text: str) -> str:
        async def is_told() -> bool:
            return text in await self.message(name)

        await waiting.until(is_told)
        return await self.message(name)


async def until(condition: Callable[[], Awaitable[bool]], seconds: float, pause: float) -> None:
    """As tests/hostile calls it."""
    await waiting.until(condition, seconds=seconds)


@asynccontextmanager
async def live(directory: Path) -> AsyncIterator[Live]:
    """With a device class, and no nodes."""
    options = ApiServerOptions(directory / "server", Address(port=0))
    async with api_server(options) as found, Client(find_access(found.kubeconfig)) as client:
        made = Live(client, directory)
        await made.device_class()
        yield made


@asynccontextmanager
async def scheduling(
    server: Live,
    config: SchedulerConfig = CONFIG,
    *,
    client: Client | None = None,
    metrics: Metrics | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[None]:
    """Entered: a scheduler has listed everything."""
    ready = asyncio.Event()
    work = run(client or server.client, config, metrics=metrics, clock=clock, ready=ready.set)
    async with running(work, name="scheduler"):
        await asyncio.wait_for(ready.wait(), 60)
        yield


@asynccontextmanager
async def behind(
    server: Live, config: SchedulerConfig = CONFIG, *, clock: Clock | None = None
) -> AsyncIterator[Line]:
    """A scheduler whose line to the server can be broken."""
    kubeconfig = server.directory / "line.kubeconfig"
    async with (
        unreliable(server.client.access, kubeconfig) as line,
        Client(find_access(kubeconfig, environ={})) as client,
        scheduling(server, config, client=client, clock=clock),
    ):
        yield line


def named(name: str, **changes: Any) -> SchedulerConfig:
    return replace(CONFIG, name=name, **changes)
