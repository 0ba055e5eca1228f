"""Give back the claims of a pod. Only the last pod of a claim makes its drivers work; the others just leave.

The record of a claim goes only after all its drivers said yes, so a kill at any moment leads to one more call, never to
a forgotten device. Which claims are meant comes from the record alone: a pod that never got as far as a reference has
nothing to give back, however its spec or status looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dray.errors import Error, UnavailableError
from dray.kubelet.claims.batches import by_driver, check, succeeded
from dray.kubelet.claims.cache import ClaimCache
from dray.kubelet.claims.claim_info import ClaimInfo
from dray.kubelet.claims.drivers import Drivers
from dray.kubelet.failure import prefixed, rpc_text

METHOD = "NodeUnprepareResources"


async def unprepare(uid: str, cache: ClaimCache, drivers: Drivers) -> None:
    """Return when the pod is in no claim any more. An error says that some are left; call again, it is repeatable."""
    shared, last = _split(uid, cache)
    _check_idle(cache, last)
    # Between here and the end a driver may have given up its part, so nobody may take the claim for prepared.
    cache.commit(
        changed=[claim.without_pod(uid) for claim in shared]
        + [replace(claim, is_prepared=False) for claim in last]
    )
    if last:
        with cache.unpreparing([claim.key for claim in last]):
            cache.reached("unprepare noted")
            await _give_back(cache, drivers, last)


def _split(uid: str, cache: ClaimCache) -> tuple[list[ClaimInfo], list[ClaimInfo]]:
    """The claims that others use too, and those that nobody else uses. An empty uid: claims without any pod."""
    shared: list[ClaimInfo] = []
    last: list[ClaimInfo] = []
    for claim in cache.claims():
        if uid in claim.pods and len(claim.pods) > 1:
            shared.append(claim)
        elif uid in claim.pods or not (uid or claim.pods):
            last.append(claim)
    return shared, last


def _check_idle(cache: ClaimCache, claims: Sequence[ClaimInfo]) -> None:
    """A call that is overtaken by its opposite could leave a device prepared that nobody knows of."""
    for claim in claims:
        if cache.is_preparing(claim.key):
            raise UnavailableError(f"ResourceClaim {claim.name} is being prepared")
        if cache.is_unpreparing(claim.key):
            raise UnavailableError(f"ResourceClaim {claim.name} is being unprepared")


async def _give_back(cache: ClaimCache, drivers: Drivers, claims: Sequence[ClaimInfo]) -> None:
    """Ask every driver, also after one failed: the devices of the others are free then. The first error is raised."""
    left = {claim.key: set(claim.drivers) for claim in claims}
    failure: Error | None = None
    for driver, batch in by_driver((claim, claim.drivers) for claim in claims).items():
        try:
            await _call(drivers, driver, batch, left)
        except Error as error:
            failure = failure or error
    cache.reached("unprepare answered")
    cache.commit(removed=[key for key, waiting in left.items() if not waiting])
    cache.reached("claims forgotten")
    if failure is not None:
        raise failure


async def _call(
    drivers: Drivers, driver: str, batch: Sequence[ClaimInfo], left: dict[tuple[str, str], set[str]]
) -> None:
    endpoint = drivers.pick(driver)
    try:
        response = await endpoint.unprepare(batch)
    except Error as error:
        raise prefixed(METHOD, error, rpc_text(error)) from error
    for claim in succeeded(batch, response.claims):
        left[claim.key].discard(driver)
    check(METHOD, batch, response.claims)
