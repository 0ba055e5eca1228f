"""A real embedded API server for tests of verbs: `dray` runs beside it as a user would call it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dray.api.codec import load_documents
from dray.api.kinds import NODES, PODS, RESOURCE_CLAIMS, Resource, by_kind
from dray.apiserver.http.server import Address
from dray.cli.main import main
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.processes.apiserver import ApiServerOptions, api_server

Json = dict[str, Any]

FLEET = """\
apiVersion: v1
kind: Node
metadata: {name: node-1}
---
apiVersion: v1
kind: Node
metadata: {name: node-2, labels: {dray.internal/hollow: "true"}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: node-1-gpus}
spec:
  driver: gpu.example.com
  nodeName: node-1
  pool: {name: node-1, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: gpu-0, attributes: {model: {string: A100}, resource.kubernetes.io/numaNode: {int: 1}}}
  - {name: gpu-10, attributes: {model: {string: H100}}, capacity: {memory: {value: 80Gi}}}
  - {name: gpu-2, attributes: {model: {string: H100}}, taints: [{key: gpu.example.com/unhealthy, effect: NoSchedule}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: node-2-gpus}
spec:
  driver: sim.dray.internal
  nodeName: node-2
  pool: {name: node-2, generation: 3, resourceSliceCount: 1}
  devices:
  - {name: gpu-0, attributes: {model: {string: SimGPU-80}}, taints: [{key: fans, value: old, effect: NoExecute}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: train}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: lonely}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, count: 9}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: job}
spec:
  containers: [{name: main, image: host, resources: {claims: [{name: c}], limits: {example.com/tape: 1}}}]
  resourceClaims: [{name: c, resourceClaimName: train}]
---
apiVersion: v1
kind: Pod
metadata: {name: waits}
spec:
  containers: [{name: main, image: host, resources: {claims: [{name: c}]}}]
  resourceClaims: [{name: c, resourceClaimName: lonely}]
"""
REFUSED = "0/2 nodes are available: 2 cannot allocate all claims."


@dataclass
class LiveServer:
    """`run` gives what a command printed."""

    client: Client
    kubeconfig: Path
    capsys: pytest.CaptureFixture[str]

    async def run(self, *words: str, kubeconfig: bool = True) -> tuple[int, str, str]:
        """Exit code, stdout and stderr."""
        cluster = ["--kubeconfig", str(self.kubeconfig)] if kubeconfig else []
        code = await asyncio.to_thread(main, [*words, *cluster])
        shown = self.capsys.readouterr()
        return code, shown.out, shown.err

    async def out(self, *words: str) -> list[str]:
        """The lines of a command that succeeds without a word on stderr."""
        code, out, err = await self.run(*words)
        assert (code, err) == (0, "")
        return out.splitlines()

    async def add(self, text: str, namespace: str = "default") -> None:
        for one in load_documents(text):
            resource = by_kind(one.api_version, one.kind)
            place = (one.namespace or namespace) if resource.namespaced else None
            await self.client.create(resource, one, namespace=place)

    async def set_status(self, resource: Resource[Any], name: str, status: Json) -> None:
        place = "default" if resource.namespaced else None
        change = {"status": status}
        await self.client.patch(resource, name, change, namespace=place, subresource="status")


@asynccontextmanager
async def live_server(directory: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[LiveServer]:
    """Entered: it answers, and is empty."""
    async with (
        api_server(ApiServerOptions(directory / "data", Address())) as found,
        Client(find_access(found.kubeconfig)) as client,
    ):
        yield LiveServer(client, found.kubeconfig, capsys)


async def fill(server: LiveServer) -> None:
    """A fleet with a claim that has its device, and a pod that waits for nine."""
    await server.add(FLEET)
    job = await server.client.get(PODS, "job", namespace="default")
    await server.set_status(
        RESOURCE_CLAIMS,
        "train",
        {
            "allocation": {
                "devices": {
                    "results": [
                        {"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
                    ]
                },
                "nodeSelector": {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
                    ]
                },
            },
            "reservedFor": [{"resource": "pods", "name": "job", "uid": job.metadata.uid}],
        },
    )
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": REFUSED}
    await server.set_status(PODS, "waits", {"phase": "Pending", "conditions": [refused]})
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    many = {"example.com/tape": "4"}
    await server.set_status(
        NODES, "node-1", {"conditions": [ready], "capacity": many, "allocatable": {"example.com/tape": "3"}}
    )
