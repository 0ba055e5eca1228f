from __future__ import annotations

from typing import Any

import pytest

from dray.allocation.capacity import CapacityCheck, largest
from dray.allocation.profiles import CORRECT
from dray.api.codec import view
from dray.api.quantity import Quantity
from dray.api.resource.claim import CapacityRequirements
from dray.api.resource.slice import Device, DeviceCapacity
from tests.allocation.world import (
    CAPACITY,
    PARTITIONS,
    Json,
    answer,
    case,
    claim,
    counters,
    device,
    every,
    fault,
    picks,
    piece,
    request,
    uses,
)

PROFILES = ("k8s-1.36", "k8s-1.37", "correct")
VALUES = {"default": "2", "validValues": ["2", "4", "8"]}
RANGE = {"default": "2", "validRange": {"min": "2", "step": "3", "max": "8"}}


def shared(value: str, policy: Json | None = None, name: str = "one", **fields: Any) -> Json:
    capacity: Json = {"value": value}
    if policy is not None:
        capacity["requestPolicy"] = policy
    return device(name, allowMultipleAllocations=True, capacity={"memory": capacity}, **fields)


def consumed(given: Json, profile: str = "k8s-1.36") -> list[Any] | None:
    """What each result takes of `memory`; every share has its own ID."""
    got = answer(given, profile)
    assert got["error"] == ""
    if got["results"] is None:
        return None
    results = [one for result in got["results"] for one in result["devices"]["results"]]
    shares = [one["shareID"] for one in results if "shareID" in one]
    assert len(set(shares)) == len(shares)
    return [one.get("consumedCapacity", {}).get("memory") for one in results]


def ask(amount: str | None, number: int = 0, key: str = "memory") -> Json:
    fields: Json = {} if amount is None else {"capacity": {"requests": {key: amount}}}
    return claim(request(**fields), name=f"claim-{number}")


@pytest.mark.parametrize(
    ("policy", "amount", "expected"),
    [
        (None, None, "10"),
        (None, "3", "3"),
        (VALUES, None, "2"),
        (VALUES, "1", "2"),
        (VALUES, "3", "4"),
        (VALUES, "8", "8"),
        (VALUES, "9", None),
        (RANGE, None, "2"),
        (RANGE, "1", "2"),
        (RANGE, "3", "5"),
        (RANGE, "5", "5"),
        (RANGE, "5500m", "8"),
        (RANGE, "9", None),
        ({"default": "2", "validRange": {"min": "2"}}, "2500m", "2500m"),
        ({"default": "2", "validRange": {"min": "2", "max": "4"}}, "5", None),
        ({"default": "3", "validValues": ["2", "4"]}, None, "3"),
        ({"default": "2"}, "7", "7"),
        (None, "11", None),
        (None, "0", "0"),
    ],
)
def test_amounts_follow_the_policy(policy: Json | None, amount: str | None, expected: str | None) -> None:
    given = case([piece(shared("10", policy))], ask(amount), features=(CAPACITY,))
    for profile in PROFILES:
        assert consumed(given, profile) == (None if expected is None else [expected])


def test_a_rounded_amount_is_written_in_binary_units_in_1_36_only() -> None:
    policy = {"default": "1Ki", "validRange": {"min": "1024", "step": "1024"}}
    given = case([piece(shared("10Ki", policy))], ask("2000"), features=(CAPACITY,))
    assert consumed(given) == ["2Ki"]
    assert consumed(given, "k8s-1.37") == ["2048"]


def test_shares_until_it_is_used_up() -> None:
    slices = [piece(shared("10"))]
    given = case(slices, ask("4", 0), ask("4", 1), features=(CAPACITY,))
    assert consumed(given) == ["4", "4"]
    assert consumed(case(slices, *(ask("4", number) for number in range(3)), features=(CAPACITY,))) is None
    taken = {"allocatedCapacity": {"driver-a/pool-1/one": {"memory": "7"}}}
    assert consumed(case(slices, ask("4"), features=(CAPACITY,), **taken)) is None
    assert consumed(case(slices, ask("3"), features=(CAPACITY,), **taken)) == ["3"]


