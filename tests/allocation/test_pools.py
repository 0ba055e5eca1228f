from __future__ import annotations

from typing import Any

import pytest

from dray.allocation.faults import AllocationError
from dray.allocation.pools import node_matches
from dray.api.codec.json_codec import view
from dray.api.core.node import Node
from dray.api.selectors.types import NodeSelector
from tests.allocation.world import (
    BINDING,
    PARTITIONS,
    Json,
    answer,
    case,
    claim,
    counters,
    device,
    devices,
    every,
    fault,
    picks,
    piece,
    request,
    uses,
)

WEST = {
    "nodeSelectorTerms": [{"matchExpressions": [{"key": "region", "operator": "In", "values": ["west"]}]}]
}
EAST = {
    "nodeSelectorTerms": [{"matchExpressions": [{"key": "region", "operator": "In", "values": ["east"]}]}]
}


@pytest.mark.parametrize(
    ("selection", "fits"),
    [
        ({"nodeName": "node-1"}, True),
        ({"nodeName": "node-2"}, False),
        ({"allNodes": True}, True),
        ({"allNodes": False}, False),
        ({"nodeSelector": WEST}, True),
        ({"nodeSelector": EAST}, False),
        ({"nodeSelector": {"nodeSelectorTerms": []}}, False),
        ({"nodeName": ""}, False),
    ],
)
def test_which_slices_are_for_the_node(selection: Json, fits: bool) -> None:
    given = case([piece(*devices("one"), **selection)], claim(request()))
    assert picks(given) == (["req-0=one"] if fits else None)


@pytest.mark.parametrize("features", [(), (PARTITIONS,)])
def test_selection_per_device_needs_its_gate(features: tuple[str, ...]) -> None:
    slices = [
        piece(
            device("other", nodeName="node-2"),
            device("east", nodeSelector=EAST),
            device("here", nodeName="node-1"),
            device("all", allNodes=True),
            perDeviceNodeSelection=True,
        )
    ]
    given = case(slices, claim(request(2)), features=features)
    assert picks(given) == (["req-0=here", "req-0=all"] if features else None)


def test_a_selector_that_cannot_be_parsed_is_fatal() -> None:
    term: dict[str, Any] = {"matchExpressions": [{"key": "region", "operator": "Like"}]}
    given = case([piece(*devices("one"), nodeSelector={"nodeSelectorTerms": [term]})], claim(request()))
    assert fault(given).startswith(
        "gather pool information: failed to perform node selection for slice slice-1"
    )
    per_device = piece(device("one", nodeSelector={"nodeSelectorTerms": [term]}), perDeviceNodeSelection=True)
    text = fault(case([per_device], claim(request()), features=(PARTITIONS,)))
    assert "failed to perform node selection for device one in slice slice-1" in text


def test_only_the_highest_generation_counts() -> None:
    old, new = piece(*devices("old"), name="a"), piece(*devices("new"), name="b", generation=2)
    assert picks(case([new, old], claim(request()))) == ["req-0=new"]
    assert picks(case([old, new], claim(request()))) == ["req-0=new"]
    assert picks(case([old, new], claim(request(2)))) is None


def test_incomplete_pools_give_nothing_and_make_all_an_error() -> None:
    slices = [piece(*devices("one"), of=2), piece(*devices("b"), driver="driver-b", name="b")]
    assert picks(case(slices, claim(request()))) is None
    assert picks(case(slices, claim(request(deviceClassName="class-b")))) == ["req-0=b"]
    text = fault(case(slices, claim(every(deviceClassName="class-b"))))
    assert text == (
        "claim claim-0, request req-0: asks for all devices, "
        "but resource pool driver-a/pool-1 is currently being updated"
    )


def test_slices_of_other_nodes_complete_a_pool() -> None:
    slices = [piece(*devices("one"), of=2), piece(*devices("two"), name="s2", of=2, nodeName="node-2")]
    assert picks(case(slices, claim(every()))) == ["req-0=one"]


def test_a_newer_generation_on_another_node_drops_the_pool() -> None:
    slices = [
        piece(*devices("one"), of=2),
        piece(*devices("two"), name="s2", of=2, generation=2, nodeName="node-2"),
    ]
    for profile in ("k8s-1.36", "k8s-1.37", "correct"):
        assert picks(case(slices, claim(request())), profile) is None


