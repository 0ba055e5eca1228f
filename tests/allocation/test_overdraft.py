from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.allocation.holding import Held
from dray.allocation.overdraft import Given, find_overdraft, overdraft, part_of
from dray.api.codec import view
from dray.api.quantity import Quantity
from dray.api.resource import ResourceSlice


def slice_of(generation: int = 1, **part: Any) -> ResourceSlice:
    pool = {"name": "n", "generation": generation, "resourceSliceCount": 2}
    return view({"metadata": {"name": "s"}, "spec": {"driver": "d", "pool": pool, **part}}, ResourceSlice)


def takes(name: str, amount: str, **more: Any) -> dict[str, Any]:
    counters = [{"counterSet": "s", "counters": {"m": {"value": amount}}}]
    return {"name": name, "consumesCounters": counters, **more}


COUNTERS = slice_of(sharedCounters=[{"name": "s", "counters": {"m": {"value": "10"}}}])
SHARED = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "8Gi"}}}
DEVICES = slice_of(
    devices=[takes("a", "6"), takes("b", "5"), takes("c", "4", **SHARED), {"name": "free", **SHARED}]
)
SLICES = (COUNTERS, DEVICES)


def whole(device: str) -> Held:
    return Held("d", "n", device)


def share(device: str, number: int, amount: str | int) -> Held:
    return Held("d", "n", device, None, f"00000000-0000-4000-8000-00000000000{number}", {"memory": amount})


def test_a_newer_slice_of_another_node_hides_no_amounts() -> None:
    own = [
        msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, node_name="n")) for one in SLICES
    ]
    other = slice_of(9, nodeName="thief")
    assert overdraft([*own, other], [whole("a")], [whole("b")]) != ""


@pytest.mark.parametrize(
    ("held", "wanted", "expected"),
    [
        ([], [whole("a")], ""),
        ([whole("a")], [whole("c")], ""),
        ([whole("a")], [whole("b")], "counter s/m of pool n: 10 is all there is"),
        ([], [whole("a"), whole("b")], "counter s/m of pool n: 10 is all there is"),
        # Overdrawn before, and this adds nothing to it.
        ([whole("a"), whole("b")], [share("free", 1, "1Gi")], ""),
        ([whole("a"), share("c", 1, "1Gi")], [share("c", 2, "1Gi")], ""),
        ([whole("a"), whole("b"), share("c", 1, "1Gi")], [share("c", 2, "1Gi")], ""),
        ([share("free", 1, "4Gi")], [share("free", 2, "4Gi")], ""),
        ([share("free", 1, "4Gi")], [share("free", 2, "4294967297")], "capacity memory of device free: 8Gi is all there is"),
        ([], [share("free", 1, "5Gi"), share("free", 2, 4294967296)], "capacity memory of device free: 8Gi is all there is"),
        ([share("free", 1, "9Gi")], [share("free", 2, "0")], ""),
        # A device without amounts has nothing of them to give.
        ([], [Held("d", "n", "a", None, None, {"memory": "1"})], "capacity memory of device a: 0 is all there is"),
        # Not published any more: not judged.
        ([whole("gone")], [whole("gone-too"), whole("a")], ""),
    ],
)  # fmt: skip
def test_more_than_there_is(held: list[Held], wanted: list[Held], expected: str) -> None:
    assert overdraft(SLICES, held, wanted) == expected


def test_only_the_newest_generation_counts() -> None:
    old = slice_of(0, sharedCounters=[{"name": "s", "counters": {"m": {"value": "1"}}}])
    assert overdraft((*SLICES, old), [], [whole("a")]) == ""
    assert overdraft((old, slice_of(0, devices=[takes("a", "6")])), [], [whole("a")]) != ""


def test_counters_that_are_not_there_are_not_judged() -> None:
    assert overdraft((DEVICES,), [whole("a")], [whole("b")]) == ""
    assert overdraft((), [whole("a")], [whole("b")]) == ""


def test_an_overdraft_says_who_wants_what_and_who_has_the_rest() -> None:
    parts = [part_of(one) for one in SLICES]
    wanted = [whole("free"), whole("b")]
    found = find_overdraft(parts, Given([whole("a"), share("c", 1, "1Gi")]), wanted)
    assert found is not None
    assert (found.what, found.where, found.wanted, found.users) == (
        "counter s/m", "pool n", (whole("b"),), ("a", "c")
    )  # fmt: skip
    assert (found.total, found.asked, found.left) == (Quantity("10"), Quantity("5"), Quantity("0"))
    found = find_overdraft(parts, Given([share("free", 1, "6Gi")]), [share("free", 2, 3 * 2**30)])
    assert found is not None
    assert (str(found.asked), str(found.left), found.users) == ("3Gi", "2Gi", ("free",))


def test_what_is_left_of_an_overdrawn_counter_is_nothing() -> None:
    parts = [part_of(one) for one in SLICES]
    found = find_overdraft(parts, Given([whole("a"), whole("b")]), [whole("c")])
    assert found is not None
    assert found.left == Quantity("0")


def test_who_takes_from_another_counter_only_does_not_count_for_this_one() -> None:
    """`pair` takes all of m and some of n; `other`, which is held, takes the rest of n and nothing of m."""

    def taking(name: str, **amounts: str) -> dict[str, Any]:
        counters = {counter: {"value": amount} for counter, amount in amounts.items()}
        return {"name": name, "consumesCounters": [{"counterSet": "s", "counters": counters}]}

    both = slice_of(sharedCounters=[{"name": "s", "counters": {"m": {"value": "10"}, "n": {"value": "3"}}}])
    slices = (both, slice_of(devices=[taking("pair", m="10", n="1"), taking("other", n="2")]))
    assert overdraft(slices, [whole("other")], [whole("pair")]) == ""
    more = slice_of(devices=[taking("pair", m="10", n="1001m"), taking("other", n="2")])
    assert overdraft((both, more), [whole("other")], [whole("pair")]) == (
        "counter s/n of pool n: 3 is all there is"
    )
