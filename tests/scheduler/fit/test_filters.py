"""All checks together."""

from __future__ import annotations

from dray.scheduler.fit.filters import Fit, FitOptions, gated
from dray.scheduler.nodes import Nodes
from tests.scheduler.objects import make_node, make_pod, with_spec


def test_checks_come_in_the_order_of_kube_scheduler() -> None:
    nodes = Nodes()
    port = [
        {
            "name": "c",
            "ports": [{"containerPort": 1, "hostPort": 80}],
            "resources": {"requests": {"cpu": "9"}},
        }
    ]
    taint = {"key": "a", "effect": "NoSchedule"}
    nodes.put_node(with_spec(make_node("a", cpu="1"), unschedulable=True, taints=[taint]))
    nodes.put_pod(make_pod("p", node="a", containers=port))
    info = nodes.get("a")
    assert info is not None
    fit = Fit.of(make_pod(node="b", containers=port, nodeSelector={"x": "y"}), nodes)
    checks = [one.check for one in fit.refusals(info)]
    assert checks == [
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
    ]
    first = fit.refused(info)
    assert first is not None and first.check == "NodeUnschedulable"


def test_options_reach_the_checks() -> None:
    nodes = Nodes()
    nodes.put_node(with_spec(make_node("a"), taints=[{"key": "a", "value": "1", "effect": "NoSchedule"}]))
    info = nodes.get("a")
    assert info is not None
    lower = {"key": "a", "operator": "Lt", "value": "2"}
    pod = make_pod(tolerations=[lower], requests={"example.com/gpu": "1"})
    assert len(list(Fit.of(pod, nodes).refusals(info))) == 2
    options = FitOptions(served=frozenset({"example.com/gpu"}), compare_numbers=True)
    assert Fit.of(pod, nodes, options).refused(info) is None


def test_gates() -> None:
    assert gated(make_pod()) is None
    found = gated(make_pod(schedulingGates=[{"name": "x"}, {"name": "y"}]))
    assert found is not None and str(found) == "waiting for scheduling gates: [x y]"
