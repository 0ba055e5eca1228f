"""Pods that come and go at random on nodes that do the same, and the wait for the cluster to come to rest."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dray.api.kinds import (
    DEVICE_CLASSES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from dray.client.client import Client
from dray.client.requests import DeleteOptions
from dray.errors import ConflictError, Error, InvalidError, NotFoundError
from dray.testing.settled import Picture, disorder

T = TypeVar("T")
Json = dict[str, Any]
NS = "default"
DRIVER = "d.example.com"
EXTENDED = "example.com/gpu"
NOW = DeleteOptions(grace_period=0)
CLASSES = ("whole", "part", "share")


async def insist(what: Callable[[], Awaitable[T]], seconds: float = 120.0) -> T | None:
    """The result, asked for again while the server is away; None where it was refused for good."""
    async with asyncio.timeout(seconds):
        while True:
            try:
                return await what()
            except (ConflictError, NotFoundError):
                return None
            except InvalidError:
                raise
            except Error:
                await asyncio.sleep(0.05)


@dataclass
class Workload:
    """What its users do to a cluster. Everything random comes from the seed; when it happens does not."""

    client: Client
    rng: random.Random
    nodes: list[str] = field(default_factory=list)
    _made: int = 0

    async def furnish(self, nodes: int) -> None:
        """Classes, templates and the first nodes. Scarce on purpose."""
        for name in CLASSES:
            await self._create(DEVICE_CLASSES, device_class(name))
            await self._create(RESOURCE_CLAIM_TEMPLATES, template(name))
        for _ in range(nodes):
            await self.add_node()

    async def add_node(self, name: str = "") -> None:
        name = name or f"n{len(self.nodes)}"
        if name not in self.nodes:
            self.nodes.append(name)
        allocatable = {"cpu": "64", "memory": "64Gi", "pods": "500"}
        ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
        status = {"status": {"allocatable": allocatable, "capacity": allocatable, "conditions": [ready]}}
        await self._create(NODES, {"metadata": {"name": name}})
        await insist(lambda: self.client.patch(NODES, name, status, subresource="status"))
        for one in slices(name):
            await self._create(RESOURCE_SLICES, one)

    async def bounce_node(self) -> None:
        """It goes with its devices and comes back, before anyone despairs of it."""
        name = self.rng.choice(self.nodes)
        for one in slices(name):
            slice_name = one["metadata"]["name"]
            await insist(lambda slice_name=slice_name: self.client.delete(RESOURCE_SLICES, slice_name))  # type: ignore[misc]
        await insist(lambda: self.client.delete(NODES, name))
        await asyncio.sleep(self.rng.random() * 0.2)
        await self.add_node(name)

    async def add_pod(self) -> None:
        name = f"p{self._made}"
        self._made += 1
        kind = self.rng.randrange(10)
        entries: list[Json] = []
        requests = {"cpu": "10m"}
        if kind < 3:
            chosen = self.rng.choice(CLASSES)
            count = 1 if chosen == "share" else self.rng.randint(1, 2)
            if self.rng.random() < 0.05:
                count = 32  # more than any node has
            await self._create(RESOURCE_CLAIMS, claim(name, chosen, count))
            entries = [{"name": "own", "resourceClaimName": name}]
        elif kind < 7:
            several = [self.rng.choice(CLASSES) for _ in range(self.rng.randint(1, 2))]
            entries = [
                {"name": f"e{number}", "resourceClaimTemplateName": one} for number, one in enumerate(several)
            ]
        elif kind < 8:
            await self._create(RESOURCE_CLAIMS, claim("together", "whole", 1))
            entries = [{"name": "together", "resourceClaimName": "together"}]
        elif kind < 9:
            requests[EXTENDED] = "1"
        await self._create(PODS, pod(name, entries, requests))

    async def end_pod(self) -> None:
        """One ends, or is deleted; with its own claim perhaps."""
        names = await self.pod_names()
        if not names:
            return
        name = self.rng.choice(names)
        if self.rng.random() < 0.3:
            phase = {"status": {"phase": self.rng.choice(["Succeeded", "Failed"])}}
            await insist(lambda: self.client.patch(PODS, name, phase, namespace=NS, subresource="status"))
            return
        await insist(lambda: self.client.delete(PODS, name, namespace=NS, options=NOW))
        if self.rng.random() < 0.5:
            await insist(lambda: self.client.delete(RESOURCE_CLAIMS, name, namespace=NS))

    async def run(self, pods: int) -> None:
        """So many pods come; a third of them goes again, and now and then a node goes and comes back."""
        for _ in range(pods):
            await self.add_pod()
            chance = self.rng.random()
            if chance < 0.3:
                await self.end_pod()
            elif chance < 0.33:
                await self.bounce_node()

    async def relieve(self) -> None:
        """So many nodes come that every pod fits that can ever fit."""
        for _ in range(2 + len(await self.pod_names()) // 4):
            await self.add_node()

    async def clear(self) -> None:
        """All pods go."""
        for name in await self.pod_names():
            await insist(lambda name=name: self.client.delete(PODS, name, namespace=NS, options=NOW))  # type: ignore[misc]

    async def pod_names(self) -> list[str]:
        found = await insist(lambda: self.client.list(PODS))
        return sorted(one.metadata.name for one in found.items) if found else []

    async def waiting(self) -> list[str]:
        """Pods that have no node, but those that ask for more than any has."""
        picture = await look(self.client)
        large = {
            one.metadata.name
            for one in picture.claims
            for request in one.spec.devices.requests
            if request.exactly and request.exactly.count == 32
        }
        return sorted(
            one.metadata.name
            for one in picture.pods
            if not one.spec.node_name
            and one.status.phase == "Pending"
            and not large & {entry.resource_claim_name for entry in one.spec.resource_claims}
        )

    async def _create(self, resource: Any, document: Json) -> None:
        await insist(lambda: self.client.create(resource, document))


def device_class(name: str) -> Json:
    expression = f'device.attributes["{DRIVER}"].kind == "{name}"'
    extended = {"extendedResourceName": EXTENDED} if name == "whole" else {}
    spec = {"selectors": [{"cel": {"expression": expression}}], **extended}
    return {"metadata": {"name": name}, "spec": spec}


def claim_spec(name: str, count: int = 1) -> Json:
    exactly: Json = {"deviceClassName": name, "count": count}
    if name == "share":
        exactly["capacity"] = {"requests": {"memory": "3"}}
    return {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}


def claim(name: str, class_name: str, count: int) -> Json:
    return {"metadata": {"name": name, "namespace": NS}, "spec": claim_spec(class_name, count)}


def template(name: str) -> Json:
    return {"metadata": {"name": name, "namespace": NS}, "spec": {"spec": claim_spec(name)}}


def pod(name: str, entries: list[Json], requests: Json) -> Json:
    limits = {key: value for key, value in requests.items() if key == EXTENDED}
    uses = {"requests": requests, "limits": limits, "claims": [{"name": one["name"]} for one in entries]}
    spec = {
        "schedulerName": "dray",
        "resourceClaims": entries,
        "containers": [{"name": "c", "image": "i", "resources": uses}],
    }
    return {"metadata": {"name": name, "namespace": NS}, "spec": spec}


def slices(node: str) -> list[Json]:
    """Six whole devices, three halves of one card, and one of which three may have a share."""
    half = [{"counterSet": "card", "counters": {"memory": {"value": "1"}}}]
    devices = [
        *(_device(f"g{number}", "whole") for number in range(6)),
        *(_device(f"h{number}", "part", consumesCounters=half) for number in range(3)),
        _device("s", "share", allowMultipleAllocations=True, capacity={"memory": {"value": "10"}}),
    ]
    counters = [{"name": "card", "counters": {"memory": {"value": "2"}}}]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 2}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool}
    return [
        {"metadata": {"name": f"{node}-counters"}, "spec": {**spec, "sharedCounters": counters}},
        {"metadata": {"name": f"{node}-devices"}, "spec": {**spec, "devices": devices}},
    ]


def _device(name: str, kind: str, **fields: Any) -> Json:
    return {"name": name, "attributes": {"kind": {"string": kind}}, **fields}


async def look(client: Client) -> Picture:
    """All objects, once the server answers."""

    async def read() -> Picture:
        return Picture(
            pods=(await client.list(PODS)).items,
            claims=(await client.list(RESOURCE_CLAIMS)).items,
            slices=(await client.list(RESOURCE_SLICES)).items,
            nodes=(await client.list(NODES)).items,
        )

    found = await insist(read)
    assert found is not None
    return found


async def settle(client: Client, seconds: float) -> None:
    """Wait until nothing is wrong and nothing changes for a while; the checker's lines where that never comes."""
    loop = asyncio.get_running_loop()
    end, calm, before = loop.time() + seconds, 0, ""
    found = ["not looked yet"]
    while calm < 3:
        assert loop.time() < end, found or "in order, but it never comes to rest"
        await asyncio.sleep(0.2)
        picture = await look(client)
        found = disorder(picture)
        metas = [*(one.metadata for one in picture.pods), *(one.metadata for one in picture.claims)]
        now = " ".join(meta.resource_version for meta in metas)
        calm = calm + 1 if not found and now == before else 0
        before = now
