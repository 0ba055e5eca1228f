from __future__ import annotations

import pytest

from dray.api.resource import ResourceClaim
from dray.errors import InvariantError
from dray.scheduler.claims.pod_claims import PodClaims
from dray.scheduler.claims.score import needs_score, normalize, score
from tests.scheduler.claims.objects import (
    allocated,
    allocation,
    as_allocation,
    claim,
    exactly,
    first,
    pod,
    request,
    result,
)

MOST = 2**31 - 1


def listed(*sizes: int) -> ResourceClaim:
    """A request for each size, with so many alternatives."""
    return claim(*(first(*[exactly()] * size, name=f"req-{place}") for place, size in enumerate(sizes, 1)))


@pytest.mark.parametrize(
    ("claims", "chosen", "wanted"),
    [
        pytest.param(
            [allocated(), claim(name="b")], {1: ["req-1"]}, 0, id="mix-of-allocated-and-unallocated-claims"
        ),
        pytest.param([listed(1)], {0: ["req-1/subreq-1"]}, 8, id="single-request-only-subrequest-allocated"),
        pytest.param([listed(8)], {0: ["req-1/subreq-8"]}, 1, id="single-request-last-subrequest-allocated"),
        pytest.param(
            [listed(4, 5)],
            {0: ["req-1/subreq-4", "req-2/subreq-5"]},
            9,
            id="multiple-requests-with-middle-subrequests-allocated",
        ),
        pytest.param(
            [listed(8, 1)],
            {0: ["req-1/subreq-8", "req-2/subreq-1"]},
            9,
            id="multiple-requests-with-top-subrequests-allocated",
        ),
        pytest.param(
            [listed(8), listed(8)],
            {0: ["req-1/subreq-8"], 1: ["req-1/subreq-8"]},
            2,
            id="multiple-claims-with-last-subrequests-allocated",
        ),
        pytest.param(
            [listed(1), listed(1)],
            {0: ["req-1/subreq-1"], 1: ["req-1/subreq-1"]},
            16,
            id="multiple-claims-with-top-subrequests-allocated",
        ),
    ],
)
def test_score(claims: list[ResourceClaim], chosen: dict[int, list[str]], wanted: int) -> None:
    results = {
        place: as_allocation(allocation(*(result(name=name) for name in names)))
        for place, names in chosen.items()
    }
    assert score(claims, results) == wanted


def test_more_claims_than_allocations() -> None:
    with pytest.raises(InvariantError):
        score([listed(1), listed(1)], {})


@pytest.mark.parametrize(
    ("scores", "wanted"),
    [
        pytest.param([], [], id="empty"),
        pytest.param([42], [100], id="single-score"),
        pytest.param([8, 8], [100, 100], id="all-same"),
        pytest.param([MOST, MOST], [100, 100], id="all-same-very-large"),
        pytest.param([MOST, 0], [100, 0], id="max-and-min-values"),
        pytest.param([99, 98, 97], [100, 98, 97], id="mid-value"),
        pytest.param([MOST, MOST - 1, 1, 0], [100, 99, 0, 0], id="large-spread-lost-precision"),
        pytest.param([0, 0], [0, 0], id="nothing-anywhere"),
    ],
)
def test_normalize(scores: list[int], wanted: list[int]) -> None:
    named = {f"node-{place}": one for place, one in enumerate(scores)}
    assert list(normalize(named).values()) == wanted


def test_only_alternatives_need_a_score() -> None:
    assert needs_score(PodClaims(pod(), (claim(request()), listed(2))))
    assert not needs_score(PodClaims(pod(), (claim(request()),)))


def test_the_least_score_counts_too() -> None:
    assert normalize({"a": 1, "b": 0}) == {"a": 100, "b": 0}
    assert normalize({"a": 0, "b": 0}) == {"a": 0, "b": 0}
