from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api.codec import decode, encode, view
from dray.api.resource import ResourceClaim
from dray.api.resource.claim_status import DeviceAllocationConfiguration
from dray.api.resource.device_class import OpaqueDeviceConfiguration
from dray.dra.claims.asking import WantedDevice, check_ref, read_claim
from dray.dra.parcels import ClaimRef
from dray.errors import InvalidError
from tests.campaign import campaign
from tests.dra.prepare_node import DRIVER, POOL, claim_of, parameters, uid_of

SHARE = "0a000001-aaaa-4bbb-8ccc-ddddeeeeffff"


def read(claim: ResourceClaim) -> Any:
    return read_claim(claim, DRIVER, POOL)


def test_devices_by_request_in_their_order() -> None:
    wanted = read(
        claim_of(
            1,
            {"request": "b/x", "device": "two", "consumedCapacity": {"memory": "1Gi"}, "shareID": SHARE},
            {"request": "a", "device": "one", "adminAccess": True},
            {"request": "b/x", "device": "three"},
            {"request": "z", "device": "foreign", "driver": "other.example.com"},
            pod_claim="gpus",
        )
    )
    assert wanted.ref == ClaimRef("default", "claim-1", uid_of(1))
    assert wanted.pod_claim == "gpus"
    assert wanted.devices == ("one", "three", "two")
    assert wanted.allocation == (
        ("b/x", False, (WantedDevice("two", SHARE, {"memory": "1Gi"}), WantedDevice("three"))),
        ("a", True, (WantedDevice("one"),)),
    )
    assert [one.base_name for one in wanted.requests] == ["b", "a"]


def test_parameters_of_the_class_come_first_and_those_of_others_never() -> None:
    wanted = read(
        claim_of(
            1,
            {"request": "a/x", "device": "one"},
            {"request": "b", "device": "two"},
            config=[
                parameters({"n": 1}),
                parameters({"n": 2}, "a"),
                parameters({"n": 3}, "a/x", source="FromClass"),
                parameters({"n": 4}, "a/y"),
                parameters({"n": 5}, "b", source="FromClass"),
                parameters({"n": 6}, driver="other.example.com"),
                {"source": "FromClaim"},
            ],
        )
    )
    assert [[one["n"] for one in request.parameters] for request in wanted.requests] == [[3, 1, 2], [5, 1]]


def bad(**more: Any) -> ResourceClaim:
    return claim_of(1, {"request": "r", "device": "gpu-0", **more})


TRICKS = ["../../etc", "a/b", "", ".", "..", "A", "a b", "a\0", "a" * 64, "-a", "a\n", "\u202e", "a_b"]


def test_numbers_of_the_wire_are_plain_ones_for_a_driver() -> None:
    claim = claim_of(1, "gpu-0", config=[parameters({"seconds": 0.3, "list": [1.5, 2]})])
    wanted = read(decode(encode(claim), ResourceClaim))
    ((given,),) = (request.parameters for request in wanted.requests)
    assert given == {"seconds": 0.3, "list": [1.5, 2]}
    assert msgspec.convert(given["seconds"], float | None) == 0.3


