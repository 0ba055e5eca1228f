"""Pods with claims for a `Node`, and drivers that fail on demand. What the scheduler would do is done here."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dray.api.kinds import PODS, RESOURCE_CLAIMS
from dray.errors import UnavailableError
from dray.testing.check.api_server import Place
from dray.wire.gen import dra_v1_pb2 as pb
from dray.wire.gen.pluginregistration_v1_pb2 import (
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from dray.wire.registration import RegistrationService
from dray.wire.serve import serve
from tests.kubelet.claims.world import NODE as POOL
from tests.kubelet.claims.world import Driver
from tests.processes.kubelet_node import NODE, Node, container
from tests.processes.kubelet_server import Json
from tests.waiting import PATIENCE


@dataclass(eq=False)
class Moody(Driver):
    """Fails while `broken` names what it is asked: info, notify, prepare, unprepare. `share_id` is told with its devices."""

    broken: set[str] = field(default_factory=set)
    tried: list[str] = field(default_factory=list)
    share_id: str | None = None

    async def get_info(self, request: InfoRequest) -> PluginInfo:
        self._try("info")
        return await super().get_info(request)

    async def notify_registration_status(self, request: RegistrationStatus) -> RegistrationStatusResponse:
        self._try("notify")
        return await super().notify_registration_status(request)

    async def node_prepare_resources(
        self, request: pb.NodePrepareResourcesRequest
    ) -> pb.NodePrepareResourcesResponse:
        self._try("prepare")
        return await super().node_prepare_resources(request)

    async def node_unprepare_resources(
        self, request: pb.NodeUnprepareResourcesRequest
    ) -> pb.NodeUnprepareResourcesResponse:
        self._try("unprepare")
        return await super().node_unprepare_resources(request)

    def _try(self, what: str) -> None:
        self.tried.append(what)
        if what in self.broken:
            raise UnavailableError(f"{what} is broken")

    def device(self, claim: str) -> pb.Device:
        found = super().device(claim)
        if self.share_id is not None:
            found.share_id = self.share_id
        return found


def driver_of(node: Node, name: str = "a.io") -> Moody:
    """Its service has a socket of its own, beside the one in the registry."""
    return Moody(name, node.root / f"{name}.sock")


@asynccontextmanager
async def announced(node: Node, driver: Driver) -> AsyncIterator[None]:
    """Its registration socket is there."""
    async with serve(node.registry / f"{driver.name}.sock", [RegistrationService(driver)]):
        yield


@asynccontextmanager
async def registered(node: Node, *drivers: Moody) -> AsyncIterator[None]:
    """These serve, and know that the kubelet took them."""
    async with contextlib.AsyncExitStack() as stack:
        for driver in drivers:
            before = len(driver.notified)
            await stack.enter_async_context(driver.serving())
            await stack.enter_async_context(announced(node, driver))
            await wait_notified(node, driver, before)
        yield


async def wait_notified(node: Node, driver: Driver, before: int = 0) -> None:
    await node.wait(lambda: len(driver.notified) > before, f"{driver.name} to be told")
    assert driver.notified[-1] == RegistrationStatus(plugin_registered=True)


async def run_with(
    node: Node, name: str, claims: Mapping[str, Sequence[str]], *, wait: bool = True, **result: Any
) -> None:
    """A pod that uses these claims, each of these drivers; `result` goes into the allocation."""
    for claim in claims:
        if not node.server.find(RESOURCE_CLAIMS, claim):
            spec = {"devices": {"requests": [{"name": "req", "exactly": {"deviceClassName": "any"}}]}}
            await node.server.add(RESOURCE_CLAIMS, {"metadata": {"name": claim}, "spec": spec})
    used = container(resources={"claims": [{"name": claim} for claim in claims]})
    listed = [{"name": claim, "resourceClaimName": claim} for claim in claims]
    await node.run(name, used, resourceClaims=listed, nodeName="")
    for claim, drivers in claims.items():
        results = [
            {"request": "req", "driver": driver, "pool": POOL, "device": f"dev-{claim}", **result}
            for driver in drivers
        ]
        await _allocate(node, claim, name, results)
    await _bind(node, name)
    if wait:
        await node.phase(name, "Running")


async def _allocate(node: Node, claim: str, pod: str, results: list[Json]) -> None:
    document = copy.deepcopy(node.server.find(RESOURCE_CLAIMS, claim))
    uid = node.server.find(PODS, pod)["metadata"]["uid"]
    reserved = document.get("status", {}).get("reservedFor", [])
    document["status"] = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [*reserved, {"resource": "pods", "name": pod, "uid": uid}],
    }
    await node.server.update(Place(RESOURCE_CLAIMS, "default", claim, "status"), document)


async def _bind(node: Node, pod: str) -> None:
    document = copy.deepcopy(node.server.find(PODS, pod))
    document["spec"]["nodeName"] = NODE
    await node.server.put(PODS, document)


@dataclass
class Counter:
    """Stands before a socket and counts who connects."""

    path: Path
    behind: Path
    connections: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        server = await asyncio.start_unix_server(self._accept, self.path)
        try:
            yield
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks, timeout=PATIENCE) if self._tasks else None
            self.path.unlink()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        far_reader, far_writer = await asyncio.open_unix_connection(self.behind)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(_pass(reader, far_writer), _pass(far_reader, writer))
        writer.close()
        far_writer.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()
