"""Somebody else who writes to the same objects all the time, and takes devices without asking the scheduler."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from dray.api.core import Pod
from dray.api.kinds import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.api.limits import CLAIM_FINALIZER
from dray.api.resource import ResourceClaim
from dray.client.client import Client
from dray.errors import ConflictError
from tests.processes.workload import DRIVER, NS, insist

Json = dict[str, Any]


class Meddler:
    """`taken` counts the allocations that it made itself, `refused` those that the server did not let it make."""

    def __init__(self, client: Client, rng: random.Random) -> None:
        self._client = client
        self._rng = rng
        self.taken = 0
        self.refused = 0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._rng.choice([self._relabel, self._relabel, self._rewrite, self._allocate])()
            await asyncio.sleep(0.005)

    async def _relabel(self) -> None:
        resource = self._rng.choice([PODS, RESOURCE_CLAIMS, NODES])
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

    async def _allocate(self) -> None:
        """As another scheduler would: a claim of a pod that waits gets some device of its class, taken or not."""
        pods = {
            one.metadata.uid: one
            for one in (await self._client.list(PODS)).items
            if not one.spec.node_name and one.metadata.deletion_timestamp is None
        }
        waiting = [
            (one, pods[owner.uid])
            for one in (await self._client.list(RESOURCE_CLAIMS)).items
            for owner in one.metadata.owner_references
            if owner.uid in pods and one.status.allocation is None and one.metadata.deletion_timestamp is None
        ]
        if waiting:
            await self._take(*self._rng.choice(waiting))

    async def _take(self, claim: ResourceClaim, pod: Pod) -> None:
        name = claim.metadata.name
        slices = (await self._client.list(RESOURCE_SLICES)).items
        request = claim.spec.devices.requests[0].exactly
        if request is None or request.device_class_name != "whole" or not slices:
            return
        node = self._rng.choice(slices).spec.pool.name
        document = await insist(lambda: self._client.get_raw(RESOURCE_CLAIMS, name, namespace=NS))
        if document is None or document.get("status", {}).get("allocation"):
            return
        document["metadata"]["finalizers"] = [CLAIM_FINALIZER]
        stored = await insist(lambda: self._client.update(RESOURCE_CLAIMS, document))
        if stored is None:
            return
        document["metadata"]["resourceVersion"] = stored.metadata.resource_version
        document["status"] = _status(node, f"g{self._rng.randrange(6)}", pod)
        try:
            await self._client.update(RESOURCE_CLAIMS, document, subresource="status")
            self.taken += 1
        except ConflictError:
            self.refused += 1


def _status(node: str, device: str, pod: Pod) -> Json:
    result = {"request": "r", "driver": DRIVER, "pool": node, "device": device}
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [here]}}
    user = {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
    return {"allocation": allocation, "reservedFor": [user]}