def test_one_request_does_not_take_a_device_twice() -> None:
    given = case([piece(shared("10"))], claim(request(2)), features=(CAPACITY,))
    assert picks(given) is None


def test_a_device_given_whole_is_only_filtered() -> None:
    plain = device("one", capacity={"memory": {"value": "4"}})
    given = case([piece(plain)], ask("3"), features=(CAPACITY,))
    got = answer(given)["results"][0]["devices"]["results"][0]
    assert "shareID" not in got and "consumedCapacity" not in got
    assert picks(case([piece(plain)], ask("5"), features=(CAPACITY,))) is None
    assert picks(case([piece(plain)], ask("1"), ask("1", 1), features=(CAPACITY,))) is None


def test_a_device_in_use_as_a_whole_is_not_shared() -> None:
    given = case(
        [piece(shared("10"))], ask("1"), features=(CAPACITY,), allocatedDevices=["driver-a/pool-1/one"]
    )
    assert picks(given) is None


def test_without_capacity_there_is_only_the_share() -> None:
    given = case(
        [piece(device("one", allowMultipleAllocations=True))], ask(None), ask(None, 1), features=(CAPACITY,)
    )
    results = answer(given)["results"]
    assert all("consumedCapacity" not in one["devices"]["results"][0] for one in results)
    assert len({one["devices"]["results"][0]["shareID"] for one in results}) == 2


def test_a_capacity_the_device_lacks_skips_it() -> None:
    slices = [piece(shared("10"), device("bare", allowMultipleAllocations=True), shared("9", name="two"))]
    assert picks(case(slices, ask("1", key="cores"), features=(CAPACITY,))) is None
    given = case(slices, claim(request(2, capacity={"requests": {"memory": "1"}})), features=(CAPACITY,))
    assert picks(given) == ["req-0=one", "req-0=two"]


@pytest.mark.parametrize("published", ["memory", "driver-a/memory"])
@pytest.mark.parametrize("asked", ["memory", "driver-a/memory", "driver-b/memory"])
@pytest.mark.parametrize("profile", PROFILES)
def test_q18_capacity_names(published: str, asked: str, profile: str) -> None:
    one = device("one", allowMultipleAllocations=True, capacity={published: {"value": "10"}})
    given = case([piece(one)], ask("1", key=asked), features=(CAPACITY,))
    found = published == asked or (profile == "correct" and asked != "driver-b/memory")
    assert (picks(given, profile) is not None) is found


@pytest.mark.parametrize("profile", PROFILES)
def test_q4_all_and_devices_that_are_used_up(profile: str) -> None:
    given = case(
        [piece(shared("10"), shared("10", name="two"))],
        claim(every(capacity={"requests": {"memory": "4"}})),
        features=(CAPACITY,),
        allocatedCapacity={"driver-a/pool-1/one": {"memory": "8"}},
    )
    assert picks(given, profile) == (["req-0=two"] if profile == "k8s-1.36" else None)


@pytest.mark.parametrize(
    ("amount", "policy", "text"),
    [
        ("-1", None, 'capacity "memory": capacity value is negative'),
        ("20E", {"default": "2", "validRange": {"min": "2", "step": "3"}}, "exceeds MaxInt64"),
        ("9223372036854775806", {"default": "2", "validRange": {"min": "2", "step": "7"}}, "passes MaxInt64"),
    ],
)
def test_q6_amounts_that_make_no_sense(amount: str, policy: Json | None, text: str) -> None:
    given = case([piece(shared("10", policy))], ask(amount), features=(CAPACITY,))
    assert answer(given)["error"] == ""
    for profile in ("k8s-1.37", "correct"):
        assert text in fault(given, profile)


def test_the_largest_amount_that_a_policy_with_steps_can_work_with() -> None:
    """That is 2**63 - 1, whatever the device has."""
    slices = [piece(shared(str(2**64), {"default": "1", "validRange": {"min": "1", "step": "1"}}))]
    for profile in ("k8s-1.37", "correct"):
        most = case(slices, ask(str(2**63 - 1)), features=(CAPACITY,))
        assert consumed(most, profile) == [str(2**63 - 1)]
        more = case(slices, ask(str(2**63)), features=(CAPACITY,))
        assert f"request {2**63} exceeds MaxInt64" in fault(more, profile)


