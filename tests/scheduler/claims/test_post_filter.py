from __future__ import annotations

from collections.abc import Iterable

import pytest

from dray.api.resource import ResourceClaim
from dray.scheduler.claims.extended import special_claim
from dray.scheduler.claims.outcome import unschedulable
from dray.scheduler.claims.pod_claims import PodClaims
from dray.scheduler.claims.post_filter import post_filter
from tests.scheduler.claims.objects import allocated, pod

USER, OTHER = pod("a", "b"), pod(name="other")
FREE, MINE = allocated(name="a"), allocated(name="b", users=(USER,))
THEIRS, OURS = allocated(name="a", users=(OTHER,)), allocated(name="a", users=(USER, OTHER))


@pytest.mark.parametrize(
    ("claims", "unavailable", "freed"),
    [
        pytest.param((FREE, MINE), {1, 0}, "a", id="first"),
        pytest.param((FREE, MINE), {1}, "b", id="used-by-the-pod-alone"),
        pytest.param((THEIRS, MINE), {0, 1}, "b", id="not-what-others-use"),
        pytest.param((OURS,), {0}, "", id="not-what-others-use-too"),
        pytest.param((FREE, MINE), (), "", id="available-everywhere"),
        pytest.param((FREE, special_claim(USER)), (), "", id="special-claim-in-memory"),
    ],
)
def test_which_claim(claims: tuple[ResourceClaim, ...], unavailable: Iterable[int], freed: str) -> None:
    users = sum(one.metadata.name in "ab" for one in claims)
    found = post_filter(PodClaims(USER, claims, users), unavailable)
    assert [one.name for one in found.writes] == ([freed] if freed else [])
    text = "deallocation of ResourceClaim completed" if freed else "still not schedulable"
    assert found.status == unschedulable(text)


def test_deallocation_clears_the_whole_status() -> None:
    (write,) = post_filter(PodClaims(USER, (FREE,), 1), {0}).writes
    assert write.body["status"] == {"allocation": None, "reservedFor": None, "devices": None}
    assert write.body["metadata"] == {"uid": "uid-a", "resourceVersion": "1"}
    assert write.subresource == "status"


def test_no_claims() -> None:
    assert post_filter(PodClaims(USER), ()).status == unschedulable("no new claims to deallocate")
