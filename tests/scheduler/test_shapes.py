from __future__ import annotations

from typing import Any

from dray.scheduler.fit.filters import FitOptions
from dray.scheduler.nodes import Nodes
from dray.scheduler.scoring import Wish, scores, totals
from dray.scheduler.shapes import KEPT_BYTES, Shapes
from tests.scheduler.objects import make_node, make_pod, with_spec


def test_pods_that_ask_the_same_have_one_shape() -> None:
    shapes = Shapes(Nodes())
    first = make_pod("a", requests={"cpu": "1"}, volumes=[{"name": "token-x", "projected": {}}])
    second = make_pod("b", requests={"cpu": "1"}, volumes=[{"name": "token-y", "projected": {}}])
    assert shapes.of(first) is shapes.of(second)
    for other in (
        make_pod("c", requests={"cpu": "2"}),
        make_pod("c", requests={"cpu": "1"}, tolerations=[{"operator": "Exists"}]),
        make_pod("c", requests={"cpu": "1"}, nodeSelector={"a": "b"}),
    ):
        assert shapes.of(other) is not shapes.of(first)


def test_pods_that_mind_others_are_looked_at_anew() -> None:
    nodes = Nodes()
    shapes = Shapes(nodes)
    spread = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
    picky = make_pod("a", topologySpreadConstraints=spread)
    assert shapes.of(picky) is not shapes.of(picky)
    stored = make_pod("a", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}])
    assert shapes.of(stored) is not shapes.of(stored)
    plain = make_pod("b")
    assert shapes.of(plain) is shapes.of(plain)
    term = {"topologyKey": "zone", "labelSelector": {}}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    nodes.put_pod(make_pod("there", node="n", affinity=anti))
    assert shapes.of(plain) is not shapes.of(plain)
    nodes.remove_pod("there")
    assert shapes.of(plain) is shapes.of(plain)


def test_few_shapes_are_kept_and_none_over_other_options() -> None:
    shapes = Shapes(Nodes())
    first = shapes.of(make_pod("a"))
    for number in range(8):
        assert shapes.of(make_pod("a")) is first
        shapes.of(make_pod("b", nodeSelector={"n": str(number) * (KEPT_BYTES // 96)}))
    assert shapes.of(make_pod("a")) is not first
    kept = shapes.of(make_pod("a"))
    shapes.set_options(FitOptions(served=frozenset({"example.com/gpu"})))
    assert shapes.of(make_pod("a")) is not kept


def test_shapes_of_large_pods_go_with_them() -> None:
    shapes = Shapes(Nodes())
    large: dict[str, Any] = {"nodeSelector": {"n": "x" * 100_000}}
    first, small = shapes.of(make_pod("a", **large)), shapes.of(make_pod("c"))
    assert shapes.of(make_pod("b", **large)) is first
    shapes.prune(lambda uid: uid != "a")
    assert shapes.of(make_pod("b", **large)) is first
    shapes.prune(lambda uid: False)
    assert shapes.of(make_pod("b", **large)) is not first and shapes.of(make_pod("c")) is small


def test_scores_are_those_of_scoring() -> None:
    nodes = Nodes()
    soft = [{"key": "k", "effect": "PreferNoSchedule"}]
    nodes.put_node(with_spec(make_node("a", cpu="4", memory="8Gi"), taints=soft))
    nodes.put_node(make_node("b", cpu="8", memory="8Gi", labels={"good": "yes"}))
    nodes.put_node(make_node("c", cpu="2", memory="32Gi"))
    nodes.put_pod(make_pod("there", node="b", requests={"cpu": "3", "memory": "1Gi"}))
    preference = {"matchExpressions": [{"key": "good", "operator": "Exists"}]}
    wish = {"weight": 7, "preference": preference}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    for pod in (make_pod("p"), make_pod("p", requests={"cpu": "1", "memory": "2Gi"}, affinity=affinity)):
        shape = Shapes(nodes).of(pod)
        infos = [info for info in nodes if shape.refused(info) is None]
        assert len(infos) == 3
        expected = totals(scores(Wish.of(pod), infos), nodes=3)
        found = shape.scores(infos)
        # A score that all nodes have in common is left out.
        assert {one - other for one, other in zip(expected, found, strict=True)} in ({0}, {300})


def test_packing_prefers_the_fuller_node() -> None:
    nodes = Nodes()
    for name in ("empty", "full"):
        nodes.put_node(make_node(name, cpu="8", memory="8Gi"))
    nodes.put_pod(make_pod("there", node="full", requests={"cpu": "4", "memory": "4Gi"}))
    pod = make_pod("p")
    for is_packing in (False, True):
        shape = Shapes(nodes, is_packing=is_packing).of(pod)
        infos = [info for info in nodes if shape.refused(info) is None]
        best = max(zip(shape.scores(infos), infos, strict=True), key=lambda one: one[0])[1]
        assert best.name == ("full" if is_packing else "empty")


def test_nodes_that_are_gone_are_forgotten() -> None:
    nodes = Nodes()
    shapes = Shapes(nodes)
    pod = make_pod("p")
    for number in range(250):
        nodes.put_node(make_node(f"n{number}"))
        for info in nodes:
            shapes.of(pod).refused(info)
        nodes.remove_node(f"n{number}")
    assert len(shapes.of(pod)._known) <= 102
