from __future__ import annotations

import pytest

from dray.errors import UnavailableError
from dray.kubelet.claims.claim_info import ClaimDevice, ClaimInfo, from_claim
from tests.kubelet.claims.world import claim_of


def test_from_a_claim() -> None:
    info = from_claim(claim_of("c", ["a.io", "b.io"]))
    assert info == ClaimInfo("ns", "c", "c-uid", frozenset(), {"a.io": (), "b.io": ()})
    assert from_claim(claim_of("c", [])).drivers == {}


def test_a_claim_that_is_not_allocated() -> None:
    with pytest.raises(UnavailableError, match=r"^ResourceClaim c: not allocated$"):
        from_claim(claim_of("c", allocated=False))


def test_pods_come_and_go() -> None:
    info = from_claim(claim_of("c")).with_pod("p").with_pod("p").with_pod("q")
    assert info.pods == {"p", "q"}
    assert info.without_pod("p").without_pod("other").pods == {"q"}


def test_an_answer_replaces_what_the_driver_said_before() -> None:
    one, two = ClaimDevice("p", "1"), ClaimDevice("p", "2")
    info = from_claim(claim_of("c", ["a.io", "b.io"])).with_devices("b.io", [one])
    assert info.with_devices("a.io", [two]).with_devices("a.io", [one]).drivers == {
        "a.io": (one,),
        "b.io": (one,),
    }


def test_a_new_driver_means_not_prepared() -> None:
    info = ClaimInfo("ns", "c", "u", drivers={"a.io": ()}, is_prepared=True)
    assert info.with_drivers(["a.io"]).is_prepared
    grown = info.with_drivers(["a.io", "b.io"])
    assert (grown.is_prepared, set(grown.drivers)) == (False, {"a.io", "b.io"})


@pytest.mark.parametrize(
    ("request_name", "ids"),
    [
        ("", ("any", "one", "two-1", "two-2")),
        ("one", ("any", "one")),
        ("two", ("any", "two-1", "two-2")),
        ("two/sub", ("any",)),
        ("none", ("any",)),
    ],
)
def test_cdi_ids_by_request(request_name: str, ids: tuple[str, ...]) -> None:
    info = ClaimInfo(
        "ns",
        "c",
        "u",
        drivers={
            "b": (
                ClaimDevice("p", "1", None, ("one",), ("one",)),
                ClaimDevice("p", "2", None, ("two",), ("two-1", "two-2")),
            ),
            "a": (ClaimDevice("p", "0", None, (), ("any",)),),
        },
    )
    assert info.cdi_ids(request_name) == ids
