"""Pods that want to be near to others or far from them."""

from __future__ import annotations

from typing import Any

from dray.scheduler.fit.filters import Fit, FitOptions
from dray.scheduler.nodes import Nodes
from tests.scheduler.objects import make_node, make_pod

NEAR, FAR = "podAffinity", "podAntiAffinity"


def wish(kind: str, app: str, **more: Any) -> dict[str, Any]:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": app}}, **more}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def cluster() -> Nodes:
    nodes = Nodes()
    for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        nodes.put_node(make_node(name, labels={"zone": zone}))
    nodes.put_node(make_node("nowhere"))
    nodes.put_pod(make_pod("db", node="a1", labels={"app": "db"}))
    return nodes


def fitting(nodes: Nodes, *, namespaces: dict[str, dict[str, str]] | None = None, **spec: Any) -> set[str]:
    fit = Fit.of(make_pod("new", **spec), nodes, FitOptions(namespaces=namespaces or {}))
    assert fit.barred() is None
    return {info.name for info in nodes if fit.refused(info) is None}


def test_near_means_the_same_zone() -> None:
    assert fitting(cluster(), affinity=wish(NEAR, "db")) == {"a1", "a2"}
    assert fitting(cluster(), affinity=wish(NEAR, "web")) == set()
    assert fitting(cluster(), affinity=wish(NEAR, "db", topologyKey="rack")) == set()


def test_far_means_another_zone_or_none() -> None:
    assert fitting(cluster(), affinity=wish(FAR, "db")) == {"b1", "nowhere"}
    assert fitting(cluster(), affinity=wish(FAR, "web")) == {"a1", "a2", "b1", "nowhere"}


def test_the_first_of_a_group_may_go_anywhere_with_a_zone() -> None:
    web = wish(NEAR, "web")
    nodes = cluster()
    assert fitting(nodes, affinity=web, labels={"app": "web"}) == {"a1", "a2", "b1"}
    nodes.put_pod(make_pod("w1", node="b1", labels={"app": "web"}))
    assert fitting(nodes, affinity=web, labels={"app": "web"}) == {"b1"}


def test_those_that_are_there_keep_others_away() -> None:
    nodes = cluster()
    nodes.put_pod(make_pod("alone", node="b1", affinity=wish(FAR, "web")))
    assert fitting(nodes, labels={"app": "web"}) == {"a1", "a2", "nowhere"}
    assert fitting(nodes, labels={"app": "db"}) == {"a1", "a2", "b1", "nowhere"}
    nodes.remove_pod("alone")
    assert fitting(nodes, labels={"app": "web"}) == {"a1", "a2", "b1", "nowhere"}


def test_namespaces() -> None:
    nodes = cluster()
    nodes.put_pod(make_pod("other", node="b1", namespace="shop", labels={"app": "db"}))
    labels = {"shop": {"team": "x"}, "default": {}}
    assert fitting(nodes, affinity=wish(NEAR, "db")) == {"a1", "a2"}
    assert fitting(nodes, affinity=wish(NEAR, "db", namespaces=["shop"])) == {"b1"}
    assert fitting(nodes, affinity=wish(NEAR, "db", namespaceSelector={})) == {"a1", "a2", "b1"}
    chosen = wish(NEAR, "db", namespaceSelector={"matchLabels": {"team": "x"}})
    assert fitting(nodes, affinity=chosen, namespaces=labels) == {"b1"}
    assert fitting(nodes, affinity=chosen) == set()


def test_reasons() -> None:
    nodes = cluster()
    info = nodes.get("b1")
    assert info is not None
    found = Fit.of(make_pod(affinity=wish(NEAR, "db")), nodes).refused(info)
    assert (
        found is not None
        and str(found) == "node(s) didn't match pod affinity rules"
        and not found.can_resolve
    )
    info = nodes.get("a2")
    assert info is not None
    found = Fit.of(make_pod(affinity=wish(FAR, "db")), nodes).refused(info)
    assert (
        found is not None
        and str(found) == "node(s) didn't match pod anti-affinity rules"
        and found.can_resolve
    )


def test_a_term_that_cannot_be_read_is_said() -> None:
    broken = wish(NEAR, "db", labelSelector={"matchLabels": {"app": "-"}})
    found = Fit.of(make_pod(affinity=broken), cluster()).barred()
    assert found is not None and found.check == "InterPodAffinity" and str(found).startswith("parsing pod: ")
    nodes = cluster()
    nodes.put_pod(make_pod("odd", node="b1", affinity={FAR: broken[NEAR]}))
    assert fitting(nodes, labels={"app": "db"}) == {"a1", "a2", "b1", "nowhere"}
