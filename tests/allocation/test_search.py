from __future__ import annotations

import pytest

from dray.allocation.allocator import Call
from dray.allocation.faults import StepLimitError
from dray.allocation.search import Search
from tests.allocation.world import (
    ADMIN,
    LIST,
    TAINTS,
    Json,
    answer,
    case,
    claim,
    device,
    devices,
    every,
    fault,
    first,
    picks,
    piece,
    request,
    typed,
    wish,
)

SLICES = [piece(*devices("one", "two", "three"))]
X, Y = (f'device.attributes["driver-a"].type == "{letter}"' for letter in "XY")


def of_types(*letters: str) -> list[Json]:
    return [
        piece(*(device(f"d{n}", attributes={"type": {"string": letter}}) for n, letter in enumerate(letters)))
    ]


def test_claims_then_requests_then_devices() -> None:
    given = case(SLICES, claim(request(), request(name="b")), claim(request(), name="claim-1"))
    assert picks(given) == ["req-0=one", "b=two", "req-0=three"]


def test_steps_back_across_requests_and_claims() -> None:
    slices = of_types("X", "Y")
    assert picks(case(slices, claim(request(), request(1, X, name="b")))) == ["req-0=d1", "b=d0"]
    assert picks(case(slices, claim(request()), claim(request(1, X), name="claim-1"))) == [
        "req-0=d1",
        "req-0=d0",
    ]


def test_in_use() -> None:
    given = case(SLICES, claim(request(2)), allocatedDevices=["driver-a/pool-1/one"])
    assert picks(given) == ["req-0=two", "req-0=three"]


def test_admin_access_takes_what_is_in_use_but_nothing_twice() -> None:
    held: Json = {"allocatedDevices": ["driver-a/pool-1/one"], "features": (ADMIN,)}
    admin = request(2, adminAccess=True)
    assert picks(case(SLICES, claim(admin), **held)) == ["req-0=one", "req-0=two"]
    assert picks(case(SLICES, claim(request(4, adminAccess=True)), **held)) is None
    both = claim(request(1, adminAccess=True), request(1, adminAccess=True, name="b"))
    assert picks(case(SLICES, both, **held)) == ["req-0=one", "b=two"]
    two_claims = (claim(request(1, adminAccess=True)), claim(request(1, adminAccess=True), name="claim-1"))
    assert picks(case(SLICES, *two_claims, **held)) == ["req-0=one", "req-0=one"]


def test_an_admin_pick_keeps_later_requests_of_the_pod_away_but_not_earlier_ones() -> None:
    one = [piece(*devices("one"))]
    admin, plain = claim(request(adminAccess=True)), claim(request(), name="claim-1")
    assert picks(case(one, admin, plain, features=(ADMIN,))) is None
    assert picks(case(one, plain, admin, features=(ADMIN,))) == ["req-0=one", "req-0=one"]


def test_first_available_takes_the_first_that_fits_and_goes_on_when_later_ones_fail() -> None:
    slices = of_types("X", "Y", "Y")
    given = case(slices, claim(first(wish(2, X), wish(1, X), wish(1, Y))), features=(LIST,))
    assert picks(given) == ["req-0/sub-1=d0"]
    later = claim(first(wish(1, X), wish(1, Y)), request(1, X, name="b"))
    assert picks(case(slices, later, features=(LIST,))) == ["req-0/sub-1=d1", "b=d0"]
    next_claim = claim(request(1, X), name="claim-1")
    given = case(slices, claim(first(wish(1, X), wish(1, Y))), next_claim, features=(LIST,))
    assert picks(given) == ["req-0/sub-1=d1", "req-0=d0"]


def test_selectors_fail_only_where_the_search_gets_to() -> None:
    slices = [piece(device("ok", attributes={"type": {"string": "X"}}), device("bad"))]
    assert picks(case(slices, claim(request(1, X)))) == ["req-0=ok"]
    assert (
        fault(case(slices, claim(request(2, X))))
        == "claim claim-0: selector #0: CEL runtime error: no such key: type"
    )
    in_use: Json = {"allocatedDevices": ["driver-a/pool-1/bad"]}
    assert picks(case(slices, claim(request(2, X)), **in_use)) is None
    assert "no such key" in fault(case(slices, claim(every(X)), **in_use))


@pytest.mark.parametrize(
    ("profile", "on"),
    [
        ("k8s-1.36", ""),
        ("k8s-1.37", " on device driver-a/pool-1/bad"),
        ("correct", " on device driver-a/pool-1/bad"),
    ],
)
def test_whether_the_fault_names_the_device(profile: str, on: str) -> None:
    given = case([piece(*devices("bad"))], claim(request(1, X)))
    assert f"selector #0{on}: CEL runtime error" in fault(given, profile)
    assert "claim claim-0: selector #0: CEL compile error" in fault(
        case([piece(*devices("one"))], claim(request(1, "noSuchVar"))), profile
    )


