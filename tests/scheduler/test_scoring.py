"""Scores of nodes. That the figures are kube-scheduler's is shown by the oracle in e2e."""

from __future__ import annotations

from collections import Counter

from dray.scheduler.nodes import NodeInfo, Nodes
from dray.scheduler.scoring import Wish, choose, has_preferences, normalised, scores, totals
from tests.scheduler.objects import make_node, make_pod, with_spec


def infos(nodes: Nodes, *names: str) -> list[NodeInfo]:
    found = [nodes.get(name) for name in names]
    return [info for info in found if info is not None]


def cluster() -> Nodes:
    nodes = Nodes()
    for name in ("empty", "half", "full"):
        nodes.put_node(make_node(name, cpu="8", memory="8Gi", labels={"kind": name}))
    nodes.put_pod(make_pod("p", node="half", requests={"cpu": "4", "memory": "4Gi"}))
    nodes.put_pod(make_pod("q", node="full", requests={"cpu": "8", "memory": "8Gi"}))
    return nodes


def test_emptier_nodes_are_better() -> None:
    nodes = infos(cluster(), "empty", "half", "full")
    parts = scores(Wish.of(make_pod(requests={"cpu": "2", "memory": "2Gi"})), nodes)
    assert parts["NodeResourcesFit"] == [75, 25, 0]
    assert parts["NodeResourcesBalancedAllocation"] == [75, 75, 75]
    assert "NodeAffinity" not in parts


def test_a_pod_that_asks_for_nothing_is_not_balanced() -> None:
    assert set(scores(Wish.of(make_pod()), infos(cluster(), "empty"))) == {
        "TaintToleration",
        "NodeResourcesFit",
    }


def test_uneven_use_is_worse_and_mending_it_better() -> None:
    nodes = cluster()
    nodes.put_pod(make_pod("r", node="half", requests={"memory": "4Gi"}))
    wish = Wish.of(make_pod(requests={"cpu": "4"}))
    assert scores(wish, infos(nodes, "empty", "half"))["NodeResourcesBalancedAllocation"] == [62, 87]


def test_preferred_terms_and_soft_taints() -> None:
    term = {"matchExpressions": [{"key": "kind", "operator": "In", "values": ["half"]}]}
    pod = make_pod(
        affinity={
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": term}]
            }
        }
    )
    nodes = cluster()
    taint = {"key": "slow", "effect": "PreferNoSchedule"}
    nodes.put_node(with_spec(make_node("empty", cpu="8"), taints=[taint]))
    parts = scores(Wish.of(pod), infos(nodes, "empty", "half"))
    assert has_preferences(pod) and parts["NodeAffinity"] == [0, 100]
    assert parts["TaintToleration"] == [0, 100]
    assert totals(
        {"TaintToleration": [0, 100], "NodeAffinity": [0, 100], "DynamicResources": [5, 1]}, nodes=2
    ) == [5, 501]


def test_normalising() -> None:
    assert normalised([]) == []
    assert normalised([0, 0]) == [0, 0]
    assert normalised([0, 0], is_reverse=True) == [100, 100]
    assert normalised([1, 2, 3]) == [33, 66, 100]
    assert normalised([1, 2, 3], is_reverse=True) == [67, 34, 0]


def test_ties_are_drawn_by_lot_and_the_lot_repeats() -> None:
    nodes = infos(cluster(), "empty", "half", "full")
    assert choose(nodes, [1, 3, 2], make_pod()).name == "half"
    drawn = Counter(choose(nodes, [3, 3, 1], make_pod(f"p{index}")).name for index in range(200))
    assert set(drawn) == {"empty", "half"} and min(drawn.values()) > 60
    for index in range(20):
        pod = make_pod(f"p{index}")
        assert choose(nodes, [3, 3, 3], pod, 1) is choose(nodes[::-1], [3, 3, 3], pod, 1)
    assert len({choose(nodes, [3, 3, 3], make_pod(), seed).name for seed in range(20)}) == 3
