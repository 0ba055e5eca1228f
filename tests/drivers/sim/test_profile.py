from __future__ import annotations

import pytest

from dray.drivers.sim.profile import HollowFault, HollowGroup, SimProfile


def test_names_of_a_group_sort_as_their_numbers() -> None:
    group = HollowGroup(name="n", count=101)
    names = [group.node_name(number) for number in range(101)]
    assert (names[0], names[-1]) == ("n-000", "n-100")
    assert names == sorted(names)
    assert HollowGroup(name="n", count=10).node_name(9) == "n-9"


def test_zones_are_given_in_turn() -> None:
    group = HollowGroup(name="n", count=3, zones=("a", "b"))
    assert [group.zone(number) for number in range(3)] == ["a", "b", "a"]
    assert HollowGroup(name="n").zone(0) == ""


@pytest.mark.parametrize(
    ("first", "every", "on"), [(0, 0, [0]), (2, 0, [2]), (1, 3, [1, 4, 7]), (0, 1, list(range(8)))]
)
def test_a_fault_is_on_some_nodes(first: int, every: int, on: list[int]) -> None:
    fault = HollowFault(device="gpu-0", first=first, every=every)
    assert [number for number in range(8) if fault.is_on(number)] == on


def test_nodes_are_counted() -> None:
    groups = (HollowGroup(name="a", count=2), HollowGroup(name="b", count=3))
    assert SimProfile(groups=groups).node_count == 5
    assert SimProfile().node_count == 0