def test_q6_a_negative_amount_frees_capacity_in_1_36() -> None:
    given = case([piece(shared("10"))], ask("-5"), ask("12", 1), features=(CAPACITY,))
    assert consumed(given) == ["-5", "12"]


def test_policies_that_go_cannot_work_with_are_errors() -> None:
    for valid in ({"min": "1", "step": "0"}, {"step": "1"}):
        given = case(
            [piece(shared("10", {"default": "2", "validRange": valid}))], ask("3"), features=(CAPACITY,)
        )
        assert "requestPolicy.validRange" in fault(given)


@pytest.mark.parametrize(
    ("profile", "expected"), [("k8s-1.36", None), ("k8s-1.37", ["req-0=one"]), ("correct", ["req-0=one"])]
)
def test_q12_counters_of_a_share_without_capacity(profile: str, expected: list[str] | None) -> None:
    one = device("one", allowMultipleAllocations=True, consumesCounters=uses("1"))
    given = case(
        [piece(one, of=2), counters(set_1={"mem": "1"})],
        claim(request()),
        features=(CAPACITY, PARTITIONS),
        allocatedSharedDeviceIDs=["driver-a/pool-1/one/aaaaaaaa-aaaa-4aaa-aaaa-aaaaaaaaaaaa"],
    )
    assert picks(given, profile) == expected


def test_a_share_charges_the_counters_once() -> None:
    one = shared("10", consumesCounters=uses("1"))
    slices = [piece(one, device("two", consumesCounters=uses("1")), of=2), counters(set_1={"mem": "1"})]
    given = case(slices, ask("1"), ask("1", 1), features=(CAPACITY, PARTITIONS))
    assert picks(given) == ["req-0=one", "req-0=one"]
    held = {"allocatedCapacity": {"driver-a/pool-1/one": {"memory": "1"}}}
    assert picks(case(slices, claim(request(2)), features=(CAPACITY, PARTITIONS), **held)) is None


def test_every_capacity_that_the_device_lacks_is_told() -> None:
    wanted = CapacityRequirements(requests={name: Quantity("1") for name in ("cores", "lanes", "memory")})
    told = CapacityCheck(CORRECT).not_had(wanted, "driver-a", view(shared("10"), Device))
    why = "the device has no such capacity, only memory"
    assert list(told) == [("cores", why), ("lanes", why)]


@pytest.mark.parametrize(("left", "expected"), [("3", "3"), ("0", None), ("-1", None)])
def test_the_most_that_may_be_asked_for_without_a_policy(left: str, expected: str | None) -> None:
    """A slice that shrank may leave less than nothing."""
    found = largest(DeviceCapacity(value=Quantity("10")), Quantity(left))
    assert found == (None if expected is None else Quantity(expected))


@pytest.mark.parametrize(
    ("policy", "left", "expected"),
    [
        (None, "0", None),
        (None, "3", "3"),
        ({}, "3", "3"),
        (VALUES, "1", None),
        (VALUES, "5", "4"),
        (VALUES, "9", "8"),
        (RANGE, "1", None),
        (RANGE, "2", "2"),
        (RANGE, "7", "5"),
        (RANGE, "100", "8"),
        ({"validRange": {"min": "2"}}, "1500m", None),
        ({"validRange": {"min": "2"}}, "3500m", "3500m"),
        ({"validRange": {"max": "8"}}, "3", None),
        ({"validRange": {"min": "9", "max": "8"}}, "10", None),
    ],
)
def test_the_most_that_is_left_to_ask_for(policy: Json | None, left: str, expected: str | None) -> None:
    raw: Json = {"value": "10", **({} if policy is None else {"requestPolicy": policy})}
    found = largest(view(raw, DeviceCapacity), Quantity.parse(left))
    assert (found and str(found)) == expected
