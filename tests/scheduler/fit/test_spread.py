"""Constraints that spread pods evenly."""

from __future__ import annotations

from typing import Any

from dray.scheduler.fit.filters import Fit
from dray.scheduler.nodes import Nodes
from tests.scheduler.objects import make_node, make_pod, with_spec

LABELS = {"app": "web"}


def evenly(**more: Any) -> list[dict[str, Any]]:
    rule = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    return [{**rule, "labelSelector": {"matchLabels": LABELS}, **more}]


def cluster(**pods: int) -> Nodes:
    """A node in each of the zones a, b and c, with so many pods of the kind."""
    nodes = Nodes()
    for zone in "abc":
        nodes.put_node(make_node(zone, labels={"zone": zone}))
        for index in range(pods.get(zone, 0)):
            nodes.put_pod(make_pod(f"{zone}{index}", node=zone, labels=LABELS))
    return nodes


def fitting(nodes: Nodes, rules: list[dict[str, Any]], **spec: Any) -> str:
    fit = Fit.of(make_pod("new", topologySpreadConstraints=rules, **{"labels": LABELS, **spec}), nodes)
    assert fit.barred() is None
    return "".join(sorted(info.name for info in nodes if fit.refused(info) is None))


def test_the_emptiest_zones_come_first() -> None:
    assert fitting(cluster(), evenly()) == "abc"
    assert fitting(cluster(a=1), evenly()) == "bc"
    assert fitting(cluster(a=1, b=1), evenly()) == "c"
    assert fitting(cluster(a=2, b=1), evenly(maxSkew=2)) == "bc"


def test_a_pod_that_is_not_of_the_kind_may_fill_up() -> None:
    assert fitting(cluster(a=1), evenly(), labels={}) == "abc"
    assert fitting(cluster(a=2), evenly(), labels={}) == "bc"


def test_zones_that_are_missing_count_as_empty() -> None:
    assert fitting(cluster(a=1, b=1, c=1), evenly()) == "abc"
    assert fitting(cluster(a=1, b=1, c=1), evenly(minDomains=4)) == ""


def test_nodes_that_do_not_count() -> None:
    nodes = cluster(a=1, b=1)
    assert fitting(nodes, evenly(), nodeSelector={"zone": "a"}) == "a"
    assert fitting(nodes, evenly(nodeAffinityPolicy="Ignore"), nodeSelector={"zone": "a"}) == ""
    nodes.put_node(
        with_spec(make_node("c", labels={"zone": "c"}), taints=[{"key": "x", "effect": "NoSchedule"}])
    )
    assert fitting(nodes, evenly()) == ""
    assert fitting(nodes, evenly(nodeTaintsPolicy="Honor")) == "ab"


def test_pods_of_other_namespaces_do_not_count() -> None:
    nodes = cluster()
    nodes.put_pod(make_pod("p", node="a", labels=LABELS, namespace="other"))
    assert fitting(nodes, evenly()) == "abc"


def test_keys_narrow_the_kind() -> None:
    nodes = cluster(a=1)
    keyed = evenly(matchLabelKeys=["hash"])
    assert fitting(nodes, keyed, labels={**LABELS, "hash": "new"}) == "abc"
    assert fitting(nodes, keyed) == "bc"


def test_nodes_without_the_label_and_the_reasons() -> None:
    nodes = cluster(a=1)
    nodes.put_node(make_node("bare"))
    fit = Fit.of(make_pod("new", labels=LABELS, topologySpreadConstraints=evenly()), nodes)
    told = {info.name: fit.refused(info) for info in nodes}
    uneven, bare = told["a"], told["bare"]
    assert uneven is not None and uneven.can_resolve
    assert str(uneven) == "node(s) didn't match pod topology spread constraints"
    assert bare is not None and not bare.can_resolve
    assert str(bare) == "node(s) didn't match pod topology spread constraints (missing required label)"


def test_wishes_bind_nobody_and_broken_rules_are_said() -> None:
    assert fitting(cluster(a=5), evenly(whenUnsatisfiable="ScheduleAnyway")) == "abc"
    broken = evenly(labelSelector={"matchLabels": {"app": "-"}})
    found = Fit.of(make_pod(topologySpreadConstraints=broken), cluster()).barred()
    assert found is not None and str(found).startswith("get constraints from pod: ")
