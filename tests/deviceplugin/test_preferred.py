from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.deviceplugin.preferred import Spot, prefer
from dray.errors import InvalidError

A, B, C = Spot(0, "pci0000:00"), Spot(0, "pci0000:40"), Spot(1, "pci0000:80")


def test_the_smallest_root_that_has_enough() -> None:
    spots = {"a1": A, "a2": A, "a3": A, "b1": B, "b2": B, "c1": C}
    assert prefer(spots, [], 2, spots) == ["b1", "b2"]
    assert prefer(spots, [], 1, spots) == ["c1"]
    assert prefer(spots, [], 3, spots) == ["a1", "a2", "a3"]


def test_one_node_before_two() -> None:
    spots = {"a1": A, "b1": B, "b2": B, "c1": C, "c2": C}
    assert prefer(spots, [], 3, spots) == ["b1", "b2", "a1"]


def test_near_what_must_be_included() -> None:
    spots = {"a1": A, "a2": A, "b1": B, "c1": C, "c2": C, "c3": C}
    assert prefer(spots, ["c2"], 3, spots) == ["c2", "c1", "c3"]
    assert prefer(spots, ["b1"], 2, spots) == ["b1", "a1"]


def test_natural_order_and_unknown_places() -> None:
    names = [f"kvm{number}" for number in range(12)]
    assert prefer(reversed(names), [], 3, {}) == ["kvm0", "kvm1", "kvm2"]


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(InvalidError, match="cannot choose 3 devices"):
        prefer(["a", "b"], [], 3, {})
    with pytest.raises(InvalidError, match="cannot choose 1"):
        prefer(["a", "b"], ["a", "b"], 1, {})


@given(st.data())
def test_always_the_right_number_with_all_that_must_be(data: st.DataObject) -> None:
    spots = data.draw(
        st.dictionaries(
            st.text("ab01", min_size=1, max_size=3), st.sampled_from([A, B, C, Spot()]), min_size=1
        )
    )
    must = data.draw(st.lists(st.sampled_from(sorted(spots)), unique=True, max_size=len(spots)))
    size = data.draw(st.integers(len(must), len(spots)))
    chosen = prefer(spots, must, size, spots)
    assert len(set(chosen)) == len(chosen) == size
    assert set(must) <= set(chosen) <= set(spots)
    assert chosen == prefer(sorted(spots, reverse=True), must, size, spots)
    nodes = [spots[name].numa_node for name in spots]
    if not must and any(nodes.count(node) >= size for node in nodes):
        assert len({spots[name].numa_node for name in chosen}) <= 1
