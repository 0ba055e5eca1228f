"""Sees every change of claims in the order in which they were stored, and judges each: no device twice, nothing overdrawn."""

from __future__ import annotations

from dray.api.kinds import RESOURCE_CLAIMS
from dray.api.meta import ObjectMeta
from dray.api.resource import ResourceClaim, ResourceSlice
from dray.api.resource.claim_status import ResourceClaimConsumerReference, ResourceClaimStatus
from dray.client.client import Client
from dray.client.store import Entry
from dray.testing.settled import Picture, disorder

Pool = tuple[str, str]
_SOMEBODY = ResourceClaimConsumerReference(api_group="test", resource="users", name="u", uid="u")


class Witness:
    """`seen` are the wrongs, `allocations` how often a claim got devices. Every claim must have its devices from one pool."""

    def __init__(self, slices: tuple[ResourceSlice, ...]) -> None:
        self.seen: list[str] = []
        self.allocations = 0
        self._slices: dict[Pool, list[ResourceSlice]] = {}
        for one in slices:
            self._slices.setdefault((one.spec.driver, one.spec.pool.name), []).append(one)
        self._pools: dict[Pool, dict[str, ResourceClaim]] = {}
        self._held: dict[str, set[Pool]] = {}

    async def run(self, client: Client) -> None:
        """Until cancelled. A watch that ends goes on where it ended: nothing in between is missed."""
        listing = await client.list(RESOURCE_CLAIMS)
        version = listing.resource_version
        for claim in listing.items:
            self.see(claim)
        while True:
            async with client.watch(RESOURCE_CLAIMS, resource_version=version) as events:
                async for event in events:
                    version = event.version
                    if isinstance(event.item, Entry):
                        self.see(event.item.value, is_gone=event.type == "DELETED")

    def see(self, claim: ResourceClaim, *, is_gone: bool = False) -> None:
        uid, allocation = claim.metadata.uid, claim.status.allocation
        results = () if allocation is None or is_gone else allocation.devices.results
        pools = {(one.driver, one.pool) for one in results}
        before = self._held.pop(uid, set())
        self.allocations += bool(pools and not before)
        for pool in before - pools:
            del self._pools[pool][uid]
        for pool in pools:
            self._pools.setdefault(pool, {})[uid] = _bare(claim)
        if pools:
            self._held[uid] = pools
        for pool in pools - before:
            self._judge(pool, claim.metadata.resource_version)

    def _judge(self, pool: Pool, version: str) -> None:
        picture = Picture(claims=tuple(self._pools[pool].values()), slices=tuple(self._slices[pool]))
        self.seen += [f"at version {version}: {line}" for line in disorder(picture)]


def _bare(claim: ResourceClaim) -> ResourceClaim:
    """Only what it holds: who uses it is of no interest here."""
    meta = claim.metadata
    return ResourceClaim(
        metadata=ObjectMeta(namespace=meta.namespace, name=meta.name, uid=meta.uid),
        status=ResourceClaimStatus(allocation=claim.status.allocation, reserved_for=(_SOMEBODY,)),
    )