@pytest.mark.parametrize("trick", TRICKS)
def test_names_that_would_leave_our_directories(trick: str) -> None:
    with pytest.raises(InvalidError, match=r"results\[0\]\.device"):
        read(bad(device=trick))
    if trick != "a/b":
        with pytest.raises(InvalidError, match=r"results\[0\]\.request"):
            read(bad(request=trick))
    with pytest.raises(InvalidError, match=r"results\[0\]\.pool"):
        read(bad(pool=trick))
    with pytest.raises(InvalidError, match=r"results\[0\]\.shareID"):
        read(bad(shareID=trick))
    if trick not in ("A", "a" * 64):
        with pytest.raises(InvalidError, match="uid"):
            check_ref(ClaimRef("default", "web", trick))
    if trick != "a" * 64:
        with pytest.raises(InvalidError, match="claim name"):
            check_ref(ClaimRef("default", trick, uid_of(1)))
    with pytest.raises(InvalidError, match="claim namespace"):
        check_ref(ClaimRef(trick, "web", uid_of(1)))
    if trick:
        with pytest.raises(InvalidError, match="pod-claim-name"):
            read(claim_of(1, "gpu-0", pod_claim=trick))


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        (
            view({"metadata": {"name": "a", "namespace": "b", "uid": "c"}}, ResourceClaim),
            "it is not allocated",
        ),
        (claim_of(1), f"no device of driver {DRIVER}"),
        (bad(driver="other.example.com"), f"no device of driver {DRIVER}"),
        (bad(pool="node-2"), "pool 'node-2' is not ours, which is node-1"),
        (bad(request="a/b/c"), "is no REQUEST or REQUEST/SUBREQUEST"),
        (claim_of(1, "gpu-0", "gpu-0"), "request r has one device twice"),
        (
            claim_of(1, "gpu-0", {"request": "r", "device": "gpu-1", "adminAccess": True}),
            "with and without adminAccess",
        ),
        (
            claim_of(1, {"request": "a/x", "device": "gpu-0"}, {"request": "a/y", "device": "gpu-1"}),
            "two subrequests of one request",
        ),
        (claim_of(1, *[f"gpu-{index}" for index in range(33)]), "more than 32 devices"),
        (claim_of(1, "gpu-0", config=[parameters({})] * 65), "64 configurations"),
    ],
)
def test_what_is_refused(claim: ResourceClaim, text: str) -> None:
    with pytest.raises(InvalidError, match=text):
        read(claim)


def test_a_huge_name_is_not_repeated_in_the_error() -> None:
    with pytest.raises(InvalidError) as failure:
        read(bad(device="x" * 1_000_000))
    assert len(str(failure.value)) < 300


@settings(max_examples=campaign(60, 3000))
@given(
    device=st.text(max_size=70),
    request=st.text(max_size=70),
    uid=st.text(max_size=140),
    name=st.text(max_size=70),
)
def test_what_is_taken_can_stand_in_names_of_files(device: str, request: str, uid: str, name: str) -> None:
    claim = claim_of(1, {"request": request, "device": device}, uid=uid, name=name or "x")
    try:
        wanted = read(claim)
    except InvalidError:
        return
    for part in (wanted.ref.uid, wanted.ref.name, wanted.requests[0].base_name, *wanted.devices):
        assert part.isascii()
        assert part not in ("", ".", "..")
        assert not set("/\0_\n ") & set(part)


@pytest.mark.parametrize("value", [object(), 1j, {(1, 2): "a key"}])
def test_parameters_that_are_no_json_are_refused(value: Any) -> None:
    claim = claim_of(1, "gpu-0")
    allocation = claim.status.allocation
    assert allocation is not None
    opaque = OpaqueDeviceConfiguration(driver=DRIVER, parameters={"a": value})
    config = (DeviceAllocationConfiguration(source="FromClaim", opaque=opaque),)
    devices = msgspec.structs.replace(allocation.devices, config=config)
    status = msgspec.structs.replace(
        claim.status, allocation=msgspec.structs.replace(allocation, devices=devices)
    )
    with pytest.raises(InvalidError, match="it is no JSON, or nested too deep"):
        read(msgspec.structs.replace(claim, status=status))


@pytest.mark.parametrize("more", [0, 1])
def test_parameters_of_ten_kibibytes_are_the_longest(more: int) -> None:
    claim = claim_of(1, "gpu-0", config=[parameters({"a": "x" * (10_240 - len('{"a":""}') + more)})])
    if more:
        with pytest.raises(InvalidError, match="it has 10241 bytes, more than the limit of 10240"):
            read(claim)
    else:
        assert len(read(claim).requests[0].parameters) == 1
