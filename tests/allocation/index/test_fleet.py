from __future__ import annotations

from typing import Any

import pytest

from dray.allocation.features import Features, Tier
from dray.allocation.index.fleet import EVERY_NODE, KEPT_COMBINATIONS, Fleet
from dray.allocation.pools import Slices, gather_pools
from dray.allocation.profiles import CORRECT, KUBERNETES_1_36, Profile
from dray.api.codec.json_codec import view
from dray.api.core.node import Node
from dray.api.meta import ObjectMeta
from dray.api.resource.slice import ResourceSlice
from tests.allocation.world import counters, devices, piece

FEATURES = Features(partitionable_devices=True)


def slice_of(*names: str, **fields: Any) -> ResourceSlice:
    return view(piece(*devices(*names), **fields), ResourceSlice)


def node(name: str, **labels: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels=labels))


def fleet(*slices: ResourceSlice, profile: Profile = CORRECT) -> Fleet:
    made = Fleet(FEATURES, Tier.EXPERIMENTAL, profile)
    for one in slices:
        made.set_slice(one)
    return made


def in_region(*regions: str) -> dict[str, Any]:
    wanted = {"key": "region", "operator": "In", "values": list(regions)}
    return {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}


def test_a_change_concerns_the_nodes_that_the_pool_names() -> None:
    made = fleet(
        slice_of("a", name="s1", nodeName="one"), slice_of("b", name="s2", nodeName="two", pool="p2")
    )
    assert made.set_slice(slice_of("c", name="s1", nodeName="one")) == {"one"}
    assert made.set_slice(slice_of("c", name="s1", nodeName="one")) == set()
    assert made.set_slice(slice_of("c", name="s1", nodeName="three")) == {"one", "three"}
    assert made.set_slice(slice_of("c", name="s1", nodeName="three", pool="p2")) == {"two", "three"}
    assert made.remove_slice("s2") == {"two", "three"}
    assert made.remove_slice("s2") == set()
    assert [one.metadata.name for one in made.slices] == ["s1"]


def test_a_change_of_a_pool_that_selects_nodes_concerns_all() -> None:
    made = fleet(slice_of("a", name="s1", nodeName="one"))
    assert made.set_slice(slice_of("b", name="s2", allNodes=True)) is EVERY_NODE
    assert made.set_slice(slice_of("a", "c", name="s1", nodeName="one")) is EVERY_NODE
    assert made.remove_slice("s2") is EVERY_NODE
    assert made.remove_slice("s1") == {"one"}


def test_nodes_with_the_same_labels_share_what_was_worked_out() -> None:
    made = fleet(
        slice_of("a", name="s1", nodeSelector=in_region("west")),
        slice_of("b", name="s2", nodeName="one", pool="local"),
    )
    first, second = (
        made.pools_for(node("one", region="west", x="1")),
        made.pools_for(node("two", region="west")),
    )
    assert [pool.id.pool for pool in first] == ["local", "pool-1"]
    assert [pool.id.pool for pool in second] == ["pool-1"] and second[0] is first[1]
    assert made.pools_for(node("two", region="east")) == ()
    made.set_slice(slice_of("a", name="s1", nodeSelector=in_region("east")))
    assert [pool.id.pool for pool in made.pools_for(node("two", region="east"))] == ["pool-1"]


def test_a_selector_by_name_tells_nodes_with_the_same_labels_apart() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["one"]}
    made = fleet(slice_of("a", nodeSelector={"nodeSelectorTerms": [{"matchFields": [field]}]}))
    assert len(made.pools_for(node("one"))) == 1
    assert made.pools_for(node("two")) == ()


@pytest.mark.parametrize("profile", [KUBERNETES_1_36, CORRECT], ids=lambda one: one.name)
def test_counters_of_other_nodes_count_only_where_they_are_not_in_order(profile: Profile) -> None:
    shared = view(counters(name="c", set_1={"mem": "8Gi"}), ResourceSlice)
    made = fleet(shared, profile=profile)
    everything = Slices.split(made.slices, counters_everywhere=profile.counter_slices_everywhere)
    seen = gather_pools(everything, node("node-2"), FEATURES, Tier.EXPERIMENTAL, profile)
    assert made.pools_for(node("node-2")) == seen
    assert [pool.is_incomplete for pool in seen] == ([True] if profile is KUBERNETES_1_36 else [])
    changed = made.set_slice(slice_of("a", of=2))
    assert changed == (EVERY_NODE if profile is KUBERNETES_1_36 else {"node-1"})
    assert made.pools_for(node("node-2")) == ()
    assert [pool.is_usable for pool in made.pools_for(node("node-1"))] == [True]


def test_more_nodes_of_their_own_kind_than_are_remembered_see_the_pools_they_should() -> None:
    made = fleet(slice_of("a", name="s1", nodeSelector=in_region("r0", "r1", f"r{KEPT_COMBINATIONS}")))
    seen = [
        number for number in range(KEPT_COMBINATIONS + 1) if made.pools_for(node("n", region=f"r{number}"))
    ]
    assert seen == [0, 1, KEPT_COMBINATIONS]
    assert made.pools_for(node("n", region="r1")) and not made.pools_for(node("n", region="r2"))
