"""The claim behind the kubelet's words: read from the API server, and only the very one that was meant."""

from __future__ import annotations

import asyncio
from typing import Protocol

from dray.api.kinds import RESOURCE_CLAIMS
from dray.api.resource import ResourceClaim
from dray.client.client import Client
from dray.dra.parcels import ClaimRef
from dray.errors import DeniedError, InvalidError, NotFoundError

AT_ONCE = 16
"""Requests to the API server at once, of one driver."""


class ClaimSource(Protocol):
    """Where `serve.py` has claims from."""

    async def get(self, ref: ClaimRef) -> ResourceClaim:
        """The claim as it is now, allocated, with devices of our driver; else an error that says what is wrong."""
        ...


class FetchedClaims:
    """One GET for each claim, never from a cache: an older allocation under the same UID would be other devices."""

    def __init__(self, client: Client, driver: str, at_once: int = AT_ONCE) -> None:
        self._client = client
        self._driver = driver
        self._turn = asyncio.Semaphore(at_once)

    async def get(self, ref: ClaimRef) -> ResourceClaim:
        """UnavailableError while the API server is away."""
        try:
            async with self._turn:
                claim = await self._client.get(RESOURCE_CLAIMS, ref.name, namespace=ref.namespace)
        except NotFoundError as error:
            text = f"claim {ref} does not exist any more: was it deleted while its pod started?"
            raise NotFoundError(text, kind=RESOURCE_CLAIMS.kind, name=ref.name) from error
        except DeniedError as error:
            text = f"cannot read claim {ref}: {error}; the driver's account needs get on resourceclaims"
            raise DeniedError(text, who=error.who, what=error.what) from error
        check_claim(claim, ref, self._driver)
        return claim


def check_claim(claim: ResourceClaim, ref: ClaimRef, driver: str) -> None:
    """Return if it is the claim of `ref` and has devices of `driver`; none of these faults passes by itself."""
    uid = claim.metadata.uid
    if uid != ref.uid:
        text = f"claim {ref} was replaced: the pod means the one with UID {ref.uid}, now it is {uid}"
        raise NotFoundError(text, kind=RESOURCE_CLAIMS.kind, name=ref.name)
    allocation = claim.status.allocation
    if allocation is None:
        raise InvalidError(
            f"claim {ref} is not allocated: only an allocated claim can be prepared",
            field="status.allocation",
        )
    drivers = sorted({result.driver for result in allocation.devices.results})
    if driver not in drivers:
        others = ", ".join(drivers) or "no driver"
        raise InvalidError(
            f"claim {ref} has no device of {driver}: it was allocated devices of {others}",
            field="status.allocation.devices.results",
        )