def test_each_selector_runs_once_per_device_and_request() -> None:
    read, allocator, selectors = typed(
        case(of_types("X", "X", "X"), claim(request(2, Y), request(1, X, name="b")))
    )
    assert allocator.allocate(read.node, read.claims) is None
    assert selectors.evaluations == 6
    read, allocator, selectors = typed(case(of_types("X", "X", "X"), claim(request(1, X))))
    assert allocator.allocate(read.node, read.claims) is not None
    assert selectors.evaluations == 2


@pytest.mark.parametrize(
    ("taints", "tolerations", "fits"),
    [
        ([("k", "v", "NoSchedule")], [], False),
        ([("k", "v", "NoExecute")], [], False),
        ([("k", "v", "None")], [], True),
        ([("k", "v", "Future")], [], True),
        ([("k", "v", "NoSchedule")], [{"operator": "Exists"}], True),
        ([("k", "v", "NoSchedule")], [{"key": "k", "value": "v"}], True),
        ([("k", "v", "NoSchedule")], [{"key": "k", "operator": "Equal", "value": "w"}], False),
        ([("k", "v", "NoSchedule")], [{"key": "k", "operator": "Exists", "effect": "NoExecute"}], False),
        ([("k", "v", "NoSchedule")], [{"key": "k", "operator": "Like", "value": "v"}], False),
        ([("k", "v", "NoSchedule"), ("l", "", "NoExecute")], [{"key": "k", "operator": "Exists"}], False),
        ([("k", "v", "NoExecute")], [{"key": "k", "operator": "Exists", "tolerationSeconds": 0}], True),
    ],
)
@pytest.mark.parametrize("admin", [False, True])
def test_taints(taints: list[tuple[str, str, str]], tolerations: list[Json], fits: bool, admin: bool) -> None:
    tainted = device("one", taints=[{"key": k, "value": v, "effect": e} for k, v, e in taints])
    fields: Json = {"tolerations": tolerations} | ({"adminAccess": True} if admin else {})
    for asked in (request(**fields), every(**fields)):
        given = case([piece(tainted)], claim(asked), features=(TAINTS, ADMIN))
        got = answer(given)["results"]
        assert (got is not None) is fits
        if got and tolerations:
            assert got[0]["devices"]["results"][0]["tolerations"] == tolerations
        assert picks(given | {"features": [ADMIN]}) == ["req-0=one"]


def test_a_claim_that_would_get_too_many_devices_takes_smaller_alternatives() -> None:
    many = [piece(*devices(*(f"d{n}" for n in range(40))))]
    asked = (first(wish(20), wish(2), name="a"), first(wish(20), wish(13), name="b"))
    expected = ["a/sub-1"] * 2 + ["b/sub-0"] * 20
    for claims in ([claim(*asked)], [claim(name="empty"), claim(request(0)), claim(*asked, name="last")]):
        got = picks(case(many, *claims, features=(LIST,)))
        assert got is not None and [one.split("=")[0] for one in got] == expected


def test_a_claim_gets_as_many_devices_as_a_result_may_hold() -> None:
    many = [piece(*devices(*(f"d{n}" for n in range(40))))]
    for requests in ([request(32)], [request(31), request(1, name="b")]):
        got = picks(case(many, claim(*requests)))
        assert got is not None and len(got) == 32
    for number, expected in ((1, ["req-0/sub-0"] * 31 + ["b"]), (2, ["req-0/sub-1"] + ["b"] * 2)):
        asked = claim(first(wish(31), wish(1)), request(number, name="b"))
        got = picks(case(many, asked, features=(LIST,)))
        assert got is not None and [one.split("=")[0] for one in got] == expected
    assert "number of requested devices 33 exceeds" in fault(case(many, claim(request(33))))


def test_a_cut_off_search_says_so() -> None:
    read, allocator, _ = typed(case(SLICES, claim(request(3))))
    call = Call(allocator, read.node, read.claims)
    with pytest.raises(StepLimitError, match=r"gave up after 2 steps .* is not known") as caught:
        Search(call.plan, call.candidates, call.ledger, call.bounds, 2).run()
    assert caught.value.steps == 3


def test_many_claims_do_not_meet_a_recursion_limit() -> None:
    many = [piece(*devices(*(f"d{n}" for n in range(1500))))]
    given = case(many, *(claim(request(30), name=f"claim-{n}") for n in range(50)))
    got = picks(given)
    assert got is not None and len(got) == 1500


def test_a_claim_that_gets_too_big_after_a_request_for_less_than_nothing() -> None:
    """The planner's sum lets it through; the API server does not. Only the first claim of a pod is an error."""
    too_big = (request(-1), request(33, name="b"))
    assert fault(case(SLICES, claim(*too_big))) == "allocation max size exceeded"
    for before in (claim(request()), claim()):
        assert picks(case(SLICES, before, claim(*too_big, name="claim-1"))) is None
    enough = case(SLICES, claim(request()), claim(request(-1), request(2, name="b"), name="claim-1"))
    assert picks(enough) == ["req-0=one", "b=two", "b=three"]
