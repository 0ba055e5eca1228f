"""Which pod holds which device: the kubelet serves, monitoring asks. v1, and the old v1alpha1 List beside it."""

from __future__ import annotations

from typing import Protocol

from dray.wire.gen import podresources_v1alpha1_pb2 as v1alpha1
from dray.wire.gen.podresources_v1_pb2 import (
    AllocatableResourcesRequest,
    AllocatableResourcesResponse,
    GetPodResourcesRequest,
    GetPodResourcesResponse,
    ListPodResourcesRequest,
    ListPodResourcesResponse,
)
from dray.wire.service import Client, Service, Unary

SOCKET = "pod-resources/kubelet.sock"
"""Below the kubelet's root directory."""


class PodResources(Protocol):
    """What a kubelet answers about what it has given away. Called as often as anyone likes."""

    async def list(self, request: ListPodResourcesRequest) -> ListPodResourcesResponse:
        """All pods of the node with what they hold."""
        ...

    async def get_allocatable_resources(
        self, request: AllocatableResourcesRequest
    ) -> AllocatableResourcesResponse:
        """What the node has, held or not."""
        ...

    async def get(self, request: GetPodResourcesRequest) -> GetPodResourcesResponse:
        """One pod; NotFoundError where the node does not run it."""
        ...


class PodResourcesClient(Client):
    """A monitor's view of the kubelet."""

    list = Unary("/v1.PodResourcesLister/List", ListPodResourcesRequest, ListPodResourcesResponse)
    get_allocatable_resources = Unary(
        "/v1.PodResourcesLister/GetAllocatableResources",
        AllocatableResourcesRequest,
        AllocatableResourcesResponse,
    )
    get = Unary("/v1.PodResourcesLister/Get", GetPodResourcesRequest, GetPodResourcesResponse)


class PodResourcesV1alpha1Client(Client):
    """The first version: names and device ids only."""

    list = Unary(
        "/v1alpha1.PodResourcesLister/List",
        v1alpha1.ListPodResourcesRequest,
        v1alpha1.ListPodResourcesResponse,
    )


class PodResourcesService(Service[PodResources]):
    """Makes a kubelet's pod resources servable, in both versions."""

    tables = (PodResourcesClient, PodResourcesV1alpha1Client)
