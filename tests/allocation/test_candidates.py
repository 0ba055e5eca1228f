from __future__ import annotations

import pytest

from dray.allocation.allocator import Call
from dray.allocation.candidates import counters_of
from dray.allocation.faults import AllocationError
from dray.api.codec.json_codec import view
from dray.api.resource.slice import Device
from tests.allocation.world import (
    CAPACITY,
    case,
    claim,
    device,
    devices,
    fault,
    picks,
    piece,
    request,
    typed,
    uses,
)

X = 'device.attributes["driver-a"].type == "X"'


def x(name: str, letter: str = "X") -> dict[str, object]:
    return device(name, attributes={"type": {"string": letter}})


def test_the_next_match_skips_what_it_is_told_to() -> None:
    read, allocator, selectors = typed(
        case([piece(x("a"), x("b", "Y"), x("c"), x("d"))], claim(request(1, X)))
    )
    call = Call(allocator, read.node, read.claims)
    one = call.plan[0].requests[0][0]
    assert call.candidates.next_match(one, 0, 0) == 0
    assert call.candidates.next_match(one, 1, 0) == 2
    assert call.candidates.next_match(one, 0, 0b0101) == 3
    assert call.candidates.next_match(one, 0, 0b1101) == -1
    assert call.candidates.next_match(one, 4, 0) == -1
    assert selectors.evaluations == 8


def test_an_error_comes_up_only_when_its_device_is_reached() -> None:
    read, allocator, _ = typed(case([piece(x("a"), device("bad"), x("c"))], claim(request(1, X))))
    call = Call(allocator, read.node, read.claims)
    one = call.plan[0].requests[0][0]
    assert [call.candidates.peek(one, slot) for slot in range(3)] == [True, None, True]
    assert call.candidates.next_match(one, 0, 0) == 0
    assert call.candidates.next_match(one, 1, 0b010) == 2
    with pytest.raises(AllocationError, match="no such key: type"):
        call.candidates.next_match(one, 1, 0)


def test_slots_follow_pools_slices_and_devices_and_leave_out_unusable_pools() -> None:
    slices = [
        piece(*devices("z"), driver="driver-b", name="s0"),
        piece(*devices("b", "a"), name="s1"),
        piece(*devices("gone"), pool="pool-2", name="s2", of=2),
    ]
    read, allocator, _ = typed(case(slices, claim()))
    found = Call(allocator, read.node, read.claims).candidates.devices
    assert [(one.slot, str(one.id)) for one in found] == [
        (0, "driver-a/pool-1/b"),
        (1, "driver-a/pool-1/a"),
        (2, "driver-b/pool-1/z"),
    ]


@pytest.mark.parametrize("features", [(), (CAPACITY,)])
def test_sharing_needs_its_gate(features: tuple[str, ...]) -> None:
    slices = [piece(device("a", allowMultipleAllocations=True), device("b", allowMultipleAllocations=False))]
    read, allocator, _ = typed(case(slices, claim(), features=features))
    found = Call(allocator, read.node, read.claims).candidates.devices
    assert [one.is_shareable for one in found] == [bool(features), False]


def test_counters_in_billionths() -> None:
    one = view(device("a", consumesCounters=[*uses("1500m"), *uses("2", of="set-2")]), Device)
    assert counters_of(one) == ((("set-1", "mem"), 1_500_000_000), (("set-2", "mem"), 2_000_000_000))


def test_a_selector_of_no_known_kind_is_an_error() -> None:
    """In a claim before anything is looked at, in a class on the first device that gets there."""
    known: list[dict[str, object]] = [{"cel": {"expression": X}}, {}]
    slices = [piece(x("a", "Y"), x("b"))]
    assert fault(case([], claim(request(selectors=known)))) == (
        "claim claim-0, request req-0, selector #1: CEL expression empty (unsupported selector type?)"
    )
    classes = [{"metadata": {"name": "class-a"}, "spec": {"selectors": known}}]
    told = fault(case(slices, claim(request()), classes=classes))
    assert told == "class class-a: selector #1: CEL expression empty"
    assert picks(case(slices[:1], claim(request(0)), classes=classes)) == []
    assert picks(case([piece(x("a", "Y"))], claim(request()), classes=classes)) is None
