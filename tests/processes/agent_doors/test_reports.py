from __future__ import annotations

import pytest

from dray.api.resource import ResourceClaim
from dray.dra.parcels import ClaimRef
from dray.processes.agent_doors import reports
from tests.dra.prepare_node import claim_of, ref_of


class Source:
    """Claims by their names."""

    async def get(self, ref: ClaimRef) -> ResourceClaim:
        return claim_of(int(ref.name.removeprefix("claim-")), "gpu-0")


async def test_pods_of_claims_that_are_never_given_back_do_not_pile_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reports, "MOST_NOTED", 3)
    pods: dict[str, reports.Pods] = {}
    source = reports._Noted(Source(), pods)
    for number in (1, 2, 3, 1, 4):
        await source.get(ref_of(claim_of(number, "gpu-0")))
    assert list(pods) == [claim_of(number, "gpu-0").metadata.uid for number in (3, 1, 4)]