@pytest.mark.parametrize("profile", ["k8s-1.36", "k8s-1.37", "correct"])
@pytest.mark.parametrize("here", [{"nodeName": "node-1"}, {"allNodes": True}])
def test_a_slice_of_another_node_outdates_no_pool_that_is_complete_without_it(
    here: Json, profile: str
) -> None:
    """Else who has the token of one node could take away the devices of all others."""
    slices = [
        piece(*devices("one"), **here),
        piece(*devices("two"), name="s2", generation=2**40, nodeName="node-2"),
    ]
    assert picks(case(slices, claim(request())), profile) == ["req-0=one"]


def test_a_newer_generation_of_other_nodes_drops_the_pool() -> None:
    slices = [
        piece(*devices("one")),
        piece(*devices("two"), name="s2", generation=2, nodeSelector=EAST),
    ]
    assert picks(case(slices, claim(request())), "correct") is None
    assert picks(case(slices, claim(request())), "k8s-1.37") == ["req-0=one"]


@pytest.mark.parametrize(
    "broken",
    [
        [piece(*devices("one", "one"))],
        [piece(*devices("one"), of=2), piece(*devices("one"), name="s2", of=2)],
        [
            piece(device("one"), of=3),
            counters(set_1={"mem": "1"}, of=3),
            counters(set_1={"mem": "1"}, of=3, name="c2"),
        ],
        [piece(device("one", consumesCounters=uses("1")), of=1)],
        [piece(device("one", consumesCounters=uses("1", "cpu")), of=2), counters(set_1={"mem": "1"})],
        [
            piece(device("one"), of=3),
            piece(device("far", consumesCounters=uses("1", of="set-9")), name="s2", of=3, nodeName="node-2"),
            counters(set_1={"mem": "1"}, of=3),
        ],
    ],
    ids=["twice in a slice", "twice in a pool", "set twice", "no set", "no counter", "on another node"],
)
def test_invalid_pools(broken: list[Json]) -> None:
    good = piece(*devices("b"), driver="driver-b", name="good")
    features = (PARTITIONS,)
    assert (
        fault(case(broken, claim(request()), features=features)) == "invalid resource pools were encountered"
    )
    fits = case([*broken, good], claim(request(deviceClassName="class-b")), features=features)
    assert picks(fits) == ["req-0=b"]
    text = fault(case([*broken, good], claim(every(deviceClassName="class-b")), features=features))
    assert text.endswith("is currently invalid")


def test_devices_of_other_nodes_may_repeat_names() -> None:
    slices = [piece(*devices("one"), of=2), piece(*devices("one"), name="s2", of=2, nodeName="node-2")]
    assert picks(case(slices, claim(request()))) == ["req-0=one"]


def test_pools_by_driver_and_name_then_slices_by_name_then_devices_as_listed() -> None:
    slices = [
        piece(*devices("b1"), driver="driver-b", name="s0"),
        piece(*devices("p2"), pool="pool-2", name="s1"),
        piece(*devices("z", "a"), name="s3", of=2),
        piece(*devices("m"), name="s2", of=2),
    ]
    given = case(slices, claim(request(4)))
    assert picks(given) == ["req-0=m", "req-0=z", "req-0=a", "req-0=p2"]


def test_pools_with_binding_conditions_come_last() -> None:
    slices = [
        piece(device("slow", bindingConditions=["ready"]), device("quick"), name="s1"),
        piece(*devices("plain"), pool="pool-2", name="s2"),
    ]
    given = case(slices, claim(request(3)), features=(BINDING,))
    assert picks(given) == ["req-0=plain", "req-0=slow", "req-0=quick"]
    assert picks(given | {"features": []}) is None
    without = case(slices, claim(request(2)))
    assert picks(without) == ["req-0=plain", "req-0=quick"]


def test_no_claims_and_no_requests() -> None:
    assert answer(case([]))["results"] == []
    assert answer(case([], claim()))["results"] == [{"devices": {}}] or answer(case([], claim()))[
        "results"
    ] == [{}]


NODE = view({"metadata": {"name": "node-1", "labels": {"region": "west"}}}, Node)


def selector(key: str, operator: str, *values: str) -> NodeSelector:
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}
    return view({"nodeSelectorTerms": [term]}, NodeSelector)


def test_a_name_wins_over_all_nodes_over_a_selector() -> None:
    east = selector("region", "In", "east")
    assert node_matches(NODE, "node-1", None, east)
    assert not node_matches(NODE, "node-2", True, None)
    assert node_matches(NODE, "", True, east)
    assert node_matches(NODE, None, False, selector("region", "NotIn", "east"))
    assert not node_matches(NODE, None, None, east)
    assert not node_matches(NODE, None, None, None)


def test_a_broken_selector() -> None:
    with pytest.raises(AllocationError, match=r"failed to parse node selector: .*operator"):
        node_matches(NODE, None, None, selector("region", "Like", "w"))
