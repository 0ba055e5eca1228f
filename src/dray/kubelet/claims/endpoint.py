"""One endpoint of a DRA driver: its connection and the two calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from dray.errors import Error, UnavailableError
from dray.kubelet.claims.claim_info import ClaimInfo
from dray.kubelet.claims.meters import Meters
from dray.runtime.clock import Clock
from dray.wire.connect import TIMEOUT, Channel
from dray.wire.dra import CALL_TIMEOUT, V1, DraClient, DraV1beta1Client, dra_client
from dray.wire.gen.dra_v1_pb2 import (
    Claim,
    NodePrepareResourcesRequest,
    NodePrepareResourcesResponse,
    NodeUnprepareResourcesRequest,
    NodeUnprepareResourcesResponse,
)
from dray.wire.limits import DEFAULT

LOOK_SECONDS = 1.0
"""How often the connection is looked at, and made anew where it was lost. Idle ones are kept."""
T = TypeVar("T")


class DriverEndpoint:
    """Made at registration; `retire` ends it. `version` and `health` are the services to speak ("" for no health)."""

    def __init__(
        self,
        driver: str,
        path: str,
        *,
        version: str,
        health: str,
        meters: Meters,
        call_timeout: float = CALL_TIMEOUT,
    ) -> None:
        self.driver = driver
        self.path = path
        self.version = version
        self.health = health
        self.is_connected = False
        self.channel = Channel(Path(path), TIMEOUT, DEFAULT)
        self._meters = meters
        self._call_timeout = call_timeout
        self._calls = 0
        self._retired = False

    async def prepare(self, claims: Sequence[ClaimInfo]) -> NodePrepareResourcesResponse:
        """NodePrepareResources for these claims; errors are those of the call."""
        request = NodePrepareResourcesRequest(claims=[_asked(claim) for claim in claims])
        method = self._table().node_prepare_resources.path
        call = dra_client(self.channel, self.version).node_prepare_resources
        return await self._counted(method, lambda: call(request, timeout=self._call_timeout))

    async def unprepare(self, claims: Sequence[ClaimInfo]) -> NodeUnprepareResourcesResponse:
        """NodeUnprepareResources for these claims; errors are those of the call."""
        request = NodeUnprepareResourcesRequest(claims=[_asked(claim) for claim in claims])
        method = self._table().node_unprepare_resources.path
        call = dra_client(self.channel, self.version).node_unprepare_resources
        return await self._counted(method, lambda: call(request, timeout=self._call_timeout))

    async def keep_connected(self, clock: Clock, changed: Callable[[], None]) -> None:
        """Hold the connection until cancelled; `changed` is called when it came or went."""
        while True:
            try:
                await self.channel.wait_connected()
                connected = True
            except Error:
                connected = False
            if connected != self.is_connected:
                self.is_connected = connected
                changed()
            await clock.sleep(LOOK_SECONDS)

    async def retire(self) -> None:
        """No new calls. Calls under way may still end well; the last of them closes the connection. Safe twice."""
        self._retired = True
        self.is_connected = False
        if not self._calls:
            await self.channel.close()

    def _table(self) -> type[DraClient] | type[DraV1beta1Client]:
        return DraClient if self.version == V1 else DraV1beta1Client

    async def _counted(self, method: str, call: Callable[[], Awaitable[T]]) -> T:
        async with self._busy():
            with self._meters.call(self.driver, method):
                return await call()

    @asynccontextmanager
    async def _busy(self) -> AsyncIterator[None]:
        if self._retired:
            raise UnavailableError(f"DRA driver {self.driver} is not registered")
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            if self._retired and not self._calls:
                await self.channel.close()


def _asked(claim: ClaimInfo) -> Claim:
    return Claim(namespace=claim.namespace, uid=claim.uid, name=claim.name)
