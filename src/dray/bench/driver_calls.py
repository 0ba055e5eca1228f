"""NodePrepareResources, as a kubelet calls it: over the driver's own socket, with claims that are new each time."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

from dray.api.kinds import RESOURCE_CLAIMS
from dray.bench.driver_side import NODE, RunningDriver
from dray.bench.scheduler_cluster import at_once
from dray.client.client import Client
from dray.errors import InvariantError
from dray.wire import dra
from dray.wire.connect import connect
from dray.wire.gen.dra_v1_pb2 import Claim, NodePrepareResourcesRequest, NodeUnprepareResourcesRequest

_NAMESPACE: Final = "default"
_REQUEST: Final = "devices"
_WRITERS: Final = 8
_PAUSE: Final = 0.1
"""Seconds before a call: what a driver does after an answer, such as telling the API server of it, is over then."""


async def time_prepares(
    client: Client, drivers: Sequence[RunningDriver], claims: int, calls: int
) -> list[list[float]]:
    """Seconds of each call with so many claims, for each driver; they take turns."""
    times: list[list[float]] = [[] for _ in drivers]
    async with AsyncExitStack() as stack:
        kubelets = [await _connected(stack, driver) for driver in drivers]
        turns = list(zip(drivers, kubelets, times, strict=True))
        for number in range(calls + 1):
            for driver, kubelet, taken in turns if number % 2 else reversed(turns):
                taken.append(await _time_prepare(client, driver, kubelet, claims))
    return [taken[1:] for taken in times]  # the first one connects


async def _connected(stack: AsyncExitStack, driver: RunningDriver) -> dra.DraClient:
    """As a kubelet is, for the whole time."""
    channel = await stack.enter_async_context(connect(driver.endpoint, timeout=dra.CALL_TIMEOUT))
    return dra.dra_client(channel, dra.V1)


async def _time_prepare(client: Client, driver: RunningDriver, kubelet: dra.DraClient, count: int) -> float:
    """One call. The claims are unprepared and deleted after it."""
    made: list[Claim] = []
    await at_once((_add_claim(client, driver, one, made) for one in driver.devices[:count]), _WRITERS)
    if len(made) < count:
        raise InvariantError(
            f"{driver.program.label} has {len(driver.devices)} devices, too few for {count} claims"
        )
    await asyncio.sleep(_PAUSE)
    began = time.perf_counter()
    answer = await kubelet.node_prepare_resources(NodePrepareResourcesRequest(claims=made))
    taken = time.perf_counter() - began
    given_back = await kubelet.node_unprepare_resources(NodeUnprepareResourcesRequest(claims=made))
    errors = [one.error for each in (answer, given_back) for one in each.claims.values() if one.error]
    if errors or len(answer.claims) != count:
        raise InvariantError(f"{driver.program.label} does not prepare: {'; '.join(errors[:2]) or answer}")
    await at_once((client.delete(RESOURCE_CLAIMS, one.name, namespace=_NAMESPACE) for one in made), _WRITERS)
    return taken


async def _add_claim(client: Client, driver: RunningDriver, device: str, made: list[Claim]) -> None:
    """A new claim, allocated as a scheduler does it."""
    name = f"bench-{uuid.uuid4().hex[:12]}"
    wanted = {"name": _REQUEST, "exactly": {"deviceClassName": NODE}}
    document = {"metadata": {"name": name}, "spec": {"devices": {"requests": [wanted]}}}
    await client.create(RESOURCE_CLAIMS, document, namespace=_NAMESPACE)
    stored = await client.get_raw(RESOURCE_CLAIMS, name, namespace=_NAMESPACE)
    result = {"request": _REQUEST, "driver": driver.program.driver, "pool": NODE, "device": device}
    pod = {"resource": "pods", "name": name, "uid": str(uuid.uuid4())}
    stored["status"] = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [pod]}
    await client.update(RESOURCE_CLAIMS, stored, subresource="status")
    made.append(Claim(namespace=_NAMESPACE, name=name, uid=stored["metadata"]["uid"]))
