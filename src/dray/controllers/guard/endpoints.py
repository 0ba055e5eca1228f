"""The EndpointSlice that leads a Service without a selector to the guard that leads. Pure, but for sending it.

So every replica can be Ready: a Deployment rolls, a PodDisruptionBudget counts, and the Service still has one endpoint.
Each guard that begins to lead writes its own address over that of the one before.
"""

from __future__ import annotations

import ipaddress
import json
from typing import Any, Final

from dray.client.client import Client
from dray.client.http import Request
from dray.client.requests import PatchType
from dray.controllers.guard.webhook import NAME, Service

PORT_NAME: Final = "webhook"
"""That the Service's port must have too."""


def endpoint_slice(service: Service, address: str, port: int) -> dict[str, Any]:
    """The one endpoint of `service`: the guard at this address and port."""
    version = ipaddress.ip_address(address).version
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": service.namespace,
            "name": service.name,
            "labels": {
                "kubernetes.io/service-name": service.name,
                "endpointslice.kubernetes.io/managed-by": NAME,
            },
        },
        "addressType": f"IPv{version}",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": PORT_NAME, "port": port, "protocol": "TCP"}],
    }


async def publish(client: Client, document: dict[str, Any]) -> None:
    """Apply it over what the guard before wrote."""
    meta = document["metadata"]
    path = f"/apis/discovery.k8s.io/v1/namespaces/{meta['namespace']}/endpointslices/{meta['name']}"
    query = (("fieldManager", NAME), ("force", "true"))
    body = json.dumps(document).encode()
    await client.raw(Request("PATCH", path, query, body, content_type=PatchType.APPLY.value))
