from __future__ import annotations

from pathlib import Path

import pytest

from dray.errors import NotFoundError, ProtocolError
from dray.wire.connect import connect
from dray.wire.gen import podresources_v1alpha1_pb2
from dray.wire.gen.podresources_v1_pb2 import (
    AllocatableResourcesRequest,
    AllocatableResourcesResponse,
    ClaimResource,
    ContainerDevices,
    ContainerResources,
    DynamicResource,
    GetPodResourcesRequest,
    GetPodResourcesResponse,
    ListPodResourcesRequest,
    ListPodResourcesResponse,
    PodResources,
)
from dray.wire.podresources import PodResourcesClient, PodResourcesService, PodResourcesV1alpha1Client
from dray.wire.serve import serve
from dray.wire.status import Code, StatusError


class Holder:
    """A kubelet with one pod."""

    async def list(self, request: ListPodResourcesRequest) -> ListPodResourcesResponse:
        devices = ContainerDevices(resource_name="example.com/gpu", device_ids=["g0"])
        claim = DynamicResource(
            claim_name="c", claim_resources=[ClaimResource(driver_name="d", share_id="s")]
        )
        container = ContainerResources(name="main", devices=[devices], dynamic_resources=[claim], cpu_ids=[1])
        pod = PodResources(name="p", namespace="ns", containers=[container], cpu_ids=[1, 2])
        return ListPodResourcesResponse(pod_resources=[pod])

    async def get_allocatable_resources(
        self, request: AllocatableResourcesRequest
    ) -> AllocatableResourcesResponse:
        raise StatusError(Code.UNIMPLEMENTED, "the gate is off")

    async def get(self, request: GetPodResourcesRequest) -> GetPodResourcesResponse:
        raise NotFoundError(f"pod {request.pod_namespace}/{request.pod_name} is not here")


async def test_pod_resources_in_both_versions(socket_path: Path) -> None:
    async with serve(socket_path, [PodResourcesService(Holder())]), connect(socket_path) as channel:
        client = PodResourcesClient(channel)
        (pod,) = (await client.list(ListPodResourcesRequest())).pod_resources
        assert list(pod.cpu_ids) == [1, 2]
        assert pod.containers[0].dynamic_resources[0].claim_resources[0].share_id == "s"
        with pytest.raises(NotFoundError, match="pod a/b is not here"):
            await client.get(GetPodResourcesRequest(pod_namespace="a", pod_name="b"))
        with pytest.raises(ProtocolError, match="the gate is off"):
            await client.get_allocatable_resources(AllocatableResourcesRequest())
        request = podresources_v1alpha1_pb2.ListPodResourcesRequest()
        old = await PodResourcesV1alpha1Client(channel).list(request)
    devices = podresources_v1alpha1_pb2.ContainerDevices(resource_name="example.com/gpu", device_ids=["g0"])
    container = podresources_v1alpha1_pb2.ContainerResources(name="main", devices=[devices])
    pods = [podresources_v1alpha1_pb2.PodResources(name="p", namespace="ns", containers=[container])]
    expected = podresources_v1alpha1_pb2.ListPodResourcesResponse(pod_resources=pods)
    assert old.SerializeToString() == expected.SerializeToString()
