from __future__ import annotations

from datetime import UTC, datetime

from dray.api.codec import view
from dray.api.core import Node
from dray.api.quantity import Quantity
from dray.dra.slices.layout import COUNTERS_APART
from dray.drivers.sim.profile import HOLLOW_LABEL, HollowGroup
from dray.up.fleet.objects import (
    HollowNode,
    device_classes,
    fleet_nodes,
    is_as_wanted,
    is_labelled,
    node_document,
    node_status,
    pool_slices,
    status_change,
)
from dray.up.fleet.profile_file import load_profile

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NODE = HollowNode(
    HollowGroup(
        name="n", zones=("z",), capacity={"cpu": Quantity("1")}, resources={"a.example/b": 3}, labels={"l": "v"}
    ),
    0,
)  # fmt: skip


def stored(node: HollowNode) -> Node:
    return view(node_document(node, NOW), Node)


def test_a_node_says_that_it_is_hollow_and_what_it_has() -> None:
    node = stored(NODE)
    assert node.metadata.labels[HOLLOW_LABEL] == "true"
    assert node.metadata.labels["topology.kubernetes.io/zone"] == "z"
    assert node.metadata.labels["l"] == "v"
    assert str(node.status.allocatable["a.example/b"]) == "3"
    assert str(node.status.capacity["cpu"]) == "1"
    assert "hollow" in node.status.node_info.os_image
    assert [one.type for one in node.status.addresses] == ["Hostname"]
    assert is_labelled(NODE, node) and is_as_wanted(NODE, node)


def test_a_silent_or_changed_node_is_not_as_wanted() -> None:
    document = node_document(NODE, NOW)
    document["status"]["conditions"][0]["status"] = "Unknown"
    assert not is_as_wanted(NODE, view(document, Node))
    other = HollowNode(HollowGroup(name="n", labels={"m": "v"}), 0)
    assert not is_as_wanted(other, stored(NODE))
    assert not is_labelled(other, stored(NODE))


def test_resources_that_a_node_no_longer_has_are_taken_away() -> None:
    change = status_change(HollowNode(HollowGroup(name="n"), 0), stored(NODE), NOW)["status"]
    assert change["capacity"]["a.example/b"] is None
    assert change["allocatable"]["a.example/b"] is None
    assert change["capacity"]["cpu"] == "64"
    assert node_status(NODE, NOW)["capacity"]["a.example/b"] == "3"


def test_all_of_a_card_with_its_partitions_finds_a_place() -> None:
    profile = load_profile("h200x8-mig")
    (node,) = fleet_nodes(profile).values()
    (pool,) = pool_slices(node, COUNTERS_APART)
    assert pool.problems == ()
    assert [len(one.counters) for one in pool.slices if one.counters] == [8]
    assert sum(len(one.devices) for one in pool.slices) == 8 * 26
    assert max(len(one.devices) for one in pool.slices) == 64


def test_classes_come_with_the_drivers() -> None:
    (gpu, mig) = device_classes(load_profile("h200x8-mig"))
    assert (gpu.metadata.name, mig.metadata.name) == ("gpu.nvidia.com", "mig.nvidia.com")
