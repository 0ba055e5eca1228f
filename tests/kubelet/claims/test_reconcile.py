from __future__ import annotations

from dray.kubelet.claims.claim_info import ClaimInfo
from dray.kubelet.claims.reconcile import NOBODY, departed


def test_departed_pods() -> None:
    claims = [
        ClaimInfo("ns", "one", "1", frozenset({"z", "alive"})),
        ClaimInfo("ns", "two", "2", frozenset({"a", "z"})),
    ]
    assert departed(claims, {"alive"}) == ("a", "z")
    assert departed(claims, {"alive", "a", "z"}) == ()
    assert departed([], ()) == ()


def test_a_claim_of_nobody_is_given_back_too() -> None:
    assert departed([ClaimInfo("ns", "one", "1")], {"alive"}) == (NOBODY,)
