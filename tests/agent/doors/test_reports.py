from __future__ import annotations

from dray.agent.doors.holders import Pods
from dray.agent.doors.reports import _Noted
from dray.api.resource import ResourceClaim
from dray.dra.parcels import ClaimRef
from tests.dra.prepare_node import claim_of, ref_of


class Source:
    """Claims by their names."""

    async def get(self, ref: ClaimRef) -> ResourceClaim:
        return claim_of(int(ref.name.removeprefix("claim-")), "gpu-0")


async def test_pods_of_claims_that_are_never_given_back_do_not_pile_up() -> None:
    pods: dict[str, Pods] = {}
    source = _Noted(Source(), pods, most=3)
    for number in (1, 2, 3, 1, 4):
        await source.get(ref_of(claim_of(number, "gpu-0")))
    assert list(pods) == [claim_of(number, "gpu-0").metadata.uid for number in (3, 1, 4)]
