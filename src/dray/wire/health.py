"""Device health from a DRA driver to the kubelet. A handler sees v1 messages; v1alpha1 is the same on the wire."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from dray.wire.gen import dra_health_v1alpha1_pb2 as v1alpha1
from dray.wire.gen.dra_health_v1_pb2 import NodeWatchResourcesRequest, NodeWatchResourcesResponse
from dray.wire.service import Caller, Client, Older, Service, Streaming

V1 = "v1.DRAResourceHealth"
V1ALPHA1 = "v1alpha1.DRAResourceHealth"
VERSIONS = (V1, V1ALPHA1)
"""The names to register under, next to `dra.VERSIONS`. Kubernetes before 1.37 knows v1alpha1 only."""
STALE_AFTER = 30.0
"""Seconds without news after which a kubelet shows a device as Unknown, where the device names no time of its own."""


class ResourceHealth(Protocol):
    """What a driver answers that watches its devices."""

    def node_watch_resources(
        self, request: NodeWatchResourcesRequest
    ) -> AsyncIterator[NodeWatchResourcesResponse]:
        """All devices at once, again after each change, and often enough not to become stale.

        The kubelet opens it again 5 seconds after it ended.
        """
        ...


class HealthClient(Client):
    """A kubelet's view of a driver's device health, in v1 messages."""

    node_watch_resources = Streaming(
        "/v1.DRAResourceHealth/NodeWatchResources", NodeWatchResourcesRequest, NodeWatchResourcesResponse
    )


class HealthV1alpha1Client(Client):
    """The same in v1alpha1 messages."""

    node_watch_resources = Streaming(
        "/v1alpha1.DRAResourceHealth/NodeWatchResources",
        v1alpha1.NodeWatchResourcesRequest,
        v1alpha1.NodeWatchResourcesResponse,
    )


class HealthService(Service[ResourceHealth]):
    """Makes a driver's device health servable, in both versions at once."""

    tables = (HealthClient, HealthV1alpha1Client)


def health_client(channel: Caller, version: str) -> HealthClient:
    """A client that speaks `version` (one of VERSIONS)."""
    return HealthClient(channel if version == V1 else Older(channel, HealthClient, HealthV1alpha1Client))
