"""The two questions to an API server, over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from dray.client.access import ClusterAccess
from dray.client.client import Client
from dray.errors import NotFoundError
from dray.kubelet.claims.api import ServerClaimApi
from tests.client.servers import ScriptedServer, reply, scripted, status


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with scripted() as server:
        yield server


async def test_one_claim(server: ScriptedServer) -> None:
    missing = status(404, "NotFound", 'resourceclaims.resource.k8s.io "c" not found')
    document = {"metadata": {"name": "c", "namespace": "ns", "uid": "u"}, "status": {"allocation": {}}}
    server.answer(reply(200, document), missing)
    async with Client(ClusterAccess(server.url)) as client:
        claim = await ServerClaimApi(client).get_claim("ns", "c")
        assert (claim.metadata.uid, claim.status.allocation is not None) == ("u", True)
        with pytest.raises(NotFoundError, match='"c" not found'):
            await ServerClaimApi(client).get_claim("ns", "c")
    assert server.seen[0].target == "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c"


@pytest.mark.parametrize(
    ("driver", "fields"),
    [("", "spec.nodeName%3Dnode-1"), ("a.io", "spec.nodeName%3Dnode-1,spec.driver%3Da.io")],
)
async def test_slices_are_deleted_as_a_collection(server: ScriptedServer, driver: str, fields: str) -> None:
    server.answer(reply(200, {"kind": "Status", "status": "Success"}))
    async with Client(ClusterAccess(server.url)) as client:
        await ServerClaimApi(client).delete_slices("node-1", driver)
    (seen,) = server.seen
    assert seen.method == "DELETE"
    path, _, query = seen.target.partition("?")
    assert path == "/apis/resource.k8s.io/v1/resourceslices"
    assert query.replace("%2C", ",") == f"fieldSelector={fields}"
