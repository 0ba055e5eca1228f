from __future__ import annotations

from dray.allocation.explanation.refusal import Holder, Refusal, RequestRefusal
from dray.allocation.explanation.what_if_edits import Claims, free, lower, tolerate, unconstrain
from dray.allocation.features import Tier
from dray.allocation.state import DeviceID
from dray.api.codec import view
from dray.api.resource.claim import ResourceClaim
from tests.allocation.world import claim, first, request, wish


def typed(*raw: dict[str, object]) -> Claims:
    return tuple(view(one, ResourceClaim) for one in raw)


def refused(claim: str, request: str, wanted: int = 2) -> RequestRefusal:
    return RequestRefusal(claim, request, wanted, False, 0, {}, 0, {"k=v:NoSchedule": 1, "bare:NoExecute": 1})


def counts(claims: Claims) -> list[list[int]]:
    return [
        [
            one.count
            for part in given.spec.devices.requests
            for one in (part.exactly, *part.first_available)
            if one
        ]
        for given in claims
    ]


def test_only_the_named_request_of_the_named_claim_changes() -> None:
    claims = typed(
        claim(request(2), request(2, name="req-1"), name="a"), claim(first(wish(2), wish(2)), name="b")
    )
    assert counts(lower(refused("a", "req-1"), 1).apply(claims)) == [[2, 1], [2, 2]]
    assert counts(lower(refused("b", "req-0/sub-1"), 1).apply(claims)) == [[2, 2], [2, 1]]
    assert counts(claims) == [[2, 2], [2, 2]]


def test_all_keeps_its_count() -> None:
    claims = typed(claim(request(0, allocationMode="All"), name="a"))
    assert counts(lower(refused("a", "req-0"), 1).apply(claims)) == [[0]]


def test_tolerations() -> None:
    claims = typed(claim(request(), name="a"))
    refusal = Refusal("n", Tier.STABLE, "correct", (refused("a", "req-0"),))
    for edit in (edits := list(tolerate(refusal, ()))):
        claims = edit.apply(claims)
    exactly = claims[0].spec.devices.requests[0].exactly
    assert exactly is not None
    assert [(one.key, one.operator, one.value, one.effect) for one in exactly.tolerations] == [
        ("k", "Equal", "v", "NoSchedule"),
        ("bare", "Exists", "", "NoExecute"),
    ]
    assert edits[0].text == "tolerate the taint k=v:NoSchedule in request req-0 of claim a"


def test_constraints_go_one_by_one() -> None:
    both = [{"matchAttribute": "d/x"}, {"distinctAttribute": "d/y"}]
    claims = typed(claim(request(), name="a", constraints=both), claim(request(), name="b"))
    first_gone, second_gone = (edit.apply(claims)[0].spec.devices.constraints for edit in unconstrain(claims))
    assert [one.distinct_attribute for one in first_gone] == ["d/y"]
    assert [one.match_attribute for one in second_gone] == ["d/x"]


def test_freeing_changes_no_claim_that_asks() -> None:
    claims = typed(claim(request(), name="a"))
    edit = free(["h"], [Holder(DeviceID("d", "p", "x"), "h", ("web",))])
    assert edit.apply(claims) == claims and edit.frees == {"h"}
    assert edit.text == "free d/p/x (claim h, pod web)"
