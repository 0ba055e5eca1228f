"""What the claims need of the API server, and the client that gives it."""

from __future__ import annotations

from typing import Protocol

from dray.api.kinds import RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.api.resource import ResourceClaim
from dray.client.client import Client
from dray.client.http import Request
from dray.runtime.logs import get_log

_log = get_log("kubelet.claims.api")


class ClaimApi(Protocol):
    """Both are live questions: no cache is between us and the server."""

    async def get_claim(self, namespace: str, name: str) -> ResourceClaim:
        """The claim as it is now; NotFoundError where there is none."""
        ...

    async def delete_slices(self, node: str, driver: str) -> None:
        """Delete the node's slices, of one driver or ("") of all. That there are none is no error."""
        ...


class ServerClaimApi:
    """The same through a `Client`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def get_claim(self, namespace: str, name: str) -> ResourceClaim:
        """One GET."""
        return await self._client.get(RESOURCE_CLAIMS, name, namespace=namespace)

    async def delete_slices(self, node: str, driver: str) -> None:
        """One DELETE of the collection, with a field selector."""
        fields = f"spec.nodeName={node}" + (f",spec.driver={driver}" if driver else "")
        await self._client.raw(
            Request("DELETE", RESOURCE_SLICES.path(None), (("fieldSelector", fields),), b"{}")
        )
        _log.info("deleted slices", node=node, driver=driver or "all")
