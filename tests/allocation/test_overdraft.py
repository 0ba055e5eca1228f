from __future__ import annotations

from typing import Any

import pytest

from dray.allocation.holding import Held
from dray.allocation.overdraft import overdraft
from dray.api.codec import view
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
        ([share("free", 1, "4Gi")], [share("free", 2, "4Gi")], ""),
        ([share("free", 1, "4Gi")], [share("free", 2, "4294967297")], "capacity memory of device free: 8Gi is all there is"),
        ([], [share("free", 1, "5Gi"), share("free", 2, 4294967296)], "capacity memory of device free: 8Gi is all there is"),
        ([share("free", 1, "9Gi")], [share("free", 2, "0")], ""),
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
