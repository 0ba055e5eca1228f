from __future__ import annotations

import pytest

from dray.errors import InvalidError
from dray.kubelet.topology.hints import Hint, ResourceHints
from dray.kubelet.topology.nodes import NumaNodes
from dray.kubelet.topology.options import MAX_NODES, PREFER_CLOSEST, TopologyConfig
from dray.kubelet.topology.policies import Policy, policy_of

TWO = NumaNodes((0, 1), {0: (10, 11), 1: (11, 10)})
ZERO, ONE, BOTH = 0b01, 0b10, 0b11


def policy(name: str, nodes: NumaNodes = TWO) -> Policy:
    return policy_of(TopologyConfig(name), nodes)


@pytest.mark.parametrize(
    ("name", "hint", "is_admitted"),
    [
        ("none", Hint(ONE, False), True),
        ("none", Hint(ONE, True), True),
        ("best-effort", Hint(ONE, False), True),
        ("best-effort", Hint(ONE, True), True),
        ("restricted", Hint(ONE, False), False),
        ("restricted", Hint(ONE, True), True),
        ("restricted", Hint(BOTH, True), True),
        ("single-numa-node", Hint(ONE, False), False),
        ("single-numa-node", Hint(ONE, True), True),
        ("single-numa-node", Hint(BOTH, True), False),
    ],
)
def test_whom_a_policy_takes(name: str, hint: Hint, is_admitted: bool) -> None:
    decision = policy(name).decide([{"resource": [hint]}])
    assert decision.is_admitted is is_admitted
    if name == "none":
        assert decision.hint == Hint(None, False)


FREE = [Hint(ZERO, True), Hint(ONE, True), Hint(BOTH, False)]


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        pytest.param([], Hint(None, True), id="nobody"),
        pytest.param([{}], Hint(None, True), id="nothing"),
        pytest.param([{"r": None}], Hint(None, True), id="does not care"),
        pytest.param([{"r": []}], Hint(None, False), id="impossible"),
        pytest.param([{"r": [Hint(None, True)]}], Hint(None, True), id="any, preferred"),
        pytest.param([{"r": [Hint(None, False)]}], Hint(None, False), id="any, not preferred"),
        pytest.param(
            [{"r": [Hint(ZERO, True)]}, {"s": [Hint(ONE, True)]}], Hint(None, False), id="nothing in common"
        ),
        pytest.param(
            [{"r": [Hint(ZERO, True)]}, {"s": [Hint(ZERO, False)]}], Hint(None, False), id="one of two"
        ),
        pytest.param([{"r": [Hint(ONE, True)]}, {"s": [Hint(ONE, True)]}], Hint(ONE, True), id="both"),
        pytest.param(
            [{"r": FREE[:2]}, {"s": [Hint(BOTH, False)]}], Hint(None, False), id="only on both nodes"
        ),
        pytest.param([{"r": [Hint(BOTH, True)], "s": FREE}], Hint(None, False), id="both nodes preferred"),
        pytest.param([{"r": FREE}, {}], Hint(ZERO, True), id="one provider without preference"),
    ],
)
def test_one_numa_node(said: list[ResourceHints], hint: Hint) -> None:
    decision = policy("single-numa-node").decide(said)
    assert decision == (hint, hint.preferred)


def test_one_node_of_a_machine_with_one_is_no_preference() -> None:
    single = policy("single-numa-node", NumaNodes((0,)))
    assert single.decide([{"r": [Hint(ZERO, True)]}]) == (Hint(None, True), True)


def test_the_closest_counts_where_it_is_asked_for() -> None:
    nodes = NumaNodes((0, 1, 2), {0: (10, 30, 30), 1: (30, 10, 11), 2: (30, 11, 10)})
    said: list[ResourceHints] = [{"r": [Hint(0b011, True), Hint(0b110, True)]}]
    for name in ("best-effort", "restricted"):
        near = policy_of(TopologyConfig(name, options={PREFER_CLOSEST: "true"}), nodes)
        assert near.decide(said).hint == Hint(0b110, True)
        assert policy(name, nodes).decide(said).hint == Hint(0b011, True)


NINE = NumaNodes(tuple(range(9)))


@pytest.mark.parametrize(
    ("config", "nodes", "message"),
    [
        (TopologyConfig("unknown"), TWO, 'unknown policy: "unknown"'),
        (TopologyConfig(""), TWO, 'unknown policy: ""'),
        (TopologyConfig("restricted", "unknown"), TWO, 'unknown scope: "unknown"'),
        (TopologyConfig("unknown", "unknown"), TWO, 'unknown policy: "unknown"'),
        (TopologyConfig("unknown"), NINE, "unsupported on machines with more than 8 NUMA Nodes"),
        (TopologyConfig("best-effort"), NINE, "unsupported on machines with more than 8 NUMA Nodes"),
        (
            TopologyConfig("best-effort", options={PREFER_CLOSEST: "true"}),
            NINE,
            "cannot discover NUMA topology: error getting NUMA distances from cadvisor",
        ),
        (
            TopologyConfig("best-effort", options={"fancy": "true"}),
            NINE,
            'unknown Topology Manager Policy option: "fancy"',
        ),
    ],
)
def test_what_a_kubelet_does_not_start_with(config: TopologyConfig, nodes: NumaNodes, message: str) -> None:
    with pytest.raises(InvalidError) as raised:
        policy_of(config, nodes)
    assert str(raised.value) == message


def test_policy_none_looks_at_nothing_else() -> None:
    assert policy_of(TopologyConfig("none", "unknown", {"fancy": "true"}), NINE).name == "none"


def test_more_nodes_when_allowed() -> None:
    assert policy_of(TopologyConfig("restricted", "pod", {MAX_NODES: "9"}), NINE).nodes is NINE


def test_only_one_node_is_a_guarantee() -> None:
    guaranteed = [
        name
        for name in ("none", "best-effort", "restricted", "single-numa-node")
        if policy(name).is_alignment_guaranteed
    ]
    assert guaranteed == ["single-numa-node"]
