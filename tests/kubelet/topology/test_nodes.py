from __future__ import annotations

from dray.kubelet.topology.hints import mask_of
from dray.kubelet.topology.nodes import NumaNodes

FOUR = {0: (10, 11, 12, 12), 1: (11, 10, 12, 12), 2: (12, 12, 10, 11), 3: (12, 12, 11, 10)}


def test_a_machine_without_numa_is_one_node() -> None:
    assert NumaNodes(()).ids == (0,)
    assert NumaNodes(()).mask == 1


def test_the_mask_of_ids_with_gaps() -> None:
    assert NumaNodes((0, 2, 5)).mask == 0b100101


def test_distances_are_known_when_each_node_has_one_to_each() -> None:
    assert not NumaNodes((0,)).has_distances
    assert NumaNodes((0,), {0: (10,)}).has_distances
    assert NumaNodes((0, 1, 2), FOUR).has_distances
    assert not NumaNodes((0, 9), FOUR).has_distances
    assert not NumaNodes((0, 1), {0: (10, 11), 1: (11,)}).has_distances


def test_the_spread_counts_all_pairs_and_each_node_itself() -> None:
    nodes = NumaNodes((0, 1, 2, 3), FOUR)
    assert nodes.spread(mask_of((0,))) == 10
    assert nodes.spread(mask_of((0, 1))) == 42
    assert nodes.spread(mask_of((0, 2))) == 44
    assert nodes.spread(mask_of((0, 2, 3))) == 100
    assert nodes.spread(0) == 0


def test_distances_go_by_place_where_ids_have_gaps() -> None:
    nodes = NumaNodes((1, 4), {1: (10, 17), 4: (17, 10)})
    assert nodes.spread(mask_of((1, 4))) == 54
