from __future__ import annotations

import pytest

from tests.allocation.world import (
    ADMIN,
    CAPACITY,
    LIST,
    Json,
    case,
    claim,
    devices,
    every,
    fault,
    first,
    picks,
    piece,
    request,
    wish,
)

SLICES = [piece(*devices("one", "two", "three"))]
WHERE = "claim claim-0, request req-0"


@pytest.mark.parametrize(
    ("asked", "features", "text"),
    [
        (first(wish()), (), f"{WHERE}: has subrequests, but the DRAPrioritizedList feature is disabled"),
        (
            request(capacity={"requests": {}}),
            (),
            f"{WHERE}: has capacity requests, but the DRAConsumableCapacity feature is disabled",
        ),
        (
            first(wish(), wish(capacity={})),
            (LIST,),
            (
                "claim claim-0, subrequest sub-1: has capacity requests, "
                "but the DRAConsumableCapacity feature is disabled"
            ),
        ),
        (
            request(selectors=[{}]),
            (),
            f"{WHERE}, selector #0: CEL expression empty (unsupported selector type?)",
        ),
        (
            request(adminAccess=False),
            (),
            f"{WHERE}: admin access is requested, but the feature is disabled",
        ),
        (
            request(deviceClassName=""),
            (),
            f"{WHERE}: missing device class name (unsupported request type?)",
        ),
        (
            request(deviceClassName="gold"),
            (),
            f'{WHERE}: could not retrieve device class gold: deviceclass.resource.k8s.io "gold" not found',
        ),
        (request(allocationMode="Some"), (), f"{WHERE}: unsupported count mode Some"),
        (request(33), (), "claim claim-0: number of requested devices 33 exceeds the claim limit of 32"),
        (request(-1), (), "claim claim-0: number of requested devices -1 is negative"),
        ({"name": "req-0"}, (), f"{WHERE}: neither exactly nor firstAvailable is set"),
        (first(wish(deviceClassName="")), (LIST,), "claim claim-0, request sub-0: missing device class name"),
    ],
)
def test_what_is_refused_before_any_device_is_tried(
    asked: Json, features: tuple[str, ...], text: str
) -> None:
    assert fault(case(SLICES, claim(asked), features=features)).startswith(text)
    in_namespace = claim(asked)
    in_namespace["metadata"]["namespace"] = "ns"
    assert fault(case(SLICES, in_namespace, features=features)).startswith(
        text.replace("claim-0", "ns/claim-0")
    )


def test_faults_come_in_the_order_of_claims_and_requests() -> None:
    given = case(
        SLICES,
        claim(request(), request(deviceClassName="", name="req-1")),
        claim(request(40), name="claim-1"),
    )
    assert "request req-1: missing" in fault(given)


def test_the_limit_counts_the_smallest_alternatives() -> None:
    large = first(wish(40), wish(3))
    assert picks(case(SLICES, claim(large), features=(LIST,))) == [
        f"req-0/sub-1={one}" for one in ("one", "two", "three")
    ]
    assert "requested devices 33" in fault(
        case(SLICES, claim(large, request(30, name="b")), features=(LIST,))
    )


def test_all_means_every_match_and_at_least_one() -> None:
    assert picks(case(SLICES, claim(every()))) == ["req-0=one", "req-0=two", "req-0=three"]
    assert picks(case(SLICES, claim(every(deviceClassName="class-b")))) is None
    assert picks(case(SLICES, claim(every("false")))) is None
    assert picks(case(SLICES, claim(every()), allocatedDevices=["driver-a/pool-1/two"])) is None


def test_all_beyond_the_limit() -> None:
    many = [piece(*devices(*(f"d{number}" for number in range(33))))]
    assert "number of requested devices 33" in fault(case(many, claim(every())))


def test_count_zero_needs_nothing() -> None:
    assert picks(case([], claim(request(0)))) == []
    assert picks(case(SLICES, claim(request(0), request(name="b")))) == ["b=one"]


def test_admin_access_false_with_the_gate_is_an_ordinary_request() -> None:
    given = case(
        SLICES, claim(request(adminAccess=False)), features=(ADMIN,), allocatedDevices=["driver-a/pool-1/one"]
    )
    assert picks(given) == ["req-0=two"]


def test_all_checks_capacity_too() -> None:
    slices = [
        piece(
            {"name": "small", "capacity": {"memory": {"value": "1Gi"}}},
            {"name": "large", "capacity": {"memory": {"value": "4Gi"}}},
            {"name": "none"},
        )
    ]
    given = case(slices, claim(every(capacity={"requests": {"memory": "2Gi"}})), features=(CAPACITY,))
    assert picks(given) == ["req-0=large"]
