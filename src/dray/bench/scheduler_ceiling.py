"""A program that writes what a scheduler writes and decides nothing: no scheduler over this client can be faster.

    python -m dray.bench.scheduler_ceiling KUBECONFIG NODES DEVICES PODS

Pods and claims are those of `scheduler_workloads.whole_devices`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from dray.api.kinds import PODS, RESOURCE_CLAIMS
from dray.bench.scheduler_cluster import at_once
from dray.bench.scheduler_workloads import DRIVER, NAMESPACE
from dray.client import requests
from dray.client.client import Client
from dray.client.kubeconfig import find_access

Json = dict[str, Any]
FINALIZER = "resource.kubernetes.io/delete-protection"


async def place(client: Client, number: int, node: str, device: str, uid: str) -> None:
    """The three writes for one pod, one after the other, as every scheduler has to."""
    name = f"bench-{number}"
    await client.patch(RESOURCE_CLAIMS, name, {"metadata": {"finalizers": [FINALIZER]}}, namespace=NAMESPACE)
    await client.patch(
        RESOURCE_CLAIMS, name, _status(name, node, device, uid), namespace=NAMESPACE, subresource="status"
    )
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    await client.raw(requests.create_sub(PODS, name, "binding", binding, namespace=NAMESPACE))


def _status(name: str, node: str, device: str, uid: str) -> Json:
    result = {"request": "gpu", "driver": DRIVER, "pool": node, "device": device}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    allocation = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }
    return {
        "status": {
            "allocation": allocation,
            "reservedFor": [{"resource": "pods", "name": name, "uid": uid}],
        }
    }


async def main(kubeconfig: Path, nodes: int, devices: int, pods: int) -> None:
    """Bind all pods: the nodes in turn, each device once."""
    if pods > nodes * devices:
        raise SystemExit(f"{pods} pods do not fit on {nodes} nodes with {devices} devices each")
    async with Client(find_access(kubeconfig)) as client:
        listing = await client.list(PODS, requests.Selection(NAMESPACE))
        uids = {one.metadata.name: one.metadata.uid for one in listing.items}
        await at_once(
            place(client, number, f"node-{number % nodes}", f"gpu-{number // nodes}", uids[f"bench-{number}"])
            for number in range(pods)
        )


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *map(int, sys.argv[2:5])))
