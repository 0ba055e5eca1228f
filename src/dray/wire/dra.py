"""The kubelet's calls into a DRA driver. A handler sees v1 messages and is served as v1 and v1beta1 alike."""

from __future__ import annotations

from typing import Protocol

from dray.wire.gen import dra_v1beta1_pb2 as v1beta1
from dray.wire.gen.dra_v1_pb2 import (
    NodePrepareResourcesRequest,
    NodePrepareResourcesResponse,
    NodeUnprepareResourcesRequest,
    NodeUnprepareResourcesResponse,
)
from dray.wire.service import Caller, Client, Older, Service, Unary

V1 = "v1.DRAPlugin"
V1BETA1 = "v1beta1.DRAPlugin"
VERSIONS = (V1, V1BETA1)
"""The names to register under, best first. They are short forms: the calls use the long package name."""
CALL_TIMEOUT = 45.0
"""Seconds a kubelet waits for either call."""


class DraPlugin(Protocol):
    """What a DRA driver answers. Both calls must be repeatable: a kubelet calls again after an error or a restart."""

    async def node_prepare_resources(
        self, request: NodePrepareResourcesRequest
    ) -> NodePrepareResourcesResponse:
        """Before the first pod that uses these claims starts here. Exactly one entry per claim, errors included."""
        ...

    async def node_unprepare_resources(
        self, request: NodeUnprepareResourcesRequest
    ) -> NodeUnprepareResourcesResponse:
        """After the last one ended, also for claims that were never prepared or no longer exist."""
        ...


class DraClient(Client):
    """A kubelet's view of a driver, in v1 messages whatever the driver speaks."""

    node_prepare_resources = Unary(
        "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources",
        NodePrepareResourcesRequest,
        NodePrepareResourcesResponse,
    )
    node_unprepare_resources = Unary(
        "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeUnprepareResources",
        NodeUnprepareResourcesRequest,
        NodeUnprepareResourcesResponse,
    )


class DraV1beta1Client(Client):
    """The same in v1beta1 messages: no share ids."""

    node_prepare_resources = Unary(
        "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodePrepareResources",
        v1beta1.NodePrepareResourcesRequest,
        v1beta1.NodePrepareResourcesResponse,
    )
    node_unprepare_resources = Unary(
        "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodeUnprepareResources",
        v1beta1.NodeUnprepareResourcesRequest,
        v1beta1.NodeUnprepareResourcesResponse,
    )


class DraService(Service[DraPlugin]):
    """Makes a driver servable, in both versions at once."""

    tables = (DraClient, DraV1beta1Client)


def dra_client(channel: Caller, version: str) -> DraClient:
    """A client that speaks `version` (one of VERSIONS, see `registration.first_known`)."""
    return DraClient(channel if version == V1 else Older(channel, DraClient, DraV1beta1Client))
