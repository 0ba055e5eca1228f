"""Somebody else who writes to the same objects all the time, and takes devices without asking the scheduler."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from dray.api.core import Pod
from dray.api.kinds import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from dray.api.limits import CLAIM_FINALIZER
from dray.api.resource import ResourceClaim
from dray.client import requests
from dray.client.client import Client
from tests.processes.workload import DRIVER, NOW, NS, claim, insist, pod

Json = dict[str, Any]


class Meddler:
    """`taken` counts the allocations that it made itself, `refused` those that the server did not let it make."""

    def __init__(self, client: Client, rng: random.Random) -> None:
        self._client = client
        self._rng = rng
        self.is_over = False
        self.taken = 0
        self.refused = 0

    async def run(self) -> None:
        """Until `is_over`: it leaves nothing half done."""
        while not self.is_over:
            await self._rng.choice([self._relabel, self._relabel, self._rewrite, self._compete])()
            await asyncio.sleep(0.005)

    async def _relabel(self) -> None:
        resource: Resource[Any] = self._rng.choice([PODS, RESOURCE_CLAIMS, NODES])
        found = await self._client.list(resource)
        if found.items:
            meta = self._rng.choice(found.items).metadata
            change = {"metadata": {"labels": {"meddler": str(self._rng.randrange(9))}}}
            namespace = meta.namespace or None
            await insist(lambda: self._client.patch(resource, meta.name, change, namespace=namespace))

    async def _rewrite(self) -> None:
        """Read, wait, and write the whole back; refused where somebody wrote in between."""
        claims = (await self._client.list(RESOURCE_CLAIMS)).items
        if not claims:
            return
        name = self._rng.choice(claims).metadata.name
        document = await insist(lambda: self._client.get_raw(RESOURCE_CLAIMS, name, namespace=NS))
        await asyncio.sleep(self._rng.random() * 0.02)
        if document is not None:
            document["metadata"].setdefault("annotations", {})["meddler"] = str(self._rng.random())
            await insist(lambda: self._client.update(RESOURCE_CLAIMS, document))

    async def _compete(self) -> None:
        """As another scheduler does: a claim of its own gets some device, taken or not, and its pod that node."""
        name = f"m{self.taken + self.refused}"
        slices = (await self._client.list(RESOURCE_SLICES)).items
        made = await insist(lambda: self._client.create(RESOURCE_CLAIMS, claim(name, "whole", 1)))
        if made is None or not slices:
            return
        document = pod(name, [{"name": "own", "resourceClaimName": name}], {"cpu": "1m"})
        document["spec"]["schedulerName"] = "another"
        user = await insist(lambda: self._client.create(PODS, document))
        assert user is not None
        node = self._rng.choice(slices).spec.pool.name
        if await self._take(made, user, node):
            self.taken += 1
            target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
            binding = requests.create_sub(PODS, name, "binding", target, namespace=NS)
            await insist(lambda: self._client.raw(binding))
        else:
            self.refused += 1
            await insist(lambda: self._client.delete(PODS, name, namespace=NS, options=NOW))

    async def _take(self, made: ResourceClaim, user: Pod, node: str) -> bool:
        """Whether the server let it."""
        name = made.metadata.name
        change: Json = {"metadata": {"finalizers": [CLAIM_FINALIZER]}}
        await insist(lambda: self._client.patch(RESOURCE_CLAIMS, name, change, namespace=NS))
        status = {"status": _status(node, f"g{self._rng.randrange(6)}", user)}
        patched = await insist(
            lambda: self._client.patch(RESOURCE_CLAIMS, name, status, namespace=NS, subresource="status")
        )
        return patched is not None


def _status(node: str, device: str, user: Pod) -> Json:
    result = {"request": "r", "driver": DRIVER, "pool": node, "device": device}
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [here]}}
    reference = {"resource": "pods", "name": user.metadata.name, "uid": user.metadata.uid}
    return {"allocation": allocation, "reservedFor": [reference]}
