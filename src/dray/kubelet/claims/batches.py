"""One call for each driver, with all its claims, and what its answer must look like. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from dray.errors import ProtocolError
from dray.kubelet.claims.claim_info import ClaimInfo
from dray.wire.status import cut


class Result(Protocol):
    """What both calls answer for one claim."""

    @property
    def error(self) -> str:
        """Empty where it went well."""
        ...


def by_driver(wanted: Iterable[tuple[ClaimInfo, Iterable[str]]]) -> dict[str, tuple[ClaimInfo, ...]]:
    """Claims with the drivers to ask about them, turned round. Drivers in the order of their names, a claim once each."""
    batches: dict[str, dict[str, ClaimInfo]] = {}
    for claim, drivers in wanted:
        for driver in drivers:
            batches.setdefault(driver, {})[claim.uid] = claim
    return {driver: tuple(batches[driver].values()) for driver in sorted(batches)}


def succeeded(asked: Sequence[ClaimInfo], results: Mapping[str, Result]) -> tuple[ClaimInfo, ...]:
    """The claims with a good result, whatever became of the others."""
    return tuple(claim for claim in asked if claim.uid in results and not results[claim.uid].error)


def check(method: str, asked: Sequence[ClaimInfo], results: Mapping[str, Result]) -> None:
    """ProtocolError with the kubelet's text unless there is one good result for each claim asked about."""
    known = {claim.uid for claim in asked}
    for uid in sorted(results):
        if uid not in known:
            raise ProtocolError(f"{method} returned result for unknown claim UID {cut(uid)}")
    for claim in asked:
        if claim.uid in results and results[claim.uid].error:
            told = cut(results[claim.uid].error)
            raise ProtocolError(f"{method} failed for ResourceClaim {claim.name}: {told}")
    if len(results) != len(known):
        raise ProtocolError(f"{method} skipped {len(known) - len(results)} ResourceClaims")
