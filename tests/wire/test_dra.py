"""One driver, two versions of its calls and of its device health, over real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dray.errors import ProtocolError
from dray.wire import dra, health
from dray.wire.connect import connect
from dray.wire.dra import DraService, DraV1beta1Client, dra_client
from dray.wire.gen import dra_v1_pb2, dra_v1beta1_pb2
from dray.wire.gen.dra_health_v1_pb2 import (
    HEALTHY,
    DeviceHealth,
    DeviceIdentifier,
    NodeWatchResourcesRequest,
    NodeWatchResourcesResponse,
)
from dray.wire.health import HealthService, health_client
from dray.wire.serve import serve
from dray.wire.status import Code, status_of

DEVICE = dra_v1_pb2.Device(
    request_names=["gpu"], pool_name="node", device_name="gpu-0", cdi_device_ids=["v/c=d"], share_id="s1"
)


class Driver:
    """A DRA driver that prepares every claim with one device, and fails the one named `bad`."""

    async def node_prepare_resources(
        self, request: dra_v1_pb2.NodePrepareResourcesRequest
    ) -> dra_v1_pb2.NodePrepareResourcesResponse:
        response = dra_v1_pb2.NodePrepareResourcesResponse()
        for claim in request.claims:
            if claim.name == "bad":
                response.claims[claim.uid].error = "no such device"
            else:
                response.claims[claim.uid].devices.append(DEVICE)
        return response

    async def node_unprepare_resources(
        self, request: dra_v1_pb2.NodeUnprepareResourcesRequest
    ) -> dra_v1_pb2.NodeUnprepareResourcesResponse:
        response = dra_v1_pb2.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            response.claims[claim.uid].error = f"{claim.namespace}/{claim.name}"
        return response

    async def node_watch_resources(
        self, request: NodeWatchResourcesRequest
    ) -> AsyncIterator[NodeWatchResourcesResponse]:
        for seconds in (1, 2, 3):
            yield NodeWatchResourcesResponse(
                devices=[
                    DeviceHealth(
                        device=DeviceIdentifier(pool_name="node", device_name="gpu-0"),
                        health=HEALTHY,
                        last_updated_time=seconds,
                    )
                ]
            )


CLAIMS = [
    dra_v1_pb2.Claim(namespace="ns", uid="u1", name="good"),
    dra_v1_pb2.Claim(namespace="ns", uid="u2", name="bad"),
]


@pytest.mark.parametrize("version", dra.VERSIONS)
async def test_a_driver_speaks_both_versions(socket_path: Path, version: str) -> None:
    async with serve(socket_path, [DraService(Driver())]), connect(socket_path) as channel:
        client = dra_client(channel, version)
        prepared = await client.node_prepare_resources(dra_v1_pb2.NodePrepareResourcesRequest(claims=CLAIMS))
        (device,) = prepared.claims["u1"].devices
        assert device.cdi_device_ids == ["v/c=d"]
        assert device.HasField("share_id") == (version == dra.V1)
        assert prepared.claims["u2"].error == "no such device"
        undone = await client.node_unprepare_resources(
            dra_v1_pb2.NodeUnprepareResourcesRequest(claims=CLAIMS)
        )
        assert undone.claims["u1"].error == "ns/good"


async def test_v1beta1_on_the_wire_has_no_share_id(socket_path: Path) -> None:
    async with serve(socket_path, [DraService(Driver())]), connect(socket_path) as channel:
        claim = dra_v1beta1_pb2.Claim(uid="u1")
        request = dra_v1beta1_pb2.NodePrepareResourcesRequest(claims=[claim])
        answer = await DraV1beta1Client(channel).node_prepare_resources(request)
        assert b"s1" not in answer.SerializeToString()


@pytest.mark.parametrize("version", health.VERSIONS)
async def test_health_speaks_both_versions(socket_path: Path, version: str) -> None:
    async with (
        serve(socket_path, [HealthService(Driver()), DraService(Driver())]),
        connect(socket_path) as channel,
        health_client(channel, version).node_watch_resources(NodeWatchResourcesRequest()) as answers,
    ):
        updates = [update async for update in answers]
    assert [update.devices[0].last_updated_time for update in updates] == [1, 2, 3]
    assert all(update.devices[0].health == HEALTHY for update in updates)


async def test_a_version_that_is_not_served(socket_path: Path) -> None:
    async with serve(socket_path, [HealthService(Driver())]), connect(socket_path) as channel:
        with pytest.raises(ProtocolError, match="unknown method") as caught:
            await dra_client(channel, dra.V1).node_prepare_resources(dra_v1_pb2.NodePrepareResourcesRequest())
    assert (status := status_of(caught.value)) is not None
    assert status.code is Code.UNIMPLEMENTED
